//! The leaves of a directory: extents of which more than one page is present.
//!
//! A leaf is a row of words. It names its extent, counts its pages, and has a word for the whereabouts of each. A leaf
//! with few pages lists their places, so that it takes little space. A leaf with many pages has a word for each place
//! up to its size. A look-up then finds the whereabouts with one more access to memory. Rows of one shape share a slab
//! of 4 KiB, and an empty slab serves any shape.
//!
//! ```text
//!  listed  object low │ object high │ pool │ extent │ pages, place, place, … │ whereabouts of each
//!  placed  object low │ object high │ pool │ extent │ pages │ – │ – │ – │ whereabouts of place 0, 1, … or zero
//! ```
//!
//! A leaf moves to the next shape when a page comes that does not fit, and back when few are left.

use std::ops::Range;

use sublet_types::{ObjectId, PageIndex};

use crate::arena::PrefetchAddress;
use crate::frames::{EXTENT_PAGES, StoredKey};

const OBJECT_LOW: usize = 0;
const OBJECT_HIGH: usize = 1;
const POOL: usize = 2;
const EXTENT: usize = 3;
/// The word with the number of pages in its lowest byte. In a listed leaf their places are in the bytes that follow.
const PAGES: usize = 4;

/// Words before the whereabouts of a placed leaf.
const PLACED_HEAD: usize = 8;

/// Words of a slab.
const SLAB_WORDS: usize = 1024;

/// The most rows of a slab: those of the smallest shape.
const ROWS_MAX: usize = SLAB_WORDS / SHAPES[0].words();

/// How a row stores pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowLayout {
    /// As a list of their places.
    Listed,
    /// With a word for each place.
    Placed,
}

/// A shape of rows.
#[derive(Clone, Copy, Debug)]
struct LeafShape {
    order: RowLayout,
    /// The word at which whereabouts begin.
    begin: usize,
    /// The number of words for whereabouts.
    len: usize,
    /// With this many pages or fewer, a leaf moves to the next smaller shape.
    few: usize,
    fewer: usize,
}

const SHAPES: [LeafShape; 6] = [
    LeafShape::listed(3, 0, 0),
    LeafShape::listed(9, 2, 0),
    LeafShape::listed(22, 6, 1),
    LeafShape::placed(32, 4, 1),
    LeafShape::placed(64, 8, 1),
    LeafShape::placed(EXTENT_PAGES as usize, 16, 2),
];

/// The first shape that has a word for each place.
const PLACED: usize = 3;

impl LeafShape {
    const fn listed(len: usize, few: usize, fewer: usize) -> LeafShape {
        LeafShape {
            order: RowLayout::Listed,
            begin: PAGES + listed_words(len),
            len,
            few,
            fewer,
        }
    }

    const fn placed(len: usize, few: usize, fewer: usize) -> LeafShape {
        LeafShape {
            order: RowLayout::Placed,
            begin: PLACED_HEAD,
            ..LeafShape::listed(len, few, fewer)
        }
    }

    const fn words(self) -> usize {
        self.begin + self.len
    }

    /// Rows of a slab.
    const fn rows(self) -> u32 {
        (SLAB_WORDS / self.words()) as u32
    }

    /// The word that a row has for a place, if it has one. It is bounded by the shape, because a guess may look at a
    /// row that belongs to another shape by now.
    #[inline]
    fn word(self, row: &[u32], place: u32) -> Option<usize> {
        let n = match self.order {
            RowLayout::Placed => place as usize,
            RowLayout::Listed => {
                let pages = pages(row).min(self.len);
                find_listed(row, pages, place)?
            }
        };
        (n < self.len).then(|| self.begin + n)
    }

    fn has_room(self, row: &[u32], place: u32) -> bool {
        match self.order {
            RowLayout::Listed => pages(row) < self.len,
            RowLayout::Placed => (place as usize) < self.len,
        }
    }

    /// Adds an absent page that fits.
    #[inline]
    fn add(self, row: &mut [u32], place: u32, packed: u32) {
        let n = match self.order {
            RowLayout::Placed => place as usize,
            RowLayout::Listed => {
                let n = pages(row);
                list_place(row, n, place);
                n
            }
        };
        row[self.begin + n] = packed;
        row[PAGES] += 1;
    }

