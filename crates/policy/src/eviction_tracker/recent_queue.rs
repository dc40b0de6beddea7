//! Those that left lately, in order, with something remembered of each.

use std::collections::{HashMap, VecDeque};

/// A queue that finds each entry by its hash. An entry that comes again counts from then on.
#[derive(Clone, Debug)]
pub(super) struct RecentQueue<T> {
    queue: VecDeque<Option<(u64, T)>>,
    /// The number of the queue's first place.
    first: u64,
    /// The number of each one's place.
    places: HashMap<u64, u64>,
}

impl<T> Default for RecentQueue<T> {
    fn default() -> RecentQueue<T> {
        RecentQueue {
            queue: VecDeque::new(),
            first: 0,
            places: HashMap::new(),
        }
    }
}

impl<T> RecentQueue<T> {
    /// Adds an entry that leaves now. What was remembered of an earlier time stays, and comes out in its turn.
    pub(super) fn push(&mut self, hash: u64, what: T) {
        self.places
            .insert(hash, self.first + self.queue.len() as u64);
        self.queue.push_back(Some((hash, what)));
    }

    /// What is remembered of an entry since it last left.
    pub(super) fn get_mut(&mut self, hash: u64) -> Option<&mut T> {
        let place = self.places.get(&hash)? - self.first;
        let slot = self.queue.get_mut(place as usize)?;
        slot.as_mut().map(|(_, what)| what)
    }

    /// Removes and returns what is remembered of an entry.
    pub(super) fn take(&mut self, hash: u64) -> Option<T> {
        let place = self.places.remove(&hash)? - self.first;
        let slot = self.queue.get_mut(place as usize)?;
        slot.take().map(|(_, what)| what)
    }

    /// The places that the queue takes. Those of entries that came again or were taken out count too.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.queue.len()
    }

    /// Removes the oldest entry if there are more than `most`.
    pub(super) fn pop_beyond(&mut self, most: usize) -> Option<T> {
        while self.queue.len() > most {
            let slot = self.queue.pop_front()?;
            let place = self.first;
            self.first += 1;
            let Some((hash, what)) = slot else { continue };
            if self.places.get(&hash) == Some(&place) {
                self.places.remove(&hash);
            }
            return Some(what);
        }
        None
    }

    /// Forgets the entries that are not to stay.
    pub(super) fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        let stay = |slot: Option<(u64, T)>| slot.filter(|(hash, _)| stays(*hash));
        let queue = std::mem::take(&mut self.queue).into_iter();
        self.queue = queue.filter_map(stay).map(Some).collect();
        self.places.clear();
        for (place, slot) in (self.first..).zip(&self.queue) {
            if let Some((hash, _)) = slot {
                self.places.insert(*hash, place);
            }
        }
    }
}
