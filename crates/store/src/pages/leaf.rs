//! The leaves of a directory: extents of which many pages are there.
//!
//! A leaf is a row of words in a slab of its size, so that its number alone says where it is:
//!
//! ```text
//!  object low │ object high │ pool │ extent │ a bit for each page that is there: 4 words │ whereabouts, packed …
//! ```
//!
//! It moves to the next size when it is full, and back when two sizes smaller would do.

use std::ops::Range;

use sublet_types::{ObjectId, PageIndex};

use super::key::{EXTENT_PAGES, Key};
use crate::arena::prefetch;

/// Words before the whereabouts.
const HEAD: usize = 8;

/// Sizes differ by so many whereabouts.
const STEP: usize = 8;

/// How many sizes there are.
const SIZES: usize = EXTENT_PAGES as usize / STEP;

const OBJECT_LOW: usize = 0;
const OBJECT_HIGH: usize = 1;
const POOL: usize = 2;
const EXTENT: usize = 3;
const PRESENT: Range<usize> = 4..8;

/// A leaf's number: never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafId(u32);

impl LeafId {
    fn new(size: usize, row: usize) -> LeafId {
        LeafId((row * SIZES + size) as u32 + 1)
    }

    fn size(self) -> usize {
        (self.0 as usize - 1) % SIZES
    }

    fn row(self) -> usize {
        (self.0 as usize - 1) / SIZES
    }

    /// As a slot keeps it.
    pub(super) fn packed(self) -> u32 {
        self.0
    }

    pub(super) fn unpacked(packed: u32) -> LeafId {
        LeafId(packed)
    }
}

/// All leaves of a shard.
#[derive(Default)]
pub(super) struct Leaves {
    slabs: [Slab; SIZES],
}

/// The leaves of one size.
#[derive(Default)]
struct Slab {
    words: Vec<u32>,
    vacant: Vec<u32>,
}

/// Words of a leaf of a size.
const fn words(size: usize) -> usize {
    HEAD + (size + 1) * STEP
}

impl Slab {
    /// A row that is free.
    fn take(&mut self, size: usize) -> usize {
        if let Some(row) = self.vacant.pop() {
            return row as usize;
        }
        let row = self.words.len() / words(size);
        let len = self.words.len() + words(size);
        if len > self.words.capacity() {
            // A quarter more, and not twice as much: leaves are most of what the directory takes.
            self.words
                .reserve_exact((self.words.len() / 4).max(words(size)));
        }
        self.words.resize(len, 0);
        row
    }
}

/// What has to be done about a leaf's slot after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// Nothing.
    Stays,
    /// The leaf has another number now.
    Moved(LeafId),
    /// The leaf is no more.
    Gone,
}

impl Leaves {
    fn leaf(&self, id: LeafId) -> &[u32] {
        let len = words(id.size());
        &self.slabs[id.size()].words[id.row() * len..][..len]
    }

    fn leaf_mut(&mut self, id: LeafId) -> &mut [u32] {
        let len = words(id.size());
        &mut self.slabs[id.size()].words[id.row() * len..][..len]
    }

    /// A new leaf of these pages, in the order of their places.
    pub(super) fn add(&mut self, key: Key, pages: &[(u32, u32)]) -> LeafId {
        let size = pages.len().div_ceil(STEP) - 1;
        let id = LeafId::new(size, self.slabs[size].take(size));
        let leaf = self.leaf_mut(id);
        leaf[OBJECT_LOW] = key.object.0 as u32;
        leaf[OBJECT_HIGH] = (key.object.0 >> 32) as u32;
        leaf[POOL] = key.pool;
        leaf[EXTENT] = key.extent();
        leaf[PRESENT].fill(0);
        for (at, (place, packed)) in pages.iter().enumerate() {
            mark(leaf, *place);
            leaf[HEAD + at] = *packed;
        }
        id
    }

    /// Has the processor fetch a leaf's head, and where the whereabouts of `place` probably is.
    #[inline]
    pub(super) fn expect(&self, id: LeafId, place: u32) {
        let at = id.row() * words(id.size());
        let near = (place as usize * (id.size() + 1)) / SIZES;
        let slab = &self.slabs[id.size()].words;
        prefetch(slab.as_ptr().wrapping_add(at + HEAD + near), 1);
    }

    #[inline]
    pub(super) fn is_of(&self, id: LeafId, key: Key) -> bool {
        let leaf = self.leaf(id);
        leaf[OBJECT_LOW] == key.object.0 as u32
            && leaf[OBJECT_HIGH] == (key.object.0 >> 32) as u32
            && leaf[POOL] == key.pool
            && leaf[EXTENT] == key.extent()
    }

    #[inline]
    pub(super) fn get(&self, id: LeafId, place: u32) -> Option<u32> {
        let leaf = self.leaf(id);
        has(leaf, place).then(|| leaf[HEAD + rank(leaf, place)])
    }

    pub(super) fn set(&mut self, id: LeafId, place: u32, packed: u32) {
        let leaf = self.leaf_mut(id);
        let rank = rank(leaf, place);
        leaf[HEAD + rank] = packed;
    }

