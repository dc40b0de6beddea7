//! A flush that was put off: at its moment it takes everything that was stored before, and nothing that is stored after.
//!
//! Nobody waits for the moment. Whoever acts for the tenant looks at the clock before each request, while a flush is put off,
//! and the first that finds the moment past flushes before it goes on.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sublet_types::Nanos;

/// No flush is put off.
const NEVER: u64 = u64::MAX;

/// A tenant's flush that was put off, if there is one.
pub(crate) struct Deferred {
    due: AtomicU64,
    /// Held by who flushes: others go on only when that is done.
    flushing: Mutex<()>,
}

impl Default for Deferred {
    fn default() -> Deferred {
        Deferred {
            due: AtomicU64::new(NEVER),
            flushing: Mutex::default(),
        }
    }
}

impl Deferred {
    /// Puts a flush off, in place of one that was put off before.
    pub(crate) fn set(&self, due: Nanos) {
        self.due.store(due.0.min(NEVER - 1), Ordering::Release);
    }

    /// Takes back what was put off.
    pub(crate) fn cancel(&self) {
        self.due.store(NEVER, Ordering::Release);
    }

    /// Whether a flush is put off.
    pub(crate) fn is_set(&self) -> bool {
        self.due() != NEVER
    }

    /// Whether one was put off until `moment` or before.
    pub(crate) fn is_due(&self, moment: Nanos) -> bool {
        self.due() <= moment.0
    }

    fn due(&self) -> u64 {
        self.due.load(Ordering::Acquire)
    }

    /// Has `flush` run if a flush is due; another may be put off meanwhile. False where somebody else flushes, for whom the caller
    /// has to [wait](Deferred::await_flush).
    pub(crate) fn try_take(&self, moment: Nanos, flush: impl FnOnce()) -> bool {
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

    /// Waits until nobody flushes.
    pub(crate) fn await_flush(&self) {
        drop(self.flushing.lock());
    }
}
