//! A signal that something ends, for threads that sleep until then.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The end. It is declared once, and all threads see it.
#[derive(Default)]
pub(crate) struct ShutdownSignal {
    declared: Mutex<bool>,
    news: Condvar,
}

impl ShutdownSignal {
    pub(crate) fn declare(&self) {
        *self.declared.lock() = true;
        self.news.notify_all();
    }

    pub(crate) fn is_declared(&self) -> bool {
        *self.declared.lock()
    }

    /// Sleeps for `pause`, or until the end. Returns whether the end came.
    pub(crate) fn wait_for(&self, pause: Duration) -> bool {
        let mut declared = self.declared.lock();
        if !*declared {
            self.news.wait_for(&mut declared, pause);
        }
        *declared
    }
}
