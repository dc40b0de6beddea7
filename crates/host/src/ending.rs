//! The end of something, for threads that sleep until then.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The end: declared once, heard by all.
#[derive(Default)]
pub(crate) struct Ending {
    declared: Mutex<bool>,
    news: Condvar,
}

impl Ending {
    pub(crate) fn declare(&self) {
        *self.declared.lock() = true;
        self.news.notify_all();
    }

    pub(crate) fn came(&self) -> bool {
        *self.declared.lock()
    }

    /// Sleeps for `pause`, or until the end; says whether it came.
    pub(crate) fn came_within(&self, pause: Duration) -> bool {
        let mut declared = self.declared.lock();
        if !*declared {
            self.news.wait_for(&mut declared, pause);
        }
        *declared
    }
}
