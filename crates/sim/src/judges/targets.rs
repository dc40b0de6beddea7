//! Checks that targets are obeyed.

use super::lateness::is_late;
use super::{Judge, TierEvent, Violation};
use crate::machine::tier::TierCounts;
use crate::virtual_time::VirtualInstant;

/// Checks that a tenant over its target is brought down within excess ÷ rate + 1 second (`contracts.md`).
#[derive(Debug)]
pub(super) struct TargetsJudge {
    debts: Vec<TargetExcess>,
}

/// A tenant above its target.
#[derive(Clone, Copy, Debug, Default)]
struct TargetExcess {
    /// When it must no longer be above its target.
    deadline: Option<VirtualInstant>,
    /// The largest target since then. So a target that keeps sinking is obeyed like one that stays.
    most: u64,
}

impl TargetsJudge {
    pub(super) fn of(tenants: usize) -> TargetsJudge {
        TargetsJudge {
            debts: vec![TargetExcess::default(); tenants],
        }
    }

    fn check_counts(&mut self, at: VirtualInstant, counts: &TierCounts) -> Option<Violation> {
        let tenants = (0u16..).zip(&counts.tenants).zip(&mut self.debts);
        for ((tenant, count), debt) in tenants {
            let (held, target) = (
                count.held.0,
                count.target.map_or(u64::MAX, |target| target.0),
            );
            debt.most = match debt.deadline {
                Some(_) => debt.most.max(target),
                None => target,
            };
            if is_late(&mut debt.deadline, at, held, debt.most) {
                return Some(Violation::OverTarget {
                    tenant,
                    held,
                    target,
                });
            }
        }
        None
    }
}

impl Judge for TargetsJudge {
    fn name(&self) -> &'static str {
        "targets"
    }

    fn check(&mut self, at: VirtualInstant, event: &TierEvent<'_>) -> Option<Violation> {
        match event {
            TierEvent::Target(tenant, target) => {
                let debt = &mut self.debts[usize::from(tenant.0)];
                debt.most = debt.most.max(target.map_or(u64::MAX, |target| target.0));
                None
            }
            TierEvent::Counts(counts) => self.check_counts(at, counts),
            _ => None,
        }
    }
}
