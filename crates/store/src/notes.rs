//! Notes of what happens to those that are followed, written in many places and read as one list in the order of time.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

/// Notes are kept in so many places, by whom they are about, so that threads seldom want the same.
const PLACES: usize = 8;

/// Whether a note may take memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It may.
    Taken,
    /// It is made only where there is room for it already: what removes something needs no memory.
    There,
}

/// What is noted of one tenant, until it is drained. A note takes a lock that is tried only: where somebody else has it, the
/// note is not made.
#[derive(Debug)]
pub(crate) struct Notes<T> {
    places: [Mutex<Vec<Note<T>>>; PLACES],
    /// Numbers them. After four thousand million it begins anew: one second's notes are then out of order.
    order: AtomicU32,
}

/// What happened, to whom, and when among all notes of the tenant.
#[derive(Clone, Copy, Debug)]
struct Note<T> {
    hash: u64,
    order: u32,
    what: T,
}

impl<T> Default for Notes<T> {
    fn default() -> Notes<T> {
        Notes {
            places: std::array::from_fn(|_| Mutex::default()),
            order: AtomicU32::new(0),
        }
    }
}

impl<T: Copy> Notes<T> {
    /// Notes what happened to somebody, where fewer than `most` notes wait beside it.
    pub(crate) fn write(&self, hash: u64, what: T, room: Room, most: usize) {
        // The uppermost bits: by the others it is decided who is followed, and where everything is kept.
        let Some(mut notes) = self.places[(hash >> 61) as usize % PLACES].try_lock() else {
            return;
        };
        let has_room = match room {
            Room::There => notes.len() < notes.capacity(),
            Room::Taken => notes.len() < most,
        };
        if has_room {
            notes.push(Note {
                hash,
                order: self.order.fetch_add(1, Ordering::Relaxed),
                what,
            });
        }
    }

    /// Forgets what was noted.
    pub(crate) fn clear(&self) {
        self.places.iter().for_each(|notes| notes.lock().clear());
    }

    /// Moves what was noted since the last call to the end of `into`, in its order. Room for as much stays.
    pub(crate) fn drain(&self, into: &mut Vec<(u64, T)>) {
        let mut all = Vec::new();
        for notes in &self.places {
            all.extend(notes.lock().drain(..));
        }
        all.sort_unstable_by_key(|note: &Note<T>| note.order);
        into.extend(all.iter().map(|note| (note.hash, note.what)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_in_many_places_is_told_in_its_order() {
        let notes = Notes::default();
        let who = |n: u64| n << 60 | n;
        for n in [0, 9, 3, 12, 3] {
            notes.write(who(n), n, Room::Taken, 4);
        }
        let mut told = Vec::new();
        notes.drain(&mut told);
        assert_eq!(told, [0, 9, 3, 12, 3].map(|n| (who(n), n)));
    }

    #[test]
    fn places_have_an_end_and_a_removal_takes_no_memory() {
        let notes = Notes::default();
        notes.write(1, 'a', Room::There, 2);
        for what in ['b', 'c', 'd'] {
            notes.write(1, what, Room::Taken, 2);
        }
        let mut told = Vec::new();
        notes.drain(&mut told);
        assert_eq!(told, [(1, 'b'), (1, 'c')]);
        notes.write(1, 'e', Room::There, 2);
        notes.write(1, 'f', Room::There, 2);
        told.clear();
        notes.drain(&mut told);
        assert_eq!(told, [(1, 'e'), (1, 'f')], "there is room from before");
    }
}
