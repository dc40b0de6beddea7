//! `smart-alloc`: targets that follow failed puts (SmarTmem §III-E.3).
//!
//! ```text
//! Algorithm 4   for every VM:
//!                 if failed_puts > 0:                 mm_target ← mm_target + P × local_tmem / 100
//!                 else if mm_target - use > threshold: mm_target ← (100 - P) × mm_target / 100
//! (1)           Σ mm_target = local_tmem
//! (2)           mm_target_i ← local_tmem × mm_target_i / Σ mm_target
//! ```
//!
//! The algorithm and equation 1 differ. The algorithm applies equation 2 only if the sum exceeds the total. The
//! equation asks that the sum always be the total. The code follows the algorithm. If targets were scaled up as well,
//! the scaling would undo at once the decrease of a tenant that leaves memory unused. Equation 2 stands in
//! [`crate::Policy::decide`], as every policy's targets pass through it.
//!
//! *Use* is what the gate compares with the target: what the tenant *holds*, not what lives in that. If it were the
//! latter, a tenant whose blocks are a tenth holes would seem to leave memory unused for ever.
//!
//! The paper does not say what P is in general (its best were 0.75, 4 and 6 %) or what the threshold is. It does not
//! say either with which target a VM begins. Here it is an equal share, as vMCA says of the same algorithm.

use sublet_types::{Pages, Snapshot, TenantSnapshot};

use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;

/// The policy that raises tenants with failed puts and lowers tenants that leave memory unused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmartAllocPolicy {
    pace: StepSize,
}

impl SmartAllocPolicy {
    /// Makes the policy with steps of `percent` (P). A tenant may leave up to `threshold` unused.
    pub(crate) fn new(percent: f64, threshold: Pages) -> SmartAllocPolicy {
        let pace = StepSize { percent, threshold };
        SmartAllocPolicy { pace }
    }
}

impl Policy for SmartAllocPolicy {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        let step = |tenant| self.pace.step(snapshot, tenant);
        snapshot.tenants.iter().map(step).collect()
    }
}

/// How far a target goes in one decision. vMCA's first level uses the same steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepSize {
    /// P: a part of the total upwards, a part of the target downwards.
    pub(crate) percent: f64,
    /// Unused memory up to this is tolerated, so that targets do not swing.
    pub(crate) threshold: Pages,
}

impl StepSize {
    /// One pass of the algorithm's loop, for one tenant.
    pub(crate) fn step(&self, snapshot: &Snapshot, tenant: &TenantSnapshot) -> Proposal {
        let Some(Pages(current)) = tenant.target else {
            let tenants = snapshot.tenants.len() as u64;
            return Proposal::of(
                snapshot.total.0 / tenants.max(1),
                Reason::Initial { tenants },
            );
        };
        let failed = tenant.puts_failed();
        let unused = Pages(current.saturating_sub(tenant.held.0));
        if failed > 0 {
            let step = percent_of(self.percent, snapshot.total.0);
            let reason = Reason::FailedPuts {
                failed,
                step: Pages(step),
            };
            Proposal::of(current.saturating_add(step), reason)
        } else if unused > self.threshold {
            let lowered = percent_of(100.0 - self.percent, current);
            let reason = Reason::UnderUse {
                unused,
                threshold: self.threshold,
                step: Pages(current - lowered),
            };
            Proposal::of(lowered, reason)
        } else {
            Proposal::of(current, Reason::Fitting { unused })
        }
    }
}

