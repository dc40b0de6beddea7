//! The leaves of a directory: extents of which many pages are there.
//!
//! A leaf is a row of words: who it is of, how many pages it has, and a word for the whereabouts of each page up to
//! its size. So whoever finds its slot has the whereabouts with one more look at memory. Rows of one size share a
//! plate of 4 KiB, and an empty plate serves any size.
//!
//! ```text
//!  object low │ object high │ pool │ extent │ pages │ – │ – │ – │ whereabouts of page 0, 1, … or zero
//! ```
//!
//! A leaf moves to the next size when a page beyond it comes.

use std::ops::Range;

use sublet_types::{ObjectId, PageIndex};

use super::key::{EXTENT_PAGES, Key};
use crate::arena::Line;

/// Words before the whereabouts.
const HEAD: usize = 8;

/// The smallest size has so many whereabouts, each further one twice as many.
const SMALLEST: usize = 8;

/// How many sizes there are, the last for a whole extent.
const SIZES: usize = (EXTENT_PAGES as usize / SMALLEST).ilog2() as usize + 1;

const OBJECT_LOW: usize = 0;
const OBJECT_HIGH: usize = 1;
const POOL: usize = 2;
const EXTENT: usize = 3;
const PAGES: usize = 4;

/// A leaf with fewer pages than one in so many of its places is not worth its words.
const SPARSE_ONE_IN: usize = 4;

/// Words of a plate.
const PLATE: usize = 1024;

/// A plate has at most so many rows: those of the smallest size.
const ROWS_MAX: usize = PLATE / words(0);

/// A leaf's number: never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafId(u32);

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
    plates: Vec<Plate>,
    /// What is known of each.
    facts: Vec<PlateFacts>,
    /// Plates that may have a free row, by size.
    partial: [Vec<u32>; SIZES],
    /// Plates without a row that is used.
    empty: Vec<u32>,
}

/// A plate of rows. So that as few cache lines as can be have a row's head, it begins with one.
#[repr(align(64))]
#[derive(Clone)]
struct Plate([u32; PLATE]);

/// What is known of a plate.
#[derive(Clone, Copy)]
struct PlateFacts {
    size: u8,
    /// A bit for each row that is used.
    used: u64,
}

/// Whereabouts of a leaf of a size.
const fn places(size: usize) -> usize {
    SMALLEST << size
}

/// Words of a leaf of a size.
const fn words(size: usize) -> usize {
    HEAD + places(size)
}

/// The least size that has a place.
fn size_for(place: u32) -> usize {
    (0..SIZES)
        .find(|size| places(*size) > place as usize)
        .unwrap_or(SIZES - 1)
}

/// Rows of a plate of a size.
const fn rows(size: usize) -> u32 {
    (PLATE / words(size)) as u32
}

impl PlateFacts {
    fn free_row(&self) -> Option<usize> {
        let row = (!self.used).trailing_zeros();
        (row < rows(usize::from(self.size))).then_some(row as usize)
    }
}

impl Leaves {
    /// A free row of a size.
    fn take(&mut self, size: usize) -> LeafId {
        while let Some(plate) = self.partial[size].last().map(|plate| *plate as usize) {
            let facts = &mut self.facts[plate];
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
        self.facts[plate as usize] = PlateFacts {
            size: size as u8,
            used: 1,
        };
        self.partial[size].push(plate);
        LeafId::new(plate as usize, 0)
    }

    fn add_plate(&mut self) -> u32 {
        if self.plates.len() == self.plates.capacity() {
            // An eighth more, and not twice as much: leaves are most of what the directory takes.
            self.plates.reserve_exact(self.plates.len() / 8 + 1);
        }
        self.plates.push(Plate([0; PLATE]));
        self.facts.push(PlateFacts { size: 0, used: 0 });
        self.plates.len() as u32 - 1
    }

    fn give_back(&mut self, id: LeafId) {
        let facts = &mut self.facts[id.plate()];
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
        let facts = &self.facts;
        if partial
            .last()
            .is_some_and(|plate| facts[*plate as usize].used == 0)
        {
            partial.pop();
        }
    }

    fn size(&self, id: LeafId) -> usize {
        usize::from(self.facts[id.plate()].size)
    }
}

/// What has to be done about a leaf's slot after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// Nothing.
    Stays,
    /// The leaf has another number now.
    Moved(LeafId),
    /// So few pages are left that they are better off alone.
    Sparse,
}

impl Leaves {
    /// Where in its plate a leaf is.
    fn range(&self, id: LeafId) -> Range<usize> {
        let len = words(self.size(id));
        let at = id.row() * len;
        at..at + len
    }

    fn leaf(&self, id: LeafId) -> &[u32] {
        &self.plates[id.plate()].0[self.range(id)]
    }

    fn leaf_mut(&mut self, id: LeafId) -> &mut [u32] {
        let range = self.range(id);
        &mut self.plates[id.plate()].0[range]
    }

