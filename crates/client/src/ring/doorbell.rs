//! When an end rings a doorbell: only if the other end said that it sleeps, and once per sleep.

use std::sync::atomic::{AtomicU32, Ordering, fence};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Whether the other end's doorbell must be rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wakeup {
    /// The other end sleeps. Ring its doorbell.
    Needed,
    /// The other end polls.
    NotNeeded,
}

/// Whether an end may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SleepAttempt {
    /// The end may sleep. From now on the other end rings its doorbell.
    Asleep,
    /// The end may not sleep, because work came at the last moment.
    WorkArrived,
}

/// Decides whether to ring. Call this after moving a tail. A fence stands between the tail's store and the word's load,
/// and on the other side between the word's store and the tail's load. So at least one end sees what the other stored.
pub(super) fn after_publishing(other: &AtomicU32) -> Wakeup {
    fence(Ordering::SeqCst);
    let rings =
        other.load(Ordering::Relaxed) == ASLEEP && other.swap(AWAKE, Ordering::Relaxed) == ASLEEP;
    match rings {
        true => Wakeup::Needed,
        false => Wakeup::NotNeeded,
    }
}

pub(super) fn fall_asleep(own: &AtomicU32, has_work: impl FnOnce() -> bool) -> SleepAttempt {
    own.store(ASLEEP, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if has_work() {
        wake_up(own);
        return SleepAttempt::WorkArrived;
    }
    SleepAttempt::Asleep
}

pub(super) fn wake_up(own: &AtomicU32) {
    own.store(AWAKE, Ordering::Relaxed);
}
