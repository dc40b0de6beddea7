//! The leaves of a directory: extents of which more than one page is there.
//!
//! A leaf is a row of words: who it is of, how many pages it has, and a word for the whereabouts of each. Of few pages
//! it lists the places, so that it takes little; of many it has a word for each place up to its size, so that whoever
//! finds its slot has the whereabouts with one more look at memory. Rows of one shape share a plate of 4 KiB, and an
//! empty plate serves any shape.
//!
//! ```text
//!  listed  object low │ object high │ pool │ extent │ pages, place, place, … │ whereabouts of each
//!  placed  object low │ object high │ pool │ extent │ pages │ – │ – │ – │ whereabouts of place 0, 1, … or zero
//! ```
//!
//! A leaf moves to the next shape when a page comes that has no room, and back when few are left.

use std::ops::Range;

use sublet_types::{ObjectId, PageIndex};

use crate::arena::Line;
use crate::frames::{EXTENT_PAGES, Key};

const OBJECT_LOW: usize = 0;
const OBJECT_HIGH: usize = 1;
const POOL: usize = 2;
const EXTENT: usize = 3;
/// How many pages there are, in the lowest byte; where they are listed, their places in the bytes that follow.
const PAGES: usize = 4;

/// Words before the whereabouts of a leaf that has a word for each place.
const PLACED_HEAD: usize = 8;

/// Words of a plate.
const PLATE: usize = 1024;

/// A plate has at most so many rows: those of the smallest shape.
const ROWS_MAX: usize = PLATE / SHAPES[0].words();

/// How a row tells of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// By a list of their places.
    Listed,
    /// By their places.
    Placed,
}

/// A shape of rows.
#[derive(Clone, Copy, Debug)]
struct Shape {
    order: Order,
    /// Where whereabouts begin.
    begin: usize,
    /// Words for them.
    len: usize,
    /// With so few pages a leaf is better off with the shape `fewer`.
    few: usize,
    fewer: usize,
}

const SHAPES: [Shape; 6] = [
    Shape::listed(3, 0, 0),
    Shape::listed(9, 2, 0),
    Shape::listed(22, 6, 1),
    Shape::placed(32, 4, 1),
    Shape::placed(64, 8, 1),
    Shape::placed(EXTENT_PAGES as usize, 16, 2),
];

/// The first shape that has a word for each place.
const PLACED: usize = 3;

impl Shape {
    const fn listed(len: usize, few: usize, fewer: usize) -> Shape {
        Shape {
            order: Order::Listed,
            begin: PAGES + listed_words(len),
            len,
            few,
            fewer,
        }
    }

    const fn placed(len: usize, few: usize, fewer: usize) -> Shape {
        Shape {
            order: Order::Placed,
            begin: PLACED_HEAD,
            ..Shape::listed(len, few, fewer)
        }
    }

    const fn words(self) -> usize {
        self.begin + self.len
    }

    /// Rows of a plate.
    const fn rows(self) -> u32 {
        (PLATE / self.words()) as u32
    }

    /// Where a row tells of a place, if it does. Bounded by the shape: who guesses may look at a row that is of another
    /// one by now.
    #[inline]
    fn word(self, row: &[u32], place: u32) -> Option<usize> {
        let n = match self.order {
            Order::Placed => place as usize,
            Order::Listed => {
                let pages = pages(row).min(self.len);
                find_listed(row, pages, place)?
            }
        };
        (n < self.len).then(|| self.begin + n)
    }

    fn has_room(self, row: &[u32], place: u32) -> bool {
        match self.order {
            Order::Listed => pages(row) < self.len,
            Order::Placed => (place as usize) < self.len,
        }
    }