    /// Removes the page at a word.
    fn remove(self, row: &mut [u32], at: usize) {
        row[PAGES] -= 1;
        row[at] = 0;
        if self.order == RowLayout::Listed {
            let last = pages(row);
            list_place(row, at - self.begin, listed_place(row, last));
            row.swap(at, self.begin + last);
            list_place(row, last, 0);
        }
    }

    /// Copies a leaf into a row of another shape that has room for all of it.
    fn copy(self, row: &[u32], to: LeafShape, to_row: &mut [u32]) {
        to_row[..PAGES].copy_from_slice(&row[..PAGES]);
        to_row[PAGES..].fill(0);
        if self.order == RowLayout::Listed && to.order == RowLayout::Listed {
            let pages = pages(row);
            let list = PAGES..PAGES + listed_words(pages);
            to_row[list.clone()].copy_from_slice(&row[list]);
            to_row[to.begin..][..pages].copy_from_slice(&row[self.begin..][..pages]);
            return;
        }
        let pages = (0..self.len).filter_map(|n| self.nth(row, n));
        pages.for_each(|(place, packed)| to.add(to_row, place, packed));
    }

    /// The nth page, if there is one.
    fn nth(self, row: &[u32], n: usize) -> Option<(u32, u32)> {
        let packed = row[self.begin + n];
        let place = match self.order {
            RowLayout::Listed => listed_place(row, n),
            RowLayout::Placed => n as u32,
        };
        (packed != 0).then_some((place, packed))
    }
}

/// A row's first words, which name its extent.
fn extent_of(key: StoredKey) -> [u32; PAGES] {
    let object = key.object.0;
    let mut head = [0; PAGES];
    (head[OBJECT_LOW], head[OBJECT_HIGH]) = (object as u32, (object >> 32) as u32);
    (head[POOL], head[EXTENT]) = (key.pool, key.extent());
    head
}

/// How many pages a row has.
fn pages(row: &[u32]) -> usize {
    usize::from(row[PAGES] as u8)
}

/// Words for this many listed places, including their count.
const fn listed_words(places: usize) -> usize {
    (1 + places).div_ceil(size_of::<u32>())
}

/// The position of the nth listed place in a row: the word, and the bits to shift it by.
fn listed_at(n: usize) -> (usize, u32) {
    let byte = 1 + n;
    (PAGES + byte / 4, (byte % 4 * 8) as u32)
}

#[inline]
fn listed_place(row: &[u32], n: usize) -> u32 {
    let (at, shift) = listed_at(n);
    row[at] >> shift & 0xff
}

/// The index of a place among the first `pages` listed ones. Eight are compared side by side.
#[inline]
fn find_listed(row: &[u32], pages: usize, place: u32) -> Option<usize> {
    const EIGHT: usize = size_of::<u64>();
    const EACH: u64 = u64::from_ne_bytes([1; EIGHT]);
    let sought = u64::from(place) * EACH;
    let mut not_a_place = u64::from(u8::MAX); // how many there are
    // The bytes after the list are compared along with its last places.
    let (words, _) = row[PAGES..].as_chunks::<2>();
    for (nth, [low, high]) in words.iter().enumerate().take(1 + pages / EIGHT) {
        let word = u64::from(*high) << u32::BITS | u64::from(*low);
        let other = (word ^ sought) | not_a_place;
        // The lowest zero byte sets its topmost bit, and no byte below it does.
        let same = other.wrapping_sub(EACH) & !other & EACH << 7;
        if same != 0 {
            let n = nth * EIGHT + same.trailing_zeros() as usize / 8 - 1;
            return (n < pages).then_some(n);
        }
        not_a_place = 0;
    }
    None
}

fn list_place(row: &mut [u32], n: usize, place: u32) {
    let (at, shift) = listed_at(n);
    row[at] = row[at] & !(0xff << shift) | place << shift;
}

/// A leaf's address: its row, and the shape of that row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafId(u32);

/// Bits of a leaf's address for its shape.
const SHAPE_BITS: u32 = 3;

impl LeafId {
    fn new(slab: usize, row: usize, shape: usize) -> LeafId {
        LeafId(((slab * ROWS_MAX + row) << SHAPE_BITS | shape) as u32)
    }

    fn slab(self) -> usize {
        (self.0 >> SHAPE_BITS) as usize / ROWS_MAX
    }

    fn row(self) -> usize {
        (self.0 >> SHAPE_BITS) as usize % ROWS_MAX
    }

    fn shape_number(self) -> usize {
        self.0 as usize & ((1 << SHAPE_BITS) - 1)
    }

