//! Whether targets are obeyed.

use super::late::is_late;
use super::{Happening, Judge, Wrong};
use crate::machine::tier::Census;
use crate::virtual_time::Moment;

/// Who is over its target is brought down within excess ÷ rate + 1 second (`contracts.md`).
#[derive(Debug)]
pub(super) struct Obedience {
    debts: Vec<Debt>,
}

/// A tenant above its target.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    /// When it must not be above it any more.
    deadline: Option<Moment>,
    /// The largest target since then: one that sinks all the time is obeyed like one that stays.
    most: u64,
}

impl Obedience {
    pub(super) fn of(tenants: usize) -> Obedience {
        Obedience {
            debts: vec![Debt::default(); tenants],
        }
    }

    fn look(&mut self, at: Moment, census: &Census) -> Option<Wrong> {
        let tenants = (0u16..).zip(&census.tenants).zip(&mut self.debts);
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
                return Some(Wrong::OverTarget {
                    tenant,
                    held,
                    target,
                });
            }
        }
        None
    }
}

impl Judge for Obedience {
    fn name(&self) -> &'static str {
        "targets"
    }

    fn hear(&mut self, at: Moment, happening: &Happening<'_>) -> Option<Wrong> {
        match happening {
            Happening::Target(tenant, target) => {
                let debt = &mut self.debts[usize::from(tenant.0)];
                debt.most = debt.most.max(target.map_or(u64::MAX, |target| target.0));
                None
            }
            Happening::Counted(census) => self.look(at, census),
            _ => None,
        }
    }
}
