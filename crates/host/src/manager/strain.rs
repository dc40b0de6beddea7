//! What tenants suffer that no target shows: puts that are refused for want of memory, and many evictions at once.

use std::collections::HashMap;

use sublet_frontends::backend::Backend;
use sublet_store::TenantFigures;
use sublet_types::{Second, TenantId};

use crate::observe::events::{EventAmount, EventId, EventReason, Events, PostedEvent};

/// The part of what a tenant has that may be evicted within a second without an event.
const TOLD_FROM_ONE_IN: u64 = 64;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
struct StrainCounts {
    pages_refused: u64,
    items_refused: u64,
    pages_evicted: u64,
    items_evicted: u64,
}

/// Follows what tenants suffer.
#[derive(Debug, Default)]
pub(super) struct StrainReporter {
    before: HashMap<TenantId, StrainCounts>,
    at: Second,
}

impl StrainReporter {
    /// Posts what happened since the last snapshot.
    pub(super) fn update(
        &mut self,
        backend: &Backend,
        tenants: &[TenantFigures],
        now: Second,
        events: &Events,
    ) {
        let secs = u64::from(now.0.saturating_sub(self.at.0).max(1));
        self.at = now;
        let before = std::mem::take(&mut self.before);
        for tenant in tenants {
            let now = counts(backend, tenant);
            if let Some(before) = before.get(&tenant.id) {
                report(tenant, *before, now, secs, events);
            }
            self.before.insert(tenant.id, now);
        }
    }
}

fn counts(backend: &Backend, tenant: &TenantFigures) -> StrainCounts {
    StrainCounts {
        pages_refused: tenant.pages.tally.puts_refused,
        items_refused: backend.ledger.total(tenant.id).store_no_memory.get(),
        pages_evicted: tenant.pages.tally.evictions,
        items_evicted: tenant.evictions,
    }
}

fn report(
    tenant: &TenantFigures,
    before: StrainCounts,
    now: StrainCounts,
    secs: u64,
    events: &Events,
) {
    let name = &tenant.settings.name;
    // Another tenant may have the number of one that is gone.
    let more = |count: fn(&StrainCounts) -> u64| count(&now).saturating_sub(count(&before));
    let (pages, items) = (more(|n| n.pages_refused), more(|n| n.items_refused));
    let refused = [
        (EventReason::Pages, EventAmount::Pages(pages)),
        (EventReason::Items, EventAmount::Items(items)),
    ];
    for (why, amount) in refused.into_iter().filter(|(_, n)| n.value() > 0) {
        let cause = PostedEvent::new(EventId::TenantRefused, why).times(amount.value());
        events.post(cause.to_tenant(name).of(amount));
    }
    let (pages, items) = (more(|n| n.pages_evicted), more(|n| n.items_evicted));
    let evicted = [
        (
            EventReason::Pages,
            EventAmount::Pages(pages),
            tenant.pages.used.0,
        ),
        (EventReason::Items, EventAmount::Items(items), tenant.items),
    ];
    for (why, amount, left) in evicted {
        if is_much(amount.value(), left, secs) {
            let cause = PostedEvent::new(EventId::TenantEvicted, why).to_tenant(name);
            events.post(cause.of(amount));
        }
    }
}

/// Returns whether more than that part of what was there was evicted in one of these seconds, on average.
fn is_much(evicted: u64, left: u64, secs: u64) -> bool {
    evicted.saturating_mul(TOLD_FROM_ONE_IN) > (left + evicted).saturating_mul(secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_64th_in_a_second_is_much() {
        assert!(!is_much(0, 0, 1));
        assert!(!is_much(1000, 63_000, 1), "a 64th");
        assert!(is_much(1001, 63_000, 1));
        assert!(!is_much(1001, 63_000, 10), "in ten seconds");
        assert!(is_much(64_000, 1, 10));
    }
}
