//! A deferred flush. At its moment it removes everything that was stored before, and nothing that is stored after.
//!
//! No thread waits for the moment. While a flush is deferred, each thread that acts for the tenant checks the clock
//! before each request. The first that finds the moment past flushes before it goes on.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sublet_types::Nanos;

/// No flush is deferred.
const NEVER: u64 = u64::MAX;

/// A tenant's deferred flush, if there is one.
pub(crate) struct DeferredFlush {
    due: AtomicU64,
    /// Held by the thread that flushes. Others go on only when it is done.
    flushing: Mutex<()>,
}

impl Default for DeferredFlush {
    fn default() -> DeferredFlush {
        DeferredFlush {
            due: AtomicU64::new(NEVER),
            flushing: Mutex::default(),
        }
    }
}

impl DeferredFlush {
    /// Defers a flush, in place of one that was deferred before.
    pub(crate) fn set(&self, due: Nanos) {
        self.due.store(due.0.min(NEVER - 1), Ordering::Release);
    }

    /// Cancels the deferred flush.
    pub(crate) fn cancel(&self) {
        self.due.store(NEVER, Ordering::Release);
    }

    /// Returns whether a flush is deferred.
    pub(crate) fn is_set(&self) -> bool {
        self.due() != NEVER
    }

    /// Returns whether a flush was deferred until `moment` or before.
    pub(crate) fn is_due(&self, moment: Nanos) -> bool {
        self.due() <= moment.0
    }

    fn due(&self) -> u64 {
        self.due.load(Ordering::Acquire)
    }

    /// Runs `flush` if a flush is due. Another may be deferred meanwhile. Returns false if another thread flushes; the
    /// caller then [waits](DeferredFlush::await_flush) for it.
    pub(crate) fn try_run(&self, moment: Nanos, flush: impl FnOnce()) -> bool {
        let Some(_flushing) = self.flushing.try_lock() else {
            return false;
        };
        let due = self.due();
        if due <= moment.0 {
            flush();
            let (acquired, failed) = (Ordering::AcqRel, Ordering::Acquire);
            let _ = self.due.compare_exchange(due, NEVER, acquired, failed);
        }
        true
    }

    /// Waits until no thread flushes.
    pub(crate) fn await_flush(&self) {
        drop(self.flushing.lock());
    }
}