    #[inline]
    fn shape(self) -> LeafShape {
        SHAPES[self.shape_number()]
    }

    /// The words of its slab that are its row.
    #[inline]
    fn words(self) -> Range<usize> {
        let words = self.shape().words();
        let begin = self.row() * words;
        begin..begin + words
    }

    /// The form in a slot: 30 bits, for 4 GiB of a shard's leaves.
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
    slabs: Vec<LeafSlab>,
    /// The state of each slab.
    facts: Vec<SlabState>,
    /// Slabs that may have a free row, by shape.
    partial: [Vec<u32>; SHAPES.len()],
    /// Slabs without a used row.
    empty: Vec<u32>,
}

/// A slab of rows. It is aligned to a cache line, so that as few lines as possible hold a row's head.
#[repr(align(64))]
#[derive(Clone)]
struct LeafSlab([u32; SLAB_WORDS]);

/// The state of a slab.
#[derive(Clone, Copy)]
struct SlabState {
    shape: u8,
    /// A bit for each row that is used.
    used: u128,
}

impl SlabState {
    fn shape(&self) -> LeafShape {
        SHAPES[usize::from(self.shape)]
    }

    fn free_row(&self) -> Option<usize> {
        let row = (!self.used).trailing_zeros();
        (row < self.shape().rows()).then_some(row as usize)
    }
}

/// What a change did to a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeafChange {
    /// It stayed where it is.
    Stays,
    /// It has another number now.
    Moved(LeafId),
    /// It ended. One page is left, with these packed whereabouts.
    Ended(u32),
}

impl Leaves {
    /// A free row of a shape.
    fn allocate_row(&mut self, shape: usize) -> LeafId {
        match self.allocate_free_row(shape) {
            Some(id) => id,
            None => {
                let slab = self.add_slab();
                self.assign_slab(slab, shape)
            }
        }
    }

    /// A free row of a shape, if there is one. It needs no memory.
    fn allocate_free_row(&mut self, shape: usize) -> Option<LeafId> {
        while let Some(slab) = self.partial[shape].pop() {
            let facts = &mut self.facts[slab as usize];
            // An empty slab is on the empty list and is taken from there.
            if usize::from(facts.shape) == shape
                && facts.used != 0
                && let Some(row) = facts.free_row()
            {
                facts.used |= 1 << row;
                if facts.free_row().is_some() {
                    self.partial[shape].push(slab);
                }
                return Some(LeafId::new(slab as usize, row, shape));
            }
        }
        let slab = self.empty.pop()?;
        Some(self.assign_slab(slab, shape))
    }

    /// Makes a slab without rows serve a shape. Returns its first row.
    fn assign_slab(&mut self, slab: u32, shape: usize) -> LeafId {
        self.facts[slab as usize] = SlabState {
            shape: shape as u8,
            used: 1,
        };
        self.partial[shape].push(slab);
        LeafId::new(slab as usize, 0, shape)
    }

    /// Adds a slab, and room for it in all lists, so that giving rows back needs no memory.
    fn add_slab(&mut self) -> u32 {
        if self.slabs.len() == self.slabs.capacity() {
            // It grows by an eighth, not by doubling, because leaves are most of what the directory takes.
            let more = self.slabs.len() / 8 + 1;
            self.slabs.reserve_exact(more);
            let slabs = self.slabs.len() + more;
            // A slab is in each list at most once.
            for list in self.partial.iter_mut().chain([&mut self.empty]) {
                list.reserve_exact(slabs - list.len());
            }
        }
        self.slabs.push(LeafSlab([0; SLAB_WORDS]));
        self.facts.push(SlabState { shape: 0, used: 0 });
        self.slabs.len() as u32 - 1
    }

    fn release_row(&mut self, id: LeafId) {
        let facts = &mut self.facts[id.slab()];
        let shape = id.shape_number();
        let was_full = facts.free_row().is_none();
        facts.used &= !(1 << id.row());
        if facts.used == 0 {
            // Its stale entry on the partial list is recognised when it is reached.
            self.empty.push(id.slab() as u32);
        } else if was_full {
            self.partial[shape].push(id.slab() as u32);
        }
    }

    #[inline]
    fn row(&self, id: LeafId) -> (LeafShape, &[u32]) {
        (id.shape(), &self.slabs[id.slab()].0[id.words()])
    }

