//! Whether frames are conserved.

use sublet_types::Pages;

use super::late::is_late;
use super::{Happening, Judge, Wrong};
use crate::virtual_time::Moment;

/// Frames are conserved: what is used is held, held and free are the whole, and no more than that is held
/// for long.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// When more than the whole must not be held any more.
    deadline: Option<Moment>,
}

impl Judge for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn hear(&mut self, at: Moment, happening: &Happening<'_>) -> Option<Wrong> {
        let Happening::Counted(census) = happening else {
            return None;
        };
        let tenants = (0u16..).zip(&census.tenants);
        for (number, count) in tenants {
            if count.used > count.held {
                return Some(Wrong::UsedAboveHeld(number, count.used.0, count.held.0));
            }
        }
        let held: Pages = census.tenants.iter().map(|count| count.held).sum();
        let is_whole = held.0 + census.free.0 == census.total.0.max(held.0);
        if !is_whole {
            return Some(Wrong::Sum {
                held: held.0,
                free: census.free.0,
                total: census.total.0,
            });
        }
        self.fits(at, held.0, census.total.0)
    }
}

impl Frames {
    fn fits(&mut self, at: Moment, held: u64, total: u64) -> Option<Wrong> {
        if !is_late(&mut self.deadline, at, held, total) {
            return None;
        }
        Some(Wrong::OverTotal { held, total })
    }
}
