//! Notes of what happens to those that are followed, written in many places and read as one list in the order of time.

use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers a tenant's notes. After four thousand million it begins anew: one second's notes are then out of order.
#[derive(Debug, Default)]
pub(crate) struct Order(AtomicU32);

/// What happened, to whom, and when among all notes of the tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note<T> {
    hash: u64,
    order: u32,
    what: T,
}

impl<T: Copy> Note<T> {
    /// Somebody's next note.
    pub(crate) fn next(order: &Order, hash: u64, what: T) -> Note<T> {
        Note {
            hash,
            order: order.0.fetch_add(1, Ordering::Relaxed),
            what,
        }
    }
}

/// Moves notes to the end of `into`, in their order.
pub(crate) fn in_order<T: Copy>(mut notes: Vec<Note<T>>, into: &mut Vec<(u64, T)>) {
    notes.sort_unstable_by_key(|note| note.order);
    into.extend(notes.iter().map(|note| (note.hash, note.what)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_in_two_places_is_told_in_its_order() {
        let (order, mut places) = (Order::default(), [Vec::new(), Vec::new()]);
        for n in [0, 1, 1, 0, 1] {
            let note = Note::next(&order, places[0].len() as u64, n);
            places[n].push(note);
        }
        let mut told = Vec::new();
        in_order(places.concat(), &mut told);
        assert_eq!(told, [(0, 0), (1, 1), (1, 1), (1, 0), (2, 1)]);
    }
}