/// `percent` of `of` in whole pages, and never more than `of` if `percent` is at most 100.
pub(crate) fn percent_of(percent: f64, of: u64) -> u64 {
    let part = (percent * of as f64 / 100.0) as u64;
    if percent <= 100.0 { part.min(of) } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::TargetBound;
    use crate::fixtures::{pages, snapshot, tenant};

    /// A tenant with a target, what it holds of it, and failed puts.
    pub(crate) fn at(id: u16, target: u64, held: u64, failed: u64) -> TenantSnapshot {
        TenantSnapshot {
            target: Some(Pages(target)),
            held: Pages(held),
            used: Pages(held),
            puts: 100 + failed,
            puts_succeeded: 100,
            ..tenant(id)
        }
    }

    fn decide(percent: f64, total: u64, tenants: Vec<TenantSnapshot>) -> crate::Decision {
        SmartAllocPolicy::new(percent, Pages(512)).decide(&snapshot(total, tenants))
    }

    #[test]
    fn everybody_begins_with_an_equal_share() {
        let decision = decide(
            2.0,
            10_000,
            vec![tenant(1), tenant(2), tenant(3), tenant(4)],
        );
        assert_eq!(pages(&decision), [2500; 4]);
        assert_eq!(decision.targets.unassigned, Pages(0));
    }

    #[test]
    fn a_newcomer_begins_with_an_equal_share_that_the_others_make_room_for() {
        let held = |id| at(id, 5000, 5000, 0);
        let decision = decide(2.0, 10_000, vec![held(1), held(2), tenant(3)]);
        // 5000 + 5000 + 3333 exceed 10,000: each times 10,000 / 13,333.
        assert_eq!(pages(&decision), [3750, 3750, 2500]);
    }

    #[test]
    fn failed_puts_raise_a_target_by_p_of_the_total() {
        let decision = decide(
            2.0,
            10_000,
            vec![at(1, 3000, 3000, 7), at(2, 4000, 4000, 0)],
        );
        assert_eq!(pages(&decision), [3200, 4000]);
        assert_eq!(decision.targets.unassigned, Pages(2800));
        let reason = Reason::FailedPuts {
            failed: 7,
            step: Pages(200),
        };
        assert_eq!(decision.explanations[0].reason, reason);
    }

    #[test]
    fn an_unused_target_falls_by_p_of_itself_only_beyond_the_threshold() {
        let tenants = vec![at(1, 4000, 3488, 0), at(2, 4000, 3487, 0)];
        let decision = decide(2.0, 10_000, tenants);
        assert_eq!(pages(&decision), [4000, 3920]);
        assert_eq!(
            decision.explanations[1].reason,
            Reason::UnderUse {
                unused: Pages(513),
                threshold: Pages(512),
                step: Pages(80),
            }
        );
    }

    #[test]
    fn equation_2_scales_down_what_exceeds_the_total() {
        // 4200 + 4200 + 1960 = 10,360 > 10,000.
        let tenants = vec![
            at(1, 4000, 4000, 1),
            at(2, 4000, 4000, 9),
            at(3, 2000, 0, 0),
        ];
        let decision = decide(2.0, 10_000, tenants);
        assert_eq!(pages(&decision), [4054, 4054, 1892]);
        assert_eq!(decision.targets.unassigned, Pages(0));
        assert_eq!(
            decision.explanations[2].bound,
            Some(TargetBound::ScaledDown {
                asked: Pages(1960),
                together: Pages(10_360),
                total: Pages(10_000),
            })
        );
    }

    #[test]
    fn a_decrease_is_not_undone_by_scaling_up() {
        let decision = decide(2.0, 10_000, vec![at(1, 5000, 100, 0), at(2, 5000, 5000, 0)]);
        assert_eq!(pages(&decision), [4900, 5000]);
        assert_eq!(decision.targets.unassigned, Pages(100));
    }

    #[test]
    fn memory_wanders_from_who_leaves_it_unused_to_who_fails() {
        let mut policy = SmartAllocPolicy::new(2.0, Pages(512));
        let mut targets = vec![5000, 5000];
        for _ in 0..200 {
            let tenants = vec![at(1, targets[0], 100, 0), at(2, targets[1], targets[1], 50)];
            targets = pages(&policy.decide(&snapshot(10_000, tenants)));
        }
        assert!(targets[0] <= 612, "{targets:?}");
        assert!(targets[1] >= 9388, "{targets:?}");
    }

    #[test]
    fn fractions_of_a_percent_count() {
        let decision = decide(0.75, 100_000, vec![at(1, 1000, 1000, 1)]);
        assert_eq!(pages(&decision), [1750]);
    }

    #[test]
    fn the_largest_amounts_saturate() {
        assert_eq!(percent_of(100.0, u64::MAX), u64::MAX);
        let decision = decide(100.0, u64::MAX, vec![at(1, u64::MAX, 0, 1)]);
        assert_eq!(pages(&decision), [u64::MAX]);
    }
}
