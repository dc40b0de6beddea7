//! `weights`: no targets. The store divides by weight whenever it is full (Mortar §5.2).
//!
//! ```text
//! r_i = w_i / Σ w        f_i = (c_i / P) / r_i
//! ```
//!
//! c is what a tenant holds, P what there is. "If there is spare capacity, Mortar will always allow a VM to add the
//! object, regardless of its fairness. When there is no space left, Mortar finds the VM with the largest f and evicts
//! data stored by that VM." The store does the finding and evicting at the put. The policy only reports each tenant's
//! fairness.

use sublet_types::{Snapshot, TenantSnapshot};

use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;

/// The policy that leaves the division to the store's fairness.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WeightsPolicy;

impl Policy for WeightsPolicy {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        let sum: f64 = snapshot
            .tenants
            .iter()
            .map(|tenant| f64::from(tenant.weight.0))
            .sum();
        let propose = |tenant| {
            let fairness = fairness(tenant, snapshot, sum);
            Proposal::unbound(Reason::Fairness { fairness })
        };
        snapshot.tenants.iter().map(propose).collect()
    }
}

/// f of Mortar §5.2. It is 0 if there is nothing to hold or the tenant has no weight.
fn fairness(tenant: &TenantSnapshot, snapshot: &Snapshot, weights: f64) -> f64 {
    if snapshot.total.0 == 0 || tenant.weight.0 == 0 {
        return 0.0;
    }
    let part = tenant.held.0 as f64 / snapshot.total.0 as f64;
    part * weights / f64::from(tenant.weight.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{snapshot, tenant};
    use sublet_types::{Pages, Weight};

    fn holding(id: u16, weight: u32, held: u64) -> TenantSnapshot {
        TenantSnapshot {
            weight: Weight(weight),
            held: Pages(held),
            ..tenant(id)
        }
    }

    #[test]
    fn fairness_is_the_part_held_over_the_part_of_the_weights() {
        // The weights of Mortar's figure 15.
        let tenants = vec![
            holding(1, 200, 2200),
            holding(2, 300, 3000),
            holding(3, 600, 3000),
        ];
        let decision = WeightsPolicy.decide(&snapshot(11_000, tenants));
        let fairness: Vec<f64> = decision
            .explanations
            .iter()
            .map(|why| match why.reason {
                Reason::Fairness { fairness } => fairness,
                other => panic!("{other:?}"),
            })
            .collect();
        for (is, ought) in fairness.iter().zip([1.1, 1.0, 0.5]) {
            assert!((is - ought).abs() < 1e-12, "{fairness:?}");
        }
        assert!(
            decision
                .targets
                .tenants
                .iter()
                .all(|target| target.pages.is_none())
        );
    }

    #[test]
    fn nothing_to_hold_and_no_weight_are_no_division_by_zero() {
        for snapshot in [
            snapshot(0, vec![holding(1, 1, 5)]),
            snapshot(9, vec![holding(1, 0, 5)]),
        ] {
            let decision = WeightsPolicy.decide(&snapshot);
            let reason = Reason::Fairness { fairness: 0.0 };
            assert_eq!(decision.explanations[0].reason, reason);
        }
    }
}
