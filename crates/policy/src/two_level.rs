//! `two-level`: the first level of vMCA's two (§III-D, *TLP*).
//!
//! ```text
//! Algorithm 2   ttmem ← the node's pages, borrowed ones included
//!               for every VM:
//!                 if puts_fail_rate > 0:               mm_target ← mm_target + P × ttmem / 100
//!                 else if mm_target - use > threshold: mm_target ← (100 - P) × mm_target / 100
//!               if Σ mm_target > ttmem:
//!                 send Grant-Any(node, Σ mm_target - ttmem)
//!                 mm_target ← ttmem / Σ mm_target × mm_target, for every VM
//! ```
//!
//! It is the loop of `smart-alloc`, and asks other nodes for what the scaling down takes away. Each tenant's part of
//! the Grant-Any is the `wanted` of its target. "There's no guarantee it will get them, thus it's necessary to
//! readjust". The total may hold borrowed pages, and with them next second's targets grow. "Initially, all VMs have an
//! equal portion." A host without peers asks nobody.

use sublet_types::{Pages, Snapshot};

use crate::clamp;
use crate::decide::{AskingRule, Policy};
use crate::decision::Proposal;
use crate::smart_alloc::StepSize;

/// The policy that asks other nodes for what this one lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TwoLevelPolicy {
    pace: StepSize,
}

impl TwoLevelPolicy {
    /// Makes the policy with steps of `percent` (P). A tenant may leave up to `threshold` unused.
    pub(crate) fn new(percent: f64, threshold: Pages) -> TwoLevelPolicy {
        let pace = StepSize { percent, threshold };
        TwoLevelPolicy { pace }
    }
}

impl Policy for TwoLevelPolicy {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        let step = |tenant| self.pace.step(snapshot, tenant);
        let mut proposals: Vec<Proposal> = snapshot.tenants.iter().map(step).collect();
        let asked: Vec<Option<Pages>> = proposals.iter().map(|proposal| proposal.pages).collect();
        let within = clamp::bounded(snapshot, &asked);
        let fitted = clamp::fit(snapshot, &asked);
        for (n, proposal) in proposals.iter_mut().enumerate() {
            proposal.wanted = lack(within[n], fitted[n]);
        }
        proposals
    }

    fn asking(&self) -> AskingRule {
        AskingRule::ByPolicy
    }
}

fn lack(asked: Option<Pages>, fitted: Option<Pages>) -> Pages {
    match (asked, fitted) {
        (Some(asked), Some(fitted)) => Pages(asked.0.saturating_sub(fitted.0)),
        _ => Pages(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pages, snapshot, tenant};
    use sublet_types::TenantSnapshot;

    fn at(id: u16, target: u64, failed: u64) -> TenantSnapshot {
        TenantSnapshot {
            target: Some(Pages(target)),
            held: Pages(target),
            puts: failed,
            ..tenant(id)
        }
    }

    fn decide(total: u64, tenants: Vec<TenantSnapshot>) -> (Vec<u64>, Vec<u64>) {
        let decision = TwoLevelPolicy::new(2.0, Pages(512)).decide(&snapshot(total, tenants));
        let wanted = decision.targets.tenants.iter().map(|one| one.wanted.0);
        (pages(&decision), wanted.collect())
    }

    #[test]
    fn everybody_begins_with_an_equal_portion_and_wants_nothing_more() {
        assert_eq!(
            decide(9000, vec![tenant(1), tenant(2), tenant(3)]),
            (vec![3000; 3], vec![0; 3])
        );
    }

    #[test]
    fn what_is_scaled_away_is_wanted_from_other_nodes() {
        // 5200 + 5200 = 10,400: Grant-Any(400).
        assert_eq!(
            decide(10_000, vec![at(1, 5000, 3), at(2, 5000, 1)]),
            (vec![5000, 5000], vec![200, 200])
        );
        // 6200 + 4000 = 10,200: Grant-Any(200), each in proportion.
        assert_eq!(
            decide(10_000, vec![at(1, 6000, 3), at(2, 4000, 0)]),
            (vec![6078, 3922], vec![122, 78])
        );
    }

    #[test]
    fn nothing_is_wanted_beyond_a_ceiling() {
        let mut full = at(1, 5000, 3);
        full.ceiling = Some(Pages(5000));
        assert_eq!(
            decide(10_000, vec![full, at(2, 4000, 0)]),
            (vec![5000, 4000], vec![0, 0])
        );
    }

    #[test]
    fn borrowed_pages_let_the_targets_grow() {
        assert_eq!(
            decide(10_500, vec![at(1, 5000, 3), at(2, 5000, 1)]),
            (vec![5210, 5210], vec![0, 0])
        );
    }
}
