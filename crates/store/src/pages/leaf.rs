//! The leaves of a directory: extents of which many pages are there.
//!
//! A leaf is a row of words. Rows of one size share a plate of 4 KiB, and an empty plate serves any size, so that
//! leaves that grow together leave no holes behind:
//!
//! ```text
//!  object low │ object high │ pool │ extent │ a bit for each page that is there: 4 words │ whereabouts, packed …
//! ```
//!
//! A leaf moves to the next size when it is full, and back when two sizes smaller would do.

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

/// Words of a plate.
const PLATE: usize = 1024;

/// A plate has at most so many rows: those of the smallest size.
const ROWS_MAX: usize = PLATE / words(0);

/// A leaf's number: never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafId(u32);

impl LeafId {
    fn new(plate: usize, row: usize) -> LeafId {
        LeafId((plate * ROWS_MAX + row) as u32 + 1)
    }

    fn plate(self) -> usize {
        (self.0 as usize - 1) / ROWS_MAX
    }

    fn row(self) -> usize {
        (self.0 as usize - 1) % ROWS_MAX
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
    words: Vec<u32>,
    plates: Vec<Plate>,
    /// Plates that may have a free row, by size.
    partial: [Vec<u32>; SIZES],
    /// Plates without a row that is used.
    empty: Vec<u32>,
}

/// A plate of rows.
#[derive(Clone, Copy)]
struct Plate {
    size: u8,
    /// A bit for each row that is used.
    used: u64,
}

/// Words of a leaf of a size.
const fn words(size: usize) -> usize {
    HEAD + (size + 1) * STEP
}

/// Rows of a plate of a size.
const fn rows(size: usize) -> u32 {
    (PLATE / words(size)) as u32
}

impl Plate {
    fn free_row(&self) -> Option<usize> {
        let row = (!self.used).trailing_zeros();
        (row < rows(usize::from(self.size))).then_some(row as usize)
    }
}

impl Leaves {
    /// A free row of a size.
    fn take(&mut self, size: usize) -> LeafId {
        while let Some(plate) = self.partial[size].last().map(|plate| *plate as usize) {
            let facts = &mut self.plates[plate];
            // An empty one is among the empty ones, and comes from there.
            if usize::from(facts.size) == size
                && facts.used != 0
                && let Some(row) = facts.free_row()
            {
                facts.used |= 1 << row;
                return LeafId::new(plate, row);
            }
            self.partial[size].pop();
        }
        let plate = self.empty.pop().unwrap_or_else(|| self.add_plate());
        self.plates[plate as usize] = Plate {
            size: size as u8,
            used: 1,
        };
        self.partial[size].push(plate);
        LeafId::new(plate as usize, 0)
    }

    fn add_plate(&mut self) -> u32 {
        let len = self.words.len() + PLATE;
        if len > self.words.capacity() {
            // An eighth more, and not twice as much: leaves are most of what the directory takes.
            let plates = self.plates.len() / 8 + 1;
            self.words.reserve_exact(plates * PLATE);
        }
        self.words.resize(len, 0);
        self.plates.push(Plate { size: 0, used: 0 });
        self.plates.len() as u32 - 1
    }

    fn give_back(&mut self, id: LeafId) {
        let facts = &mut self.plates[id.plate()];
        let size = usize::from(facts.size);
        let was_full = facts.free_row().is_none();
        facts.used &= !(1 << id.row());
        if facts.used == 0 {
            // Its place among the partial ones is found to be stale when it is come by.
            self.empty.push(id.plate() as u32);
            self.forget_empty(size);
        } else if was_full {
            self.partial[size].push(id.plate() as u32);
        }
    }

    /// Keeps the list of partial plates of a size from growing by stale entries.
    fn forget_empty(&mut self, size: usize) {
        let partial = &mut self.partial[size];
        if partial.len() > 2 * self.plates.len() {
            partial.sort_unstable();
            partial.dedup();
        }
        let plates = &self.plates;
        if partial
            .last()
            .is_some_and(|plate| plates[*plate as usize].used == 0)
        {
            partial.pop();
        }
    }

