//! `greedy`: no targets. The tenant that puts first takes what is free.
//!
//! This is Xen's own way, which SmarTmem (§III-E) and vMCA (*greedy-local*, §III-D) compare themselves with. A put
//! succeeds as long as a page is free. If none is free, the store makes the tenant with the largest fairness give way.

use sublet_types::Snapshot;

use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;

/// The policy that sets no targets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GreedyPolicy;

impl Policy for GreedyPolicy {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        let unbound = |_| Proposal::unbound(Reason::Unbound);
        snapshot.tenants.iter().map(unbound).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{snapshot, tenant};
    use sublet_types::Pages;

    #[test]
    fn nobody_has_a_target_and_nothing_is_withheld() {
        let decision = GreedyPolicy.decide(&snapshot(1000, vec![tenant(1), tenant(2)]));
        let targets = decision.targets;
        assert!(targets.tenants.iter().all(|target| target.pages.is_none()));
        assert_eq!(targets.unassigned, Pages(0));
    }
}
