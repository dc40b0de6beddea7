//! Checks that frames are conserved.

use sublet_types::Pages;

use super::lateness::is_late;
use super::{Judge, TierEvent, Violation};
use crate::virtual_time::VirtualInstant;

/// Checks that frames are conserved: used frames are held, and held and free frames make up the whole. More than the
/// whole may be held only for a short time.
#[derive(Debug, Default)]
pub(super) struct FramesJudge {
    /// When the tenants must no longer hold more than the whole.
    deadline: Option<VirtualInstant>,
}

impl Judge for FramesJudge {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn check(&mut self, at: VirtualInstant, event: &TierEvent<'_>) -> Option<Violation> {
        let TierEvent::Counts(counts) = event else {
            return None;
        };
        let tenants = (0u16..).zip(&counts.tenants);
        for (number, count) in tenants {
            if count.used > count.held {
                return Some(Violation::UsedAboveHeld(number, count.used.0, count.held.0));
            }
        }
        let held: Pages = counts.tenants.iter().map(|count| count.held).sum();
        let is_whole = held.0 + counts.free.0 == counts.total.0.max(held.0);
        if !is_whole {
            return Some(Violation::Sum {
                held: held.0,
                free: counts.free.0,
                total: counts.total.0,
            });
        }
        self.fits(at, held.0, counts.total.0)
    }
}

impl FramesJudge {
    fn fits(&mut self, at: VirtualInstant, held: u64, total: u64) -> Option<Violation> {
        if !is_late(&mut self.deadline, at, held, total) {
            return None;
        }
        Some(Violation::OverTotal { held, total })
    }
}
