//! When a doorbell is rung: only for an end that said it sleeps, and once for each sleep.

use std::sync::atomic::{AtomicU32, Ordering, fence};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Whether the other end's doorbell is to be rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Bell {
    /// It sleeps: ring.
    Ring,
    /// It looks by itself.
    Quiet,
}

/// Whether an end that wanted to sleep may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sleep {
    /// It may: from now on it is rung for.
    Sound,
    /// Work came at the last moment.
    Disturbed,
}

/// To be asked after a tail was moved. Between the tail's store and the word's load stands a fence, as
/// between the word's store and the tail's load on the other side: one of the two sees the other's.
pub(super) fn after_publishing(other: &AtomicU32) -> Bell {
    fence(Ordering::SeqCst);
    let rings =
        other.load(Ordering::Relaxed) == ASLEEP && other.swap(AWAKE, Ordering::Relaxed) == ASLEEP;
    match rings {
        true => Bell::Ring,
        false => Bell::Quiet,
    }
}

pub(super) fn fall_asleep(own: &AtomicU32, has_work: impl FnOnce() -> bool) -> Sleep {
    own.store(ASLEEP, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if has_work() {
        wake_up(own);
        return Sleep::Disturbed;
    }
    Sleep::Sound
}

pub(super) fn wake_up(own: &AtomicU32) {
    own.store(AWAKE, Ordering::Relaxed);
}