    fn size(&self, id: LeafId) -> usize {
        usize::from(self.plates[id.plate()].size)
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
    fn range(&self, id: LeafId) -> Range<usize> {
        let len = words(self.size(id));
        let at = id.plate() * PLATE + id.row() * len;
        at..at + len
    }

    fn leaf(&self, id: LeafId) -> &[u32] {
        &self.words[self.range(id)]
    }

    fn leaf_mut(&mut self, id: LeafId) -> &mut [u32] {
        let range = self.range(id);
        &mut self.words[range]
    }

    /// A new leaf of these pages, in the order of their places.
    pub(super) fn add(&mut self, key: Key, pages: &[(u32, u32)]) -> LeafId {
        let size = pages.len().div_ceil(STEP) - 1;
        let id = self.take(size);
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
        let near = (place as usize * (self.size(id) + 1)) / SIZES;
        let at = self.range(id).start + HEAD + near;
        prefetch(self.words.as_ptr().wrapping_add(at), 1);
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
        let size = self.size(id);
        let full = count == (size + 1) * STEP;
        let id_now = if full { self.resize(id, size + 1) } else { id };
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
        let size = self.size(id);
        let leaf = self.leaf_mut(id);
        let count = count(leaf);
        let at = HEAD + rank(leaf, place);
        leaf.copy_within(at + 1..HEAD + count, at);
        leaf[PRESENT.start + place as usize / 32] &= !(1 << (place % 32));
        let left = count - 1;
        if left == 0 {
            self.give_back(id);
            Changed::Gone
        } else if left + 2 * STEP <= size * STEP {
            Changed::Moved(self.resize(id, left.div_ceil(STEP)))
        } else {
            Changed::Stays
        }
    }

    /// Moves a leaf to another size that has place for its pages.
    fn resize(&mut self, id: LeafId, size: usize) -> LeafId {
        let to = self.take(size);
        let used = HEAD + count(self.leaf(id));
        let mut copy = [0; words(SIZES - 1)];
        copy[..used].copy_from_slice(&self.leaf(id)[..used]);
        self.leaf_mut(to)[..used].copy_from_slice(&copy[..used]);
        self.give_back(id);
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
        let lists = self.partial.iter().map(Vec::capacity).sum::<usize>() + self.empty.capacity();
        let plates = self.plates.capacity() * size_of::<Plate>();
        (self.words.capacity() + lists) * size_of::<u32>() + plates
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

    /// Many leaves that grow and shrink together, each beside a map.
    fn many_leaves_are_many_maps(steps: Vec<(u32, u32, bool)>) {
        let mut leaves = Leaves::default();
        let mut ids: Vec<Option<LeafId>> = vec![None; LEAVES as usize];
        let mut model: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for (n, (leaf, place, insert)) in steps.into_iter().enumerate() {
            let known = model.contains_key(&(leaf, place));
            let key = key(leaf);
            let changed = match (ids[leaf as usize], insert, known) {
                (None, true, _) => Changed::Moved(leaves.add(key, &[(place, n as u32)])),
                (Some(id), true, false) => leaves.insert(id, place, n as u32),
                (Some(id), false, true) => leaves.remove(id, place),
                _ => continue,
            };
            match insert {
                true => model.insert((leaf, place), n as u32),
                false => model.remove(&(leaf, place)),
            };
            match changed {
                Changed::Stays => {}
                Changed::Moved(to) => ids[leaf as usize] = Some(to),
                Changed::Gone => ids[leaf as usize] = None,
            }
        }
        for (leaf, id) in (0..).zip(&ids) {
            let pages = id.map_or_else(Vec::new, |id| {
                assert!(leaves.is_of(id, key(leaf)));
                leaves
                    .pages(id)
                    .map(|(key, packed)| (key.place(), packed))
                    .collect()
            });
            let own = model.range((leaf, 0)..(leaf + 1, 0));
            let wanted: Vec<_> = own.map(|((_, place), packed)| (*place, *packed)).collect();
            assert_eq!(pages, wanted);
        }
    }

    const LEAVES: u32 = 90;

    fn key(leaf: u32) -> Key {
        Key {
            pool: 3,
            object: ObjectId(1 << 40 | u64::from(leaf)),
            index: PageIndex(leaf * EXTENT_PAGES),
        }
    }

    proptest! {
        #[test]
        fn leaves_do_not_meddle(steps in proptest::collection::vec((0..LEAVES, 0..EXTENT_PAGES, proptest::bool::weighted(0.6)), 1..6000)) {
            many_leaves_are_many_maps(steps);
        }

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