    /// Adds a page that is not there.
    pub(super) fn insert(&mut self, id: LeafId, place: u32, packed: u32) -> Changed {
        let count = count(self.leaf(id));
        let full = count == (id.size() + 1) * STEP;
        let id_now = if full {
            self.resize(id, id.size() + 1)
        } else {
            id
        };
        let leaf = self.leaf_mut(id_now);
        let at = HEAD + rank(leaf, place);
        leaf.copy_within(at..HEAD + count, at + 1);
        leaf[at] = packed;
        mark(leaf, place);
        match full {
            true => Changed::Moved(id_now),
            false => Changed::Stays,
        }
    }

    /// Removes a page that is there.
    pub(super) fn remove(&mut self, id: LeafId, place: u32) -> Changed {
        let leaf = self.leaf_mut(id);
        let count = count(leaf);
        let at = HEAD + rank(leaf, place);
        leaf.copy_within(at + 1..HEAD + count, at);
        leaf[PRESENT.start + place as usize / 32] &= !(1 << (place % 32));
        let left = count - 1;
        if left == 0 {
            self.slabs[id.size()].vacant.push(id.row() as u32);
            Changed::Gone
        } else if left + 2 * STEP <= id.size() * STEP {
            Changed::Moved(self.resize(id, left.div_ceil(STEP)))
        } else {
            Changed::Stays
        }
    }

    /// Moves a leaf to another size that has place for its pages.
    fn resize(&mut self, id: LeafId, size: usize) -> LeafId {
        let to = LeafId::new(size, self.slabs[size].take(size));
        let used = HEAD + count(self.leaf(id));
        let mut copy = [0; words(SIZES - 1)];
        copy[..used].copy_from_slice(&self.leaf(id)[..used]);
        self.leaf_mut(to)[..used].copy_from_slice(&copy[..used]);
        self.slabs[id.size()].vacant.push(id.row() as u32);
        to
    }

    /// A leaf's pages, in order.
    pub(super) fn pages(&self, id: LeafId) -> impl Iterator<Item = (Key, u32)> + '_ {
        let leaf = self.leaf(id);
        let object = u64::from(leaf[OBJECT_HIGH]) << 32 | u64::from(leaf[OBJECT_LOW]);
        let present = (0..EXTENT_PAGES).filter(|place| has(leaf, *place));
        present.zip(&leaf[HEAD..]).map(move |(place, packed)| {
            let key = Key {
                pool: leaf[POOL],
                object: ObjectId(object),
                index: PageIndex(leaf[EXTENT] * EXTENT_PAGES + place),
            };
            (key, *packed)
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let words = |slab: &Slab| slab.words.capacity() + slab.vacant.capacity();
        self.slabs.iter().map(words).sum::<usize>() * size_of::<u32>()
    }
}

#[inline]
fn has(leaf: &[u32], place: u32) -> bool {
    leaf[PRESENT.start + place as usize / 32] >> (place % 32) & 1 == 1
}

fn mark(leaf: &mut [u32], place: u32) {
    leaf[PRESENT.start + place as usize / 32] |= 1 << (place % 32);
}

/// How many pages come before `place`.
#[inline]
fn rank(leaf: &[u32], place: u32) -> usize {
    let words = &leaf[PRESENT];
    let (whole, bits) = (place as usize / 32, place % 32);
    let before: u32 = words[..whole].iter().map(|word| word.count_ones()).sum();
    (before + (words[whole] & ((1 << bits) - 1)).count_ones()) as usize
}

fn count(leaf: &[u32]) -> usize {
    leaf[PRESENT]
        .iter()
        .map(|word| word.count_ones() as usize)
        .sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_leaf_is_a_map(steps in proptest::collection::vec((0..EXTENT_PAGES, any::<bool>()), 1..500)) {
            let key = Key { pool: 3, object: ObjectId(1 << 40 | 5), index: PageIndex(7 * EXTENT_PAGES) };
            let mut leaves = Leaves::default();
            let other = leaves.add(key.at(PageIndex(0)), &[(0, 1)]);
            let mut id = leaves.add(key, &[(0, 77)]);
            let mut model = BTreeMap::from([(0, 77)]);
            for (n, (place, insert)) in steps.into_iter().enumerate() {
                let known = model.contains_key(&place);
                let changed = match (insert, known) {
                    (true, false) => {
                        model.insert(place, n as u32);
                        leaves.insert(id, place, n as u32)
                    }
                    (false, true) if model.len() > 1 => {
                        model.remove(&place);
                        leaves.remove(id, place)
                    }
                    _ => Changed::Stays,
                };
                if let Changed::Moved(moved) = changed {
                    id = moved;
                }
                prop_assert!(leaves.is_of(id, key) && !leaves.is_of(other, key));
                let pages: Vec<_> = leaves.pages(id).map(|(key, packed)| (key.place(), packed)).collect();
                let wanted: Vec<_> = model.iter().map(|(place, packed)| (*place, *packed)).collect();
                prop_assert_eq!(pages, wanted);
                prop_assert_eq!(leaves.get(id, place), model.get(&place).copied());
            }
        }
    }
}
