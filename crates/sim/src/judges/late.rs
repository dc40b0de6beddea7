//! Whether what is held above what may be is given back in time.

use crate::machine::tier_map::SHRINK_PAGES_A_SEC;
use crate::virtual_time::{Moment, Nanos};

/// A second for the tick at which the tier begins, beside the contract's own.
const SLACK: Nanos = Nanos::secs(2);

/// Frames that may be held above a target because a block cannot be divided.
const GRANULE: u64 = 512;

/// Whether more than `most`, and a block, has been held for longer than giving it back takes. A lateness is
/// told once.
pub(super) fn is_late(deadline: &mut Option<Moment>, at: Moment, held: u64, most: u64) -> bool {
    let over = held.saturating_sub(most.saturating_add(GRANULE));
    if over == 0 {
        *deadline = None;
        return false;
    }
    let takes = Nanos::secs(over.div_ceil(SHRINK_PAGES_A_SEC)) + SLACK;
    let late = *deadline.get_or_insert(at + takes) < at;
    if late {
        *deadline = None;
    }
    late
}