    #[inline]
    fn row_mut(&mut self, id: LeafId) -> (LeafShape, &mut [u32]) {
        (id.shape(), &mut self.slabs[id.slab()].0[id.words()])
    }

    /// A new leaf of an extent without pages, of the shape for the fewest.
    pub(super) fn add(&mut self, key: StoredKey) -> LeafId {
        let id = self.allocate_row(0);
        let (_, row) = self.row_mut(id);
        row.fill(0);
        row[..PAGES].copy_from_slice(&extent_of(key));
        id
    }

    #[inline]
    pub(super) fn is_of(&self, id: LeafId, key: StoredKey) -> bool {
        let (_, row) = self.row(id);
        row[..PAGES] == extent_of(key)
    }

    /// The whereabouts at a place, whatever extent the leaf belongs to.
    #[inline]
    pub(super) fn get(&self, id: LeafId, place: u32) -> Option<u32> {
        let (shape, row) = self.row(id);
        let packed = row[shape.word(row, place)?];
        (packed != 0).then_some(packed)
    }

    /// The cache lines that hold a leaf's head and probably the word for a place.
    pub(super) fn lines(&self, id: LeafId, place: u32) -> (PrefetchAddress, PrefetchAddress) {
        let (shape, row) = self.row(id);
        let word = match shape.order {
            RowLayout::Placed => shape.begin + place as usize,
            RowLayout::Listed => row.len(),
        };
        (
            PrefetchAddress::of(&row[0]),
            PrefetchAddress::of(&row[word.min(row.len() - 1)]),
        )
    }

    pub(super) fn set(&mut self, id: LeafId, place: u32, packed: u32) {
        let (shape, row) = self.row_mut(id);
        if let Some(at) = shape.word(row, place) {
            row[at] = packed;
        }
    }

    /// Adds an absent page. Returns what happened to the leaf.
    #[inline]
    pub(super) fn insert(&mut self, id: LeafId, place: u32, packed: u32) -> LeafChange {
        let (shape, row) = self.row_mut(id);
        if shape.has_room(row, place) {
            shape.add(row, place, packed);
            return LeafChange::Stays;
        }
        let to = self.allocate_row(self.shape_for_more(id, place));
        self.move_row(id, to);
        let id = to;
        let (shape, row) = self.row_mut(id);
        shape.add(row, place, packed);
        LeafChange::Moved(id)
    }

    /// The next shape of a leaf when a page comes that does not fit.
    fn shape_for_more(&self, id: LeafId, place: u32) -> usize {
        let next = id.shape_number() + 1;
        if next < PLACED {
            return next;
        }
        let last = self.places(id).map(|(place, _)| place).max();
        let last = last.unwrap_or(0).max(place) as usize;
        let fits = (PLACED..).zip(&SHAPES[PLACED..]);
        let fits = fits.filter(|(_, shape)| shape.len > last);
        fits.map(|(n, _)| n).next().unwrap_or(SHAPES.len() - 1)
    }

    /// Removes a present page. Returns what happened to the leaf. It needs no memory (R-F3).
    pub(super) fn remove(&mut self, id: LeafId, place: u32) -> LeafChange {
        let (shape, row) = self.row_mut(id);
        if let Some(at) = shape.word(row, place) {
            shape.remove(row, at);
        }
        match pages(row) {
            1 => {
                let left = self.places(id).next().map_or(0, |(_, packed)| packed);
                self.release_row(id);
                LeafChange::Ended(left)
            }
            pages if pages > 0 && pages <= shape.few => match self.allocate_free_row(shape.fewer) {
                // A later removal tries again.
                None => LeafChange::Stays,
                Some(to) => {
                    self.move_row(id, to);
                    LeafChange::Moved(to)
                }
            },
            _ => LeafChange::Stays,
        }
    }

    /// Moves a leaf to a row of another shape that has room for all of it.
    fn move_row(&mut self, from: LeafId, to: LeafId) {
        let slabs = self
            .slabs
            .get_disjoint_mut([from.slab(), to.slab()])
            .expect("rows of two shapes are in two slabs");
        let [from_slab, to_slab] = slabs;
        let (row, to_row) = (&from_slab.0[from.words()], &mut to_slab.0[to.words()]);
        from.shape().copy(row, to.shape(), to_row);
        self.release_row(from);
    }

