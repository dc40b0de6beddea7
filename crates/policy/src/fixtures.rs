//! Snapshots for the tests.

use proptest::prelude::*;
use sublet_types::{Curve, Pages, Second, Snapshot, TenantId, TenantSnapshot, Weight};

use crate::Decision;

/// A tenant of weight 1 that has done nothing yet.
pub(crate) fn tenant(id: u16) -> TenantSnapshot {
    TenantSnapshot {
        id: TenantId(id),
        weight: Weight(1),
        floor: None,
        ceiling: None,
        held: Pages(0),
        used: Pages(0),
        target: None,
        puts: 0,
        puts_succeeded: 0,
        puts_ever: 0,
        puts_failed_ever: 0,
        gets: 0,
        hits: 0,
        flushes: 0,
        shared: Pages(0),
        curve: None,
    }
}

/// A snapshot of these tenants, with `total` pages for all of them.
pub(crate) fn snapshot(total: u64, tenants: Vec<TenantSnapshot>) -> Snapshot {
    Snapshot {
        at: Second(1),
        total: Pages(total),
        free: Pages(total),
        tenants,
    }
}

/// The targets of a dividing policy, in pages.
pub(crate) fn pages(decision: &Decision) -> Vec<u64> {
    let pages = |target: &sublet_types::Target| target.pages.expect("the policy divides").0;
    decision.targets.tenants.iter().map(pages).collect()
}

prop_compose! {
    fn any_curve()(steps in prop::collection::vec((1u64..5000, prop_oneof![
        8 => 0.0..1e6f64, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY), 1 => Just(-1.0),
    ]), 0..12)) -> Curve {
        let mut at = (0, 0.0);
        let mut points = vec![(Pages(0), 0.0)];
        for (pages, hits) in steps {
            at = (at.0 + pages, at.1 + hits);
            points.push((Pages(at.0), at.1));
        }
        Curve { points }
    }
}

prop_compose! {
    fn any_tenant()(
        (weight, floor, ceiling) in (0u32..1000, prop::option::weighted(0.3, 0u64..5000), prop::option::weighted(0.3, 0u64..50_000)),
        (held, used, target) in (0u64..20_000, 0u64..20_000, prop::option::weighted(0.8, 0u64..20_000)),
        (puts, failed, ever) in (0u64..1000, 0u64..1000, 0u64..2),
        (gets, hits, flushes, shared) in (0u64..1000, 0u64..1000, 0u64..1000, 0u64..1000),
        curve in prop::option::of(any_curve()),
    ) -> TenantSnapshot {
        TenantSnapshot {
            weight: Weight(weight),
            floor: floor.map(Pages),
            ceiling: ceiling.map(Pages),
            held: Pages(held),
            used: Pages(used),
            target: target.map(Pages),
            puts,
            puts_succeeded: puts.saturating_sub(failed),
            puts_ever: ever * puts,
            gets,
            hits,
            flushes,
            shared: Pages(shared),
            curve,
            ..tenant(0)
        }
    }
}

prop_compose! {
    /// Anything that a store could report, and some things that it could not.
    pub(crate) fn any_snapshot()(
        at in 0u32..1000,
        total in prop_oneof![1 => Just(0), 8 => 0u64..60_000, 1 => any::<u64>()],
        mut tenants in prop::collection::vec(any_tenant(), 0..12),
    ) -> Snapshot {
        for (n, tenant) in tenants.iter_mut().enumerate() {
            tenant.id = TenantId(n as u16 * 7 % 13);
        }
        Snapshot { at: Second(at), ..snapshot(total, tenants) }
    }
}
