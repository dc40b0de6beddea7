//! The bound on memory for values on their way in and for long lines, of all connections together.

use std::sync::atomic::{AtomicUsize, Ordering};

use sublet_types::Bytes;

/// Memory for values on their way in and for long lines, of all connections together: at least this, and two items of the largest
/// size. Bytes.
pub(super) const GATHERING_MIN: Bytes = Bytes::mib(64);

/// A bound on memory that connections share.
#[derive(Debug)]
pub(super) struct MemoryBound {
    taken: AtomicUsize,
    bound: usize,
}

impl MemoryBound {
    /// A bound of that many bytes.
    pub(super) fn new(bound: usize) -> MemoryBound {
        MemoryBound {
            taken: AtomicUsize::new(0),
            bound,
        }
    }

    /// Takes `bytes`, unless that is beyond the bound.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let update = |taken: usize| taken.checked_add(bytes).filter(|&sum| sum <= self.bound);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
            .is_ok()
    }

    /// Gives `bytes` back that were taken.
    pub(super) fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// So much is taken that others may soon get none.
    pub(super) fn is_short(&self) -> bool {
        self.taken() > self.bound / 2
    }

    /// Bytes that are taken now.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}
