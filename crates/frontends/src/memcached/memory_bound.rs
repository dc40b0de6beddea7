//! The bound on the memory that all connections together hold for values on their way in and for long lines.

use std::sync::atomic::{AtomicUsize, Ordering};

use sublet_types::Bytes;

/// The least bound, in bytes. The bound is larger if two items of the largest size need more.
pub(super) const GATHERING_MIN: Bytes = Bytes::mib(64);

/// A bound on memory that connections share.
#[derive(Debug)]
pub(super) struct MemoryBound {
    reserved: AtomicUsize,
    bound: usize,
}

impl MemoryBound {
    /// Makes a bound of that many bytes.
    pub(super) fn new(bound: usize) -> MemoryBound {
        MemoryBound {
            reserved: AtomicUsize::new(0),
            bound,
        }
    }

    /// Reserves `bytes`. Returns `false` and reserves nothing if that would exceed the bound.
    pub(super) fn try_reserve(&self, bytes: usize) -> bool {
        let update = |reserved: usize| reserved.checked_add(bytes).filter(|&sum| sum <= self.bound);
        self.reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
            .is_ok()
    }

    /// Returns reserved `bytes`.
    pub(super) fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Returns whether so much is reserved that others may soon get nothing.
    pub(super) fn is_short(&self) -> bool {
        self.reserved() > self.bound / 2
    }

    /// Returns the bytes that are reserved now.
    pub(super) fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }
}
