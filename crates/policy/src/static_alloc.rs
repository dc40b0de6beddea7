//! `static-alloc`: an equal share for each tenant (SmarTmem §III-E.1).
//!
//! ```text
//! Algorithm 2   mm_target ← local_tmem / num_vms, for every VM
//! ```
//!
//! Targets change only if a tenant comes or goes, or if the total changes. The remainder of the division goes to the
//! smallest ids, page by page, so that nothing is unassigned. Weights do not count: the paper has none.

use sublet_types::{Snapshot, TenantId};

use crate::apportion::{WeightedClaim, apportion};
use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;

/// The policy that gives every tenant the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StaticAllocPolicy;

impl Policy for StaticAllocPolicy {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        let tenants = snapshot.tenants.len() as u64;
        let shares = equal(
            snapshot.total.0,
            snapshot.tenants.iter().map(|tenant| tenant.id),
        );
        let propose = |share| Proposal::of(share, Reason::EqualShare { tenants });
        shares.into_iter().map(propose).collect()
    }
}

/// The total in equal shares, in the order of the given ids.
pub(crate) fn equal(total: u64, ids: impl Iterator<Item = TenantId>) -> Vec<u64> {
    let parts: Vec<WeightedClaim> = ids.map(|id| WeightedClaim { id, weight: 1 }).collect();
    apportion(total, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pages, snapshot, tenant};
    use sublet_types::{Pages, Weight};

    #[test]
    fn algorithm_2_divides_equally_whatever_the_weights() {
        let mut heavy = tenant(2);
        heavy.weight = Weight(900);
        let tenants = vec![tenant(1), heavy, tenant(3)];
        let decision = StaticAllocPolicy.decide(&snapshot(1000, tenants));
        assert_eq!(pages(&decision), [334, 333, 333]);
        assert_eq!(decision.targets.unassigned, Pages(0));
    }

    #[test]
    fn a_ceiling_leaves_pages_unassigned() {
        let mut small = tenant(1);
        small.ceiling = Some(Pages(100));
        let decision = StaticAllocPolicy.decide(&snapshot(1000, vec![small, tenant(2)]));
        assert_eq!(pages(&decision), [100, 500]);
        assert_eq!(decision.targets.unassigned, Pages(400));
    }
}
