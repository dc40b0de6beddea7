//! Checks that memory held above a limit is given back in time.

use crate::machine::tier_map::SHRINK_PAGES_A_SEC;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// One second more for the tick at which the tier begins, besides the contract's own second.
const SLACK: VirtualDuration = VirtualDuration::secs(2);

/// Frames that may be held above a target, because a block cannot be divided.
const GRANULE: u64 = 512;

/// Returns whether more than `most` and a block has been held for longer than giving it back takes. Each lateness is
/// reported once.
pub(super) fn is_late(
    deadline: &mut Option<VirtualInstant>,
    at: VirtualInstant,
    held: u64,
    most: u64,
) -> bool {
    let over = held.saturating_sub(most.saturating_add(GRANULE));
    if over == 0 {
        *deadline = None;
        return false;
    }
    let takes = VirtualDuration::secs(over.div_ceil(SHRINK_PAGES_A_SEC)) + SLACK;
    let late = *deadline.get_or_insert(at + takes) < at;
    if late {
        *deadline = None;
    }
    late
}
