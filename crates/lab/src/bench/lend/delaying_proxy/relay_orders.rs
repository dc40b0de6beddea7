//! What a relay's thread and its owner share.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::added_delay::AddedDelay;

/// How much longer than asked a relay held what it carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::bench::lend) struct HoldTally {
    /// Chunks of bytes that it carried.
    pub(in crate::bench::lend) chunks: u64,
    too_long: Duration,
}

impl HoldTally {
    pub(super) fn add(&mut self, too_long: Duration) {
        self.chunks += 1;
        self.too_long += too_long;
    }

    /// How much longer than asked it held a chunk, in the mean.
    pub(in crate::bench::lend) fn mean(&self) -> Duration {
        let chunks = u32::try_from(self.chunks).unwrap_or(u32::MAX);
        self.too_long / chunks.max(1)
    }
}

/// What the relay's thread and its owner share.
pub(super) struct RelayOrders {
    /// The delay, and since when it is in force.
    pub(super) delay: Mutex<(AddedDelay, Instant)>,
    pub(super) tally: Mutex<HoldTally>,
    pub(super) is_ending: AtomicBool,
}
