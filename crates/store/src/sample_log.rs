//! A log of what happens to followed items and pages. It is written in many places and read as one list in time order.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

/// The number of places that entries are spread over, by hash, so that threads seldom want the same lock.
const PLACES: usize = 8;

/// Whether an entry may allocate memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteAllocation {
    /// It may.
    Allowed,
    /// It may not. The log drops the entry if no room is left. A removal must need no memory.
    Avoided,
}

/// What happened to one tenant's followed items or pages since the last drain.
///
/// A writer only tries the lock. If another thread holds it, the entry is dropped.
#[derive(Debug)]
pub(crate) struct SampleLog<T> {
    places: [Mutex<Vec<SampleEntry<T>>>; PLACES],
    /// Numbers the entries. It wraps after 2^32 entries, and one second's entries are then out of order.
    order: AtomicU32,
}

/// What happened, to which item or page, and its number among all entries of the tenant.
#[derive(Clone, Copy, Debug)]
struct SampleEntry<T> {
    hash: u64,
    order: u32,
    what: T,
}

impl<T> Default for SampleLog<T> {
    fn default() -> SampleLog<T> {
        SampleLog {
            places: std::array::from_fn(|_| Mutex::default()),
            order: AtomicU32::new(0),
        }
    }
}

impl<T: Copy> SampleLog<T> {
    /// Records what happened, if fewer than `most` entries wait in the same place.
    pub(crate) fn record(&self, hash: u64, what: T, room: NoteAllocation, most: usize) {
        // The uppermost bits choose the place. The other bits decide what is followed and where it is kept.
        let Some(mut notes) = self.places[(hash >> 61) as usize % PLACES].try_lock() else {
            return;
        };
        let has_room = match room {
            NoteAllocation::Avoided => notes.len() < notes.capacity(),
            NoteAllocation::Allowed => notes.len() < most,
        };
        if has_room {
            notes.push(SampleEntry {
                hash,
                order: self.order.fetch_add(1, Ordering::Relaxed),
                what,
            });
        }
    }

    /// Drops all entries.
    pub(crate) fn clear(&self) {
        self.places.iter().for_each(|notes| notes.lock().clear());
    }

    /// Moves the entries since the last call to the end of `into`, in time order. The log keeps its capacity.
    pub(crate) fn drain(&self, into: &mut Vec<(u64, T)>) {
        let mut all = Vec::new();
        for notes in &self.places {
            all.extend(notes.lock().drain(..));
        }
        all.sort_unstable_by_key(|note: &SampleEntry<T>| note.order);
        into.extend(all.iter().map(|note| (note.hash, note.what)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_in_many_places_is_told_in_its_order() {
        let notes = SampleLog::default();
        let who = |n: u64| n << 60 | n;
        for n in [0, 9, 3, 12, 3] {
            notes.record(who(n), n, NoteAllocation::Allowed, 4);
        }
        let mut drained = Vec::new();
        notes.drain(&mut drained);
        assert_eq!(drained, [0, 9, 3, 12, 3].map(|n| (who(n), n)));
    }

    #[test]
    fn places_have_an_end_and_a_removal_takes_no_memory() {
        let notes = SampleLog::default();
        notes.record(1, 'a', NoteAllocation::Avoided, 2);
        for what in ['b', 'c', 'd'] {
            notes.record(1, what, NoteAllocation::Allowed, 2);
        }
        let mut drained = Vec::new();
        notes.drain(&mut drained);
        assert_eq!(drained, [(1, 'b'), (1, 'c')]);
        notes.record(1, 'e', NoteAllocation::Avoided, 2);
        notes.record(1, 'f', NoteAllocation::Avoided, 2);
        drained.clear();
        notes.drain(&mut drained);
        assert_eq!(drained, [(1, 'e'), (1, 'f')], "there is room from before");
    }
}
