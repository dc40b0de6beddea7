//! Where a disk puts outcomes for a queue's thread.

use std::sync::atomic::{AtomicBool, Ordering};

use mio::Waker;
use parking_lot::Mutex;

use crate::block::{Outcome, Outcomes};

/// Outcomes on their way to one thread. As many at most as the thread has requests under way.
pub(super) struct Mailbox {
    outcomes: Mutex<Vec<Outcome>>,
    /// So that a glance takes no lock.
    has_some: AtomicBool,
    is_asleep: AtomicBool,
    waker: Waker,
}

impl Mailbox {
    pub(super) fn new(waker: Waker) -> Mailbox {
        Mailbox {
            outcomes: Mutex::default(),
            has_some: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
            waker,
        }
    }

    /// Whether there is something to collect.
    pub(super) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Acquire)
    }

    /// Swaps what there is with `into`, which is empty.
    pub(super) fn collect(&self, into: &mut Vec<Outcome>) {
        let mut outcomes = self.outcomes.lock();
        std::mem::swap(&mut *outcomes, into);
        self.has_some.store(false, Ordering::Release);
    }

    /// The thread wants to sleep until it is woken. Says no if something is there already.
    pub(super) fn fall_asleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::Relaxed);
        // Either the disk takes the lock later and sees the sleeper, or it was earlier and its outcome is seen here.
        let sleeps = self.outcomes.lock().is_empty();
        if !sleeps {
            self.wake_up();
        }
        sleeps
    }

    /// The thread is awake and looks by itself.
    pub(super) fn wake_up(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread, whatever it does.
    pub(super) fn wake(&self) {
        // A full counter means that it was woken already.
        let _ = self.waker.wake();
    }
}

impl Outcomes for Mailbox {
    fn done(&self, outcome: Outcome) {
        let mut outcomes = self.outcomes.lock();
        outcomes.push(outcome);
        self.has_some.store(true, Ordering::Release);
        drop(outcomes);
        if self.is_asleep.swap(false, Ordering::AcqRel) {
            self.wake();
        }
    }
}