    /// Adds a page that is not there, for which there is room.
    #[inline]
    fn add(self, row: &mut [u32], place: u32, packed: u32) {
        let n = match self.order {
            Order::Placed => place as usize,
            Order::Listed => {
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
        if self.order == Order::Listed {
            let last = pages(row);
            list_place(row, at - self.begin, listed_place(row, last));
            row.swap(at, self.begin + last);
            list_place(row, last, 0);
        }
    }

    /// Copies a leaf into a row of another shape, in which there is room for all that it has.
    fn copy(self, row: &[u32], to: Shape, to_row: &mut [u32]) {
        to_row[..PAGES].copy_from_slice(&row[..PAGES]);
        to_row[PAGES..].fill(0);
        if self.order == Order::Listed && to.order == Order::Listed {
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
            Order::Listed => listed_place(row, n),
            Order::Placed => n as u32,
        };
        (packed != 0).then_some((place, packed))
    }
}

/// A row's first words: whose extent it is of.
fn extent_of(key: Key) -> [u32; PAGES] {
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

/// Words that so many places take, with how many they are.
const fn listed_words(places: usize) -> usize {
    (1 + places).div_ceil(size_of::<u32>())
}

/// Where in a row the nth place is listed: the word, and the bits to shift it by.
fn listed_at(n: usize) -> (usize, u32) {
    let byte = 1 + n;
    (PAGES + byte / 4, (byte % 4 * 8) as u32)
}

#[inline]
fn listed_place(row: &[u32], n: usize) -> u32 {
    let (at, shift) = listed_at(n);
    row[at] >> shift & 0xff
}

/// Which of the first `pages` places is that one. Eight are compared side by side.
#[inline]
fn find_listed(row: &[u32], pages: usize, place: u32) -> Option<usize> {
    const EIGHT: usize = size_of::<u64>();
    const EACH: u64 = u64::from_ne_bytes([1; EIGHT]);
    let sought = u64::from(place) * EACH;
    let mut not_a_place = u64::from(u8::MAX); // how many there are
    // What follows the list is compared with its last places.
    let (words, _) = row[PAGES..].as_chunks::<2>();
    for (nth, [low, high]) in words.iter().enumerate().take(1 + pages / EIGHT) {
        let word = u64::from(*high) << u32::BITS | u64::from(*low);
        let other = (word ^ sought) | not_a_place;
        // The lowest byte that is zero borrows its topmost bit, and none below it does.
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

/// Where a leaf is: its row, and of which shape that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafId(u32);

/// Bits of a leaf's place for its shape.
const SHAPE_BITS: u32 = 3;

impl LeafId {
    fn new(plate: usize, row: usize, shape: usize) -> LeafId {
        LeafId(((plate * ROWS_MAX + row) << SHAPE_BITS | shape) as u32)
    }

    fn plate(self) -> usize {
        (self.0 >> SHAPE_BITS) as usize / ROWS_MAX
    }

    fn row(self) -> usize {
        (self.0 >> SHAPE_BITS) as usize % ROWS_MAX
    }

    fn shape_number(self) -> usize {
        self.0 as usize & ((1 << SHAPE_BITS) - 1)
    }

    #[inline]
    fn shape(self) -> Shape {
        SHAPES[self.shape_number()]
    }

    /// Which words of its plate are its row.
    #[inline]
    fn words(self) -> Range<usize> {
        let words = self.shape().words();
        let begin = self.row() * words;
        begin..begin + words
    }

    /// As a slot keeps it: 30 bits, for 4 GiB of a shard's leaves.
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
    /// Plates that may have a free row, by shape.
    partial: [Vec<u32>; SHAPES.len()],
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
    shape: u8,
    /// A bit for each row that is used.
    used: u128,
}

impl PlateFacts {
    fn shape(&self) -> Shape {
        SHAPES[usize::from(self.shape)]
    }

    fn free_row(&self) -> Option<usize> {
        let row = (!self.used).trailing_zeros();
        (row < self.shape().rows()).then_some(row as usize)
    }
}

/// What has become of a leaf after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// Nothing.
    Stays,
    /// It has another number now.
    Moved(LeafId),
    /// It ended: one page is left, whose whereabouts these are.
    Ended(u32),
}

impl Leaves {
    /// A free row of a shape.
    fn take(&mut self, shape: usize) -> LeafId {
        match self.take_ready(shape) {
            Some(id) => id,
            None => {
                let plate = self.add_plate();
                self.begin(plate, shape)
            }
        }
    }

    /// A free row of a shape, if there is one: needs no memory.
    fn take_ready(&mut self, shape: usize) -> Option<LeafId> {
        while let Some(plate) = self.partial[shape].pop() {
            let facts = &mut self.facts[plate as usize];
            // An empty one is among the empty ones, and comes from there.
            if usize::from(facts.shape) == shape
                && facts.used != 0
                && let Some(row) = facts.free_row()
            {
                facts.used |= 1 << row;
                if facts.free_row().is_some() {
                    self.partial[shape].push(plate);
                }
                return Some(LeafId::new(plate as usize, row, shape));
            }
        }
        let plate = self.empty.pop()?;
        Some(self.begin(plate, shape))
    }

    /// Has a plate without rows serve a shape from now on. Its first row.
    fn begin(&mut self, plate: u32, shape: usize) -> LeafId {
        self.facts[plate as usize] = PlateFacts {
            shape: shape as u8,
            used: 1,
        };
        self.partial[shape].push(plate);
        LeafId::new(plate as usize, 0, shape)
    }

    /// A plate more, and room for it in all lists: who gives rows back needs no memory.
    fn add_plate(&mut self) -> u32 {
        if self.plates.len() == self.plates.capacity() {
            // An eighth more, and not twice as much: leaves are most of what the directory takes.
            let more = self.plates.len() / 8 + 1;
            self.plates.reserve_exact(more);
            let plates = self.plates.len() + more;
            // A plate stands in each list once at the most.
            for list in self.partial.iter_mut().chain([&mut self.empty]) {
                list.reserve_exact(plates - list.len());
            }
        }
        self.plates.push(Plate([0; PLATE]));
        self.facts.push(PlateFacts { shape: 0, used: 0 });
        self.plates.len() as u32 - 1
    }

    fn give_back(&mut self, id: LeafId) {
        let facts = &mut self.facts[id.plate()];
        let shape = id.shape_number();
        let was_full = facts.free_row().is_none();
        facts.used &= !(1 << id.row());
        if facts.used == 0 {
            // Its place among the partial ones is found to be stale when it is come by.
            self.empty.push(id.plate() as u32);
        } else if was_full {
            self.partial[shape].push(id.plate() as u32);
        }
    }

    #[inline]
    fn row(&self, id: LeafId) -> (Shape, &[u32]) {
        (id.shape(), &self.plates[id.plate()].0[id.words()])
    }

    #[inline]
    fn row_mut(&mut self, id: LeafId) -> (Shape, &mut [u32]) {
        (id.shape(), &mut self.plates[id.plate()].0[id.words()])
    }

    /// A new leaf of an extent without pages, of the shape for the fewest.
    pub(super) fn add(&mut self, key: Key) -> LeafId {
        let id = self.take(0);
        let (_, row) = self.row_mut(id);
        row.fill(0);
        row[..PAGES].copy_from_slice(&extent_of(key));
        id
    }

    #[inline]
    pub(super) fn is_of(&self, id: LeafId, key: Key) -> bool {
        let (_, row) = self.row(id);
        row[..PAGES] == extent_of(key)
    }

    /// The whereabouts at a place; of whichever extent the leaf is.
    #[inline]
    pub(super) fn get(&self, id: LeafId, place: u32) -> Option<u32> {
        let (shape, row) = self.row(id);
        let packed = row[shape.word(row, place)?];
        (packed != 0).then_some(packed)
    }

    /// Where a leaf says whose it is, and where it probably tells of a place.
    pub(super) fn lines(&self, id: LeafId, place: u32) -> (Line, Line) {
        let (shape, row) = self.row(id);
        let word = match shape.order {
            Order::Placed => shape.begin + place as usize,
            Order::Listed => row.len(),
        };
        (Line::of(&row[0]), Line::of(&row[word.min(row.len() - 1)]))
    }

    pub(super) fn set(&mut self, id: LeafId, place: u32, packed: u32) {
        let (shape, row) = self.row_mut(id);
        if let Some(at) = shape.word(row, place) {
            row[at] = packed;
        }
    }

    /// Adds a page that is not there. Says what has become of the leaf.
    #[inline]
    pub(super) fn insert(&mut self, id: LeafId, place: u32, packed: u32) -> Changed {
        let (shape, row) = self.row_mut(id);
        if shape.has_room(row, place) {
            shape.add(row, place, packed);
            return Changed::Stays;
        }
        let to = self.take(self.shape_for_more(id, place));
        self.move_row(id, to);
        let id = to;
        let (shape, row) = self.row_mut(id);
        shape.add(row, place, packed);
        Changed::Moved(id)
    }

    /// The next shape of a leaf to which a page comes that has no room.
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

    /// Removes a page that is there. Says what has become of the leaf. Needs no memory (R-F3).
    pub(super) fn remove(&mut self, id: LeafId, place: u32) -> Changed {
        let (shape, row) = self.row_mut(id);
        if let Some(at) = shape.word(row, place) {
            shape.remove(row, at);
        }
        match pages(row) {
            1 => {
                let left = self.places(id).next().map_or(0, |(_, packed)| packed);
                self.give_back(id);
                Changed::Ended(left)
            }
            pages if pages > 0 && pages <= shape.few => match self.take_ready(shape.fewer) {
                // Another time.
                None => Changed::Stays,
                Some(to) => {
                    self.move_row(id, to);
                    Changed::Moved(to)
                }
            },
            _ => Changed::Stays,
        }
    }

    /// Moves a leaf to a row of another shape, in which there is room for all that it has.
    fn move_row(&mut self, from: LeafId, to: LeafId) {
        let plates = self
            .plates
            .get_disjoint_mut([from.plate(), to.plate()])
            .expect("rows of two shapes are in two plates");
        let [from_plate, to_plate] = plates;
        let (row, to_row) = (&from_plate.0[from.words()], &mut to_plate.0[to.words()]);
        from.shape().copy(row, to.shape(), to_row);
        self.give_back(from);
    }

    /// A leaf's pages, as places and whereabouts.
    fn places(&self, id: LeafId) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (shape, row) = self.row(id);
        (0..shape.len).filter_map(move |n| shape.nth(row, n))
    }

    /// A leaf's pages, in any order.
    pub(super) fn pages(&self, id: LeafId) -> impl Iterator<Item = (Key, u32)> + '_ {
        let (_, row) = self.row(id);
        let object = u64::from(row[OBJECT_HIGH]) << 32 | u64::from(row[OBJECT_LOW]);
        self.places(id).map(move |(place, packed)| {
            let key = Key {
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
                Changed::Stays => {}
                Changed::Moved(to) => *id = Some(to),
                Changed::Ended(left) => {
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

    fn key(leaf: u32) -> Key {
        Key {
            pool: 3,
            object: ObjectId(1 << 40 | u64::from(leaf)),
            index: PageIndex(leaf * EXTENT_PAGES),
        }
    }

    /// Bytes a page of a leaf with so many pages in the shape, rows that a plate has no room for left out.
    fn bytes_per_page(shape: Shape, pages: usize) -> usize {
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