    /// A new leaf of a row of whereabouts, zero where there is no page.
    pub(super) fn add(&mut self, key: Key, row: &[u32; EXTENT_PAGES as usize]) -> LeafId {
        let last = row.iter().rposition(|packed| *packed != 0).unwrap_or(0);
        let size = size_for(last as u32);
        let id = self.take(size);
        let leaf = self.leaf_mut(id);
        leaf[..HEAD].fill(0);
        leaf[OBJECT_LOW] = key.object.0 as u32;
        leaf[OBJECT_HIGH] = (key.object.0 >> 32) as u32;
        leaf[POOL] = key.pool;
        leaf[EXTENT] = key.extent();
        leaf[PAGES] = row.iter().filter(|packed| **packed != 0).count() as u32;
        leaf[HEAD..].copy_from_slice(&row[..places(size)]);
        id
    }

    #[inline]
    pub(super) fn is_of(&self, id: LeafId, key: Key) -> bool {
        let leaf = self.leaf(id);
        leaf[OBJECT_LOW] == key.object.0 as u32
            && leaf[OBJECT_HIGH] == (key.object.0 >> 32) as u32
            && leaf[POOL] == key.pool
            && leaf[EXTENT] == key.extent()
    }

    /// The whereabouts at a place; of whichever extent the leaf is.
    #[inline]
    pub(super) fn get(&self, id: LeafId, place: u32) -> Option<u32> {
        let packed = *self.leaf(id).get(HEAD + place as usize)?;
        (packed != 0).then_some(packed)
    }

    /// Where a leaf says whose it is, and where it tells of a place.
    pub(super) fn lines(&self, id: LeafId, place: u32) -> (Line, Option<Line>) {
        let leaf = self.leaf(id);
        let word = leaf.get(HEAD + place as usize);
        (Line::of(&leaf[0]), word.map(Line::of))
    }

    pub(super) fn set(&mut self, id: LeafId, place: u32, packed: u32) {
        self.leaf_mut(id)[HEAD + place as usize] = packed;
    }

    /// Adds a page that is not there.
    pub(super) fn insert(&mut self, id: LeafId, place: u32, packed: u32) -> Changed {
        let fits = (place as usize) < places(self.size(id));
        let id_now = if fits {
            id
        } else {
            self.resize(id, size_for(place))
        };
        let leaf = self.leaf_mut(id_now);
        leaf[HEAD + place as usize] = packed;
        leaf[PAGES] += 1;
        match fits {
            true => Changed::Stays,
            false => Changed::Moved(id_now),
        }
    }

    /// Removes a page that is there.
    pub(super) fn remove(&mut self, id: LeafId, place: u32) -> Changed {
        let places = places(self.size(id));
        let leaf = self.leaf_mut(id);
        leaf[HEAD + place as usize] = 0;
        leaf[PAGES] -= 1;
        match (leaf[PAGES] as usize) * SPARSE_ONE_IN < places {
            true => Changed::Sparse,
            false => Changed::Stays,
        }
    }

    /// Ends a leaf: the row of whereabouts that it had.
    pub(super) fn give_up(&mut self, id: LeafId) -> [u32; EXTENT_PAGES as usize] {
        let mut row = [0; EXTENT_PAGES as usize];
        let leaf = &self.leaf(id)[HEAD..];
        row[..leaf.len()].copy_from_slice(leaf);
        self.give_back(id);
        row
    }

    /// Moves a leaf to a larger size.
    fn resize(&mut self, id: LeafId, size: usize) -> LeafId {
        let to = self.take(size);
        let mut copy = [0; words(SIZES - 1)];
        let used = words(self.size(id));
        copy[..used].copy_from_slice(self.leaf(id));
        self.leaf_mut(to).copy_from_slice(&copy[..words(size)]);
        self.give_back(id);
        to
    }

    /// A leaf's pages, in order.
    pub(super) fn pages(&self, id: LeafId) -> impl Iterator<Item = (Key, u32)> + '_ {
        let leaf = self.leaf(id);
        let object = u64::from(leaf[OBJECT_HIGH]) << 32 | u64::from(leaf[OBJECT_LOW]);
        let present = (0..).zip(&leaf[HEAD..]).filter(|(_, packed)| **packed != 0);
        present.map(move |(place, packed)| {
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
        lists * size_of::<u32>()
            + self.facts.capacity() * size_of::<PlateFacts>()
            + self.plates.capacity() * size_of::<Plate>()
    }
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
                (None, true, _) => {
                    let mut row = [0; EXTENT_PAGES as usize];
                    row[place as usize] = n as u32 + 1;
                    Changed::Moved(leaves.add(key, &row))
                }
                (Some(id), true, false) => leaves.insert(id, place, n as u32 + 1),
                (Some(id), false, true) => leaves.remove(id, place),
                _ => continue,
            };
            match insert {
                true => model.insert((leaf, place), n as u32 + 1),
                false => model.remove(&(leaf, place)),
            };
            match changed {
                Changed::Moved(to) => ids[leaf as usize] = Some(to),
                Changed::Stays => {}
                Changed::Sparse => {
                    if let Some(id) = ids[leaf as usize].take() {
                        let row = leaves.give_up(id);
                        for (place, packed) in (0..).zip(row).filter(|(_, packed)| *packed != 0) {
                            assert_eq!(model.remove(&(leaf, place)), Some(packed));
                        }
                        assert!(model.keys().all(|(other, _)| *other != leaf));
                    }
                }
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
        fn leaves_do_not_meddle(
            steps in proptest::collection::vec(
                (0..LEAVES, 0..EXTENT_PAGES, proptest::bool::weighted(0.6)),
                1..6000,
            ),
        ) {
            many_leaves_are_many_maps(steps);
        }
    }
}
