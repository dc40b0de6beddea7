//! A log of what happens to a sample of a tenant's items, for miss-ratio curves. It starts when it is first drained. A
//! writer only tries the lock; if another thread holds it, the entry is dropped.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::SAMPLE_ONE_IN;
use crate::sample_log::{NoteAllocation, SampleLog};

/// The most entries that wait in one place.
const NOTES_MAX: usize = 2048;

/// What happened to a sampled item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemUse {
    /// It was stored, and takes this many bytes, including head and key.
    Stored(u32),
    /// A get asked for it.
    Get,
    /// It was deleted, flushed, or found expired.
    Removed,
    /// It was evicted to make room.
    Evicted,
}

/// The log of one tenant.
#[derive(Default)]
pub(crate) struct ItemSampleLog {
    notes: SampleLog<ItemUse>,
    /// Whether somebody drains the log.
    is_drained: AtomicBool,
}

impl ItemSampleLog {
    /// Records what happened to the item of that hash, if it is in the sample.
    #[inline]
    pub(super) fn record(&self, hash: u64, what: ItemUse) {
        if hash.is_multiple_of(SAMPLE_ONE_IN) {
            self.write(hash, what);
        }
    }

    #[cold]
    fn write(&self, hash: u64, what: ItemUse) {
        if !self.is_drained.load(Ordering::Relaxed) {
            return;
        }
        let room = match what {
            ItemUse::Removed => NoteAllocation::Avoided,
            ItemUse::Stored(_) | ItemUse::Get | ItemUse::Evicted => NoteAllocation::Allowed,
        };
        self.notes.record(hash, what, room, NOTES_MAX);
    }

    /// Drops all entries, because another tenant gets the slot.
    pub(crate) fn reset(&self) {
        self.is_drained.store(false, Ordering::Relaxed);
        self.notes.clear();
    }

    /// Moves the entries since the last call to the end of `into`, in order. Nothing is recorded before the first call.
    pub(crate) fn drain(&self, into: &mut Vec<(u64, ItemUse)>) {
        self.is_drained.store(true, Ordering::Relaxed);
        self.notes.drain(into);
    }
}
