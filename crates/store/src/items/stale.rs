//! Slots of dropped blocks that are yet to be removed from the index.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Where the sweep is.
#[derive(Default)]
pub(crate) struct Sweeper {
    /// Slots that were made stale and not yet swept, at the most.
    pub(super) stale: AtomicU64,
    /// The next bucket of the sweep under way: of the items' index, then of the chunks'.
    pub(super) cursor: Mutex<Option<(usize, u64)>>,
}

impl Sweeper {
    /// Hears that so many slots became stale.
    pub(super) fn note_stale(&self, slots: u64) {
        self.stale.fetch_add(slots.max(1), Ordering::Relaxed);
    }
}
