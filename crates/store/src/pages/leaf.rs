//! A leaf of the directory: an extent of which many pages are there.

use sublet_types::{ObjectId, PageIndex};

use super::key::{EXTENT_PAGES, Key};

/// Entries come and go in steps of so many.
const STEP: usize = 8;

/// The pages of one extent: a bit for each that is there, and their whereabouts, packed.
#[derive(Debug)]
pub(super) struct Leaf {
    present: u128,
    object: ObjectId,
    pool: u32,
    extent: u32,
    places: Vec<u32>,
}

impl Leaf {
    /// An empty leaf for the extent of `key`.
    pub(super) fn new(key: Key) -> Leaf {
        Leaf {
            present: 0,
            object: key.object,
            pool: key.pool,
            extent: key.extent(),
            places: Vec::new(),
        }
    }

    pub(super) fn is_of(&self, key: Key) -> bool {
        self.object == key.object && self.pool == key.pool && self.extent == key.extent()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// How many pages come before `place`.
    fn rank(&self, place: u32) -> usize {
        (self.present & ((1 << place) - 1)).count_ones() as usize
    }

    fn has(&self, place: u32) -> bool {
        self.present >> place & 1 == 1
    }

    pub(super) fn get(&self, place: u32) -> Option<u32> {
        self.has(place).then(|| self.places[self.rank(place)])
    }

    pub(super) fn set(&mut self, place: u32, packed: u32) {
        let rank = self.rank(place);
        self.places[rank] = packed;
    }

    pub(super) fn insert(&mut self, place: u32, packed: u32) {
        debug_assert!(!self.has(place));
        if self.places.len() == self.places.capacity() {
            self.places.reserve_exact(STEP);
        }
        self.places.insert(self.rank(place), packed);
        self.present |= 1 << place;
    }

    pub(super) fn remove(&mut self, place: u32) {
        debug_assert!(self.has(place));
        self.places.remove(self.rank(place));
        self.present &= !(1 << place);
        if self.places.capacity() - self.places.len() > 2 * STEP {
            self.places.shrink_to(self.places.len() + STEP);
        }
    }

    /// Gives back what an empty leaf still holds; it is never a leaf of any key then.
    pub(super) fn give_back(&mut self) {
        *self = Leaf {
            present: 0,
            object: self.object,
            pool: u32::MAX,
            extent: u32::MAX,
            places: Vec::new(),
        };
    }

    /// Its pages, in order.
    pub(super) fn pages(&self) -> impl Iterator<Item = (Key, u32)> + '_ {
        let present = (0..EXTENT_PAGES).filter(|place| self.has(*place));
        present.zip(&self.places).map(|(place, packed)| {
            let key = Key {
                pool: self.pool,
                object: self.object,
                index: PageIndex(self.extent * EXTENT_PAGES + place),
            };
            (key, *packed)
        })
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Leaf>() + self.places.capacity() * size_of::<u32>()
    }
}