    /// A leaf's pages, as places and whereabouts.
    fn places(&self, id: LeafId) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (shape, row) = self.row(id);
        (0..shape.len).filter_map(move |n| shape.nth(row, n))
    }

    /// A leaf's pages, in any order.
    pub(super) fn pages(&self, id: LeafId) -> impl Iterator<Item = (StoredKey, u32)> + '_ {
        let (_, row) = self.row(id);
        let object = u64::from(row[OBJECT_HIGH]) << 32 | u64::from(row[OBJECT_LOW]);
        self.places(id).map(move |(place, packed)| {
            let key = StoredKey {
                pool: row[POOL],
                object: ObjectId(object),
                index: PageIndex(row[EXTENT] * EXTENT_PAGES + place),
            };
            (key, packed)
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let lists = self.partial.iter().map(Vec::capacity).sum::<usize>() + self.empty.capacity();
        lists * size_of::<u32>()
            + self.facts.capacity() * size_of::<SlabState>()
            + self.slabs.capacity() * size_of::<LeafSlab>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Many leaves grow and shrink together, each beside a map.
    fn many_leaves_are_many_maps(steps: Vec<(u32, u32, bool)>) {
        let mut leaves = Leaves::default();
        let mut ids: Vec<Option<LeafId>> = vec![None; LEAVES as usize];
        let mut model: Vec<BTreeMap<u32, u32>> = vec![BTreeMap::new(); LEAVES as usize];
        for (n, (leaf, place, insert)) in (1..).zip(steps) {
            let (id, known) = (&mut ids[leaf as usize], &mut model[leaf as usize]);
            let changed = match (insert, known.contains_key(&place)) {
                (true, false) => {
                    known.insert(place, n);
                    let id = *id.get_or_insert_with(|| leaves.add(key(leaf)));
                    leaves.insert(id, place, n)
                }
                (false, true) => {
                    known.remove(&place);
                    leaves.remove(id.expect("it has pages"), place)
                }
                _ => continue,
            };
            match changed {
                LeafChange::Stays => {}
                LeafChange::Moved(to) => *id = Some(to),
                LeafChange::Ended(left) => {
                    assert_eq!(known.values().collect::<Vec<_>>(), [&left]);
                    known.clear();
                    *id = None;
                }
            }
            if let Some(id) = *id {
                assert_eq!(leaves.get(id, place), known.get(&place).copied());
            }
        }
        for (leaf, (id, known)) in (0..).zip(ids.iter().zip(&model)) {
            let Some(id) = *id else {
                assert!(known.is_empty());
                continue;
            };
            assert!(leaves.is_of(id, key(leaf)));
            let pages = leaves.pages(id).map(|(key, packed)| (key.place(), packed));
            assert_eq!(&pages.collect::<BTreeMap<_, _>>(), known);
        }
    }

    const LEAVES: u32 = 90;

    fn key(leaf: u32) -> StoredKey {
        StoredKey {
            pool: 3,
            object: ObjectId(1 << 40 | u64::from(leaf)),
            index: PageIndex(leaf * EXTENT_PAGES),
        }
    }

    /// Bytes per page of a leaf with this many pages in the shape, without the space that rows leave in a slab.
    fn bytes_per_page(shape: LeafShape, pages: usize) -> usize {
        shape.words() * size_of::<u32>() / pages
    }

    #[test]
    fn no_leaf_takes_more_than_32_bytes_a_page() {
        for (n, shape) in SHAPES.iter().enumerate() {
            assert!(bytes_per_page(*shape, shape.few + 1) <= 32 || n == 0);
            assert!(shape.few <= SHAPES[shape.fewer].len);
        }
        assert_eq!(bytes_per_page(SHAPES[0], 2), 16);
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

        #[test]
        fn few_leaves_fill_and_empty(
            steps in proptest::collection::vec(
                (0..2u32, 0..EXTENT_PAGES, proptest::bool::weighted(0.5)),
                1..6000,
            ),
        ) {
            many_leaves_are_many_maps(steps);
        }
    }

    #[test]
    fn a_place_is_found_where_it_is_listed_and_nowhere_else() {
        for places in 1..=22usize {
            let mut row = [0; PLACED_HEAD + 22];
            row[PAGES] = places as u32;
            let place = |n: usize| (n * 37 % 256) as u32 ^ 1;
            (0..places).for_each(|n| list_place(&mut row, n, place(n)));
            for wanted in 0..=255 {
                let listed = (0..places).find(|n| place(*n) == wanted);
                assert_eq!(find_listed(&row, places, wanted), listed, "{places}");
            }
        }
    }
}
