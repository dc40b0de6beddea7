//! What happens to a sample of a tenant's items, noted for whoever draws miss-ratio curves, from the first time that somebody
//! asks. A note takes a lock that is tried only: where somebody else has it, the note is not made.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::SAMPLE_ONE_IN;
use crate::notes::{Notes, Room};

/// Notes that wait in a place to be drained, at the most.
const NOTES_MAX: usize = 2048;

/// What happened to an item that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemUse {
    /// It was stored; it takes so many bytes, head and key among them.
    Stored(u32),
    /// It was asked for.
    Asked,
    /// It was deleted, flushed, or found expired.
    Gone,
    /// It went to make room.
    Evicted,
}

/// Notes of one tenant.
#[derive(Default)]
pub(crate) struct Followed {
    notes: Notes<ItemUse>,
    /// Somebody drains the notes.
    is_heard: AtomicBool,
}

impl Followed {
    /// Notes what happened to the item of that hash, if it is one of those that are followed.
    #[inline]
    pub(super) fn note(&self, hash: u64, what: ItemUse) {
        if hash.is_multiple_of(SAMPLE_ONE_IN) {
            self.write(hash, what);
        }
    }

    #[cold]
    fn write(&self, hash: u64, what: ItemUse) {
        if !self.is_heard.load(Ordering::Relaxed) {
            return;
        }
        let room = match what {
            ItemUse::Gone => Room::There,
            ItemUse::Stored(_) | ItemUse::Asked | ItemUse::Evicted => Room::Taken,
        };
        self.notes.write(hash, what, room, NOTES_MAX);
    }

    /// Forgets what was noted: another tenant has its place.
    pub(crate) fn reset(&self) {
        self.is_heard.store(false, Ordering::Relaxed);
        self.notes.clear();
    }

    /// Moves what was noted since the last call to the end of `into`, in its order. Before the first call nothing is.
    pub(crate) fn drain(&self, into: &mut Vec<(u64, ItemUse)>) {
        self.is_heard.store(true, Ordering::Relaxed);
        self.notes.drain(into);
    }
}
