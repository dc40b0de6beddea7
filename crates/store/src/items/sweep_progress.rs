//! Slots of dropped blocks that are still to be removed from the index.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The position of the sweep.
#[derive(Default)]
pub(crate) struct SweepProgress {
    /// The most slots that may have become stale and are not swept yet.
    pub(super) stale: AtomicU64,
    /// The next bucket of the current sweep: of the items' index first, then of the chunks'.
    pub(super) cursor: Mutex<Option<(usize, u64)>>,
}

impl SweepProgress {
    /// Records that this many slots became stale.
    pub(super) fn add_stale(&self, slots: u64) {
        self.stale.fetch_add(slots.max(1), Ordering::Relaxed);
    }
}
