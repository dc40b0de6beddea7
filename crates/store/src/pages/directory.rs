//! The directory of one shard: key → whereabouts.
//!
//! ```text
//!  lone    a slot for each page that has no leaf, by the hash of its key; the key itself stands with the
//!          page. 11 to 14 bytes a page
//!  dense   a slot for each leaf, by the hash of its extent
//!  leaves  extents of 128 pages of which many are there: 4 bytes for each place up to the last one.
//!          4 to 5 bytes a page where all are
//!  wide    objects with pages beyond their first extent: how many, and how far they reach
//! ```
//!
//! An extent gets a leaf when a page comes to it that finds three of its neighbours there already, and loses it when
//! less than a quarter is left.
//!
//! A whereabouts needs no generation: the frame table of a dropped block is swept, and what led to it
//! removed from here, before the block's frames are used again (`sweep`).

use std::collections::HashMap;

use sublet_types::{ObjectId, PageIndex};

use super::frame::FrameId;
use super::key::{EXTENT_PAGES, Key, Seed, Seeded};
use super::leaf::{Changed, LeafId, Leaves};
use super::slots::{Slot, Slots};
use crate::arena::{Line, Wanted};

/// Bits of a whereabouts for its frame or its place on disk: 4 TiB of pages.
const PLACE_BITS: u32 = 30;

const HERE: u32 = 1;
const ON_DISK: u32 = 2;

/// Whose presence makes a leaf worth while, besides the page half-way to the extent's begin: the page just before, and
/// one a little further. Pages that come in order find them soon, pages that come in any order when nearly half of
/// the extent is there.
const NEIGHBOURS: [u32; 2] = [1, 6];

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// In a frame of this host.
    Here(FrameId),
    /// On disk, as the shard's persistent page of this number.
    OnDisk(u32),
}

impl Whereabouts {
    /// In four bytes; never zero.
    fn packed(self) -> u32 {
        match self {
            Whereabouts::Here(frame) => HERE << PLACE_BITS | frame.0,
            Whereabouts::OnDisk(number) => ON_DISK << PLACE_BITS | number,
        }
    }

    fn unpacked(packed: u32) -> Whereabouts {
        let place = packed & ((1 << PLACE_BITS) - 1);
        match packed >> PLACE_BITS {
            ON_DISK => Whereabouts::OnDisk(place),
            _ => Whereabouts::Here(FrameId(place)),
        }
    }
}

/// Says which page is at a whereabouts: the key stands with the page.
pub(crate) trait Keys {
    /// Hears that the page there will probably be asked for.
    fn expect(&self, whereabouts: Whereabouts);
    /// Where the key of the page there stands, if that is worth fetching.
    fn line(&self, whereabouts: Whereabouts) -> Option<Line>;
    fn key_at(&self, whereabouts: Whereabouts) -> Key;
}

/// How far an object reaches beyond its first extent.
#[derive(Clone, Copy)]
struct Reach {
    /// Pages in extents but the first.
    pages: u32,
    first: u32,
    last: u32,
}

pub(crate) struct Directory {
    seed: Seed,
    lone: Slots,
    dense: Slots,
    leaves: Leaves,
    /// Leaves that ended, since the start.
    ended: u32,
    wide: HashMap<(u32, ObjectId), Reach, Seeded>,
}

/// Where a page stands in the directory.
#[derive(Clone, Copy)]
enum Place {
    Lone(usize),
    Leaf(LeafId),
}

/// Where a page is, or else where it would be, for as long as no other page comes and the directory does not age.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Standing {
    /// In a frame of this host.
    Here(FrameId),
    /// On disk only, as the shard's persistent page of this number.
    OnDisk(u32),
    /// Nowhere; its extent has this leaf.
    InLeaf(LeafId),
    /// Nowhere; its extent has no leaf.
    Alone,
}

impl From<Whereabouts> for Standing {
    fn from(whereabouts: Whereabouts) -> Standing {
        match whereabouts {
            Whereabouts::Here(frame) => Standing::Here(frame),
            Whereabouts::OnDisk(number) => Standing::OnDisk(number),
        }
    }
}

impl Directory {
    pub(crate) fn new(seed: Seed) -> Directory {
        Directory {
            seed,
            lone: Slots::default(),
            dense: Slots::default(),
            leaves: Leaves::default(),
            ended: 0,
            wide: HashMap::with_hasher(Seeded::new(seed)),
        }
    }

    /// The leaf of a key's extent. `object` is the hash of the key's object.
    #[inline]
    fn leaf(&self, object: u64, key: Key) -> Option<LeafId> {
        let is_it = |packed| self.leaves.is_of(LeafId::unpacked(packed), key);
        let at = self.dense.find(self.extent_tag(object, key), is_it)?;
        Some(LeafId::unpacked(self.dense.get(at).to()))
    }

    /// The slot that leads to a leaf of a key's extent.
    fn slot_of(&self, object: u64, key: Key, leaf: LeafId) -> Option<usize> {
        let tag = self.extent_tag(object, key);
        self.dense.find(tag, |packed| packed == leaf.packed())
    }

    fn extent_tag(&self, object: u64, key: Key) -> u32 {
        (self.seed.extent(object, key.extent()) >> 32) as u32
    }

    fn lone_tag(&self, object: u64, key: Key) -> u32 {
        (self.seed.page_of(object, key.index) >> 32) as u32
    }

    fn find_lone(&self, keys: &impl Keys, object: u64, key: Key) -> Option<usize> {
        let is_it = |packed| keys.key_at(Whereabouts::unpacked(packed)) == key;
        self.lone.find(self.lone_tag(object, key), is_it)
    }

    /// The leaf of a key's extent, by the word of the frame, where there is a page: the leaf's head is another line of
    /// memory, and need not be waited for.
    #[inline]
    fn leaf_by_page(&self, keys: &impl Keys, object: u64, key: Key) -> Option<LeafId> {
        let is_it = |packed| {
            let leaf = LeafId::unpacked(packed);
            let there = self.leaves.get(leaf, key.place());
            match there.map(Whereabouts::unpacked) {
                None => self.leaves.is_of(leaf, key),
                Some(there) => {
                    keys.expect(there);
                    keys.key_at(there) == key
                }
            }
        };
        let at = self.dense.find(self.extent_tag(object, key), is_it)?;
        Some(LeafId::unpacked(self.dense.get(at).to()))
    }

    /// The leaf that probably is of a key's extent: nobody has looked whether it is.
    pub(crate) fn probable_leaf(&self, object: u64, key: Key) -> Option<LeafId> {
        let at = self.dense.find(self.extent_tag(object, key), |_| true)?;
        Some(LeafId::unpacked(self.dense.get(at).to()))
    }

    /// Where a page probably is: nobody has looked whether it is the page.
    pub(crate) fn guess(&self, object: u64, key: Key) -> Option<Whereabouts> {
        self.guess_by(self.probable_leaf(object, key), object, key)
    }

    /// The same, for whoever knows the probable leaf.
    #[inline]
    pub(crate) fn guess_by(
        &self,
        leaf: Option<LeafId>,
        object: u64,
        key: Key,
    ) -> Option<Whereabouts> {
        let packed = match leaf {
            Some(leaf) => self.leaves.get(leaf, key.place())?,
            None => {
                let at = self.lone.find(self.lone_tag(object, key), |_| true)?;
                self.lone.get(at).to()
            }
        };
        Some(Whereabouts::unpacked(packed))
    }

    /// Wants what will be read to find a page or to add it. Says which leaf it probably is in.
    #[inline]
    pub(crate) fn want(&self, object: u64, key: Key, wanted: &mut Wanted) -> Option<LeafId> {
        let leaf = self.probable_leaf(object, key);
        match leaf {
            Some(leaf) => {
                let (head, word) = self.leaves.lines(leaf, key.place());
                wanted.add(head);
                word.into_iter().for_each(|line| wanted.add(line));
            }
            None => {
                let line = self.lone.line(self.lone_tag(object, key));
                line.into_iter().for_each(|line| wanted.add(line));
            }
        }
        leaf
    }

    #[inline]
    fn find(&self, keys: &impl Keys, object: u64, key: Key) -> Option<(Place, Whereabouts)> {
        let (place, packed) = match self.leaf_by_page(keys, object, key) {
            Some(leaf) => (Place::Leaf(leaf), self.leaves.get(leaf, key.place())?),
            None => {
                let at = self.find_lone(keys, object, key)?;
                (Place::Lone(at), self.lone.get(at).to())
            }
        };
        Some((place, Whereabouts::unpacked(packed)))
    }

    /// Where a page is, or else where it would be. `object` is the hash of its object.
    #[inline]
    pub(crate) fn look(&self, keys: &impl Keys, object: u64, key: Key) -> Standing {
        let packed = match self.leaf_by_page(keys, object, key) {
            Some(leaf) => match self.leaves.get(leaf, key.place()) {
                Some(packed) => packed,
                None => return Standing::InLeaf(leaf),
            },
            None => match self.find_lone(keys, object, key) {
                Some(at) => self.lone.get(at).to(),
                None => return Standing::Alone,
            },
        };
        Whereabouts::unpacked(packed).into()
    }

    /// Where a page is. `object` is the hash of its object.
    #[inline]
    pub(crate) fn get(&self, keys: &impl Keys, object: u64, key: Key) -> Option<Whereabouts> {
        match self.look(keys, object, key) {
            Standing::Here(frame) => Some(Whereabouts::Here(frame)),
            Standing::OnDisk(number) => Some(Whereabouts::OnDisk(number)),
            Standing::InLeaf(_) | Standing::Alone => None,
        }
    }

    /// Says where a page is that is known already.
    pub(crate) fn set(&mut self, keys: &impl Keys, object: u64, key: Key, to: Whereabouts) {
        match self.find(keys, object, key) {
            Some((Place::Lone(at), _)) => self.lone.set(at, to.packed()),
            Some((Place::Leaf(leaf), _)) => self.leaves.set(leaf, key.place(), to.packed()),
            None => debug_assert!(false, "a page that is moved is known"),
        }
    }

    /// A number that is another one as soon as pages that left may have changed where others would be.
    pub(crate) fn age(&self) -> u32 {
        self.ended
    }

    /// Adds a page that is not known, where a look said that it would be.
    #[inline]
    pub(crate) fn add(
        &mut self,
        keys: &impl Keys,
        object: u64,
        key: Key,
        standing: Standing,
        to: Whereabouts,
    ) {
        match standing {
            Standing::InLeaf(leaf) => self.add_to_leaf(object, key, leaf, to),
            Standing::Alone => self.add_alone(keys, object, key, to),
            Standing::Here(_) | Standing::OnDisk(_) => {
                debug_assert!(false, "a page that is added is not known");
            }
        }
        self.note_reach(key);
    }

    #[inline]
    fn add_to_leaf(&mut self, object: u64, key: Key, leaf: LeafId, to: Whereabouts) {
        if let Changed::Moved(moved) = self.leaves.insert(leaf, key.place(), to.packed())
            && let Some(at) = self.slot_of(object, key, leaf)
        {
            self.dense.set(at, moved.packed());
        }
    }

    fn add_alone(&mut self, keys: &impl Keys, object: u64, key: Key, to: Whereabouts) {
        if self.has_neighbours(object, key) {
            self.gather(keys, object, key, to);
        } else {
            let tag = self.lone_tag(object, key);
            self.lone.insert(Slot::new(to.packed(), tag));
        }
    }

    /// Whether a page's neighbours are there, by their tags: a wrong yes makes a leaf with fewer pages.
    fn has_neighbours(&self, object: u64, key: Key) -> bool {
        let place = key.place();
        let has = |place: u32| {
            let index = PageIndex(key.index.0 - key.place() + place);
            self.lone.has(self.lone_tag(object, key.at(index)))
        };
        let near = NEIGHBOURS.iter();
        let mut near = near.map(|far| (place + EXTENT_PAGES - far) % EXTENT_PAGES);
        near.all(has) && has(place / 2)
    }

    /// Makes a leaf of an extent's lone pages and one more.
    fn gather(&mut self, keys: &impl Keys, object: u64, key: Key, to: Whereabouts) {
        let mut row = [0; EXTENT_PAGES as usize];
        row[key.place() as usize] = to.packed();
        self.want_extent(keys, object, key);
        let first = key.index.0 - key.place();
        for (place, packed) in (0..).zip(&mut row).filter(|(_, packed)| **packed == 0) {
            let index = first + place;
            if let Some(at) = self.find_lone(keys, object, key.at(PageIndex(index))) {
                *packed = self.lone.get(at).to();
                self.lone.remove(at);
            }
        }
        let tag = self.extent_tag(object, key);
        let leaf = self.leaves.add(key, &row);
        self.dense.insert(Slot::new(leaf.packed(), tag));
    }

    /// Has the processor fetch what tells of an extent's lone pages: their slots, and then the pages' keys.
    fn want_extent(&self, keys: &impl Keys, object: u64, key: Key) {
        let first = key.index.0 - key.place();
        let tags =
            (0..EXTENT_PAGES).map(|place| self.lone_tag(object, key.at(PageIndex(first + place))));
        let mut wanted = Wanted::new();
        tags.clone()
            .filter_map(|tag| self.lone.line(tag))
            .for_each(|line| wanted.add(line));
        wanted.fetch();
        tags.filter_map(|tag| self.lone.find(tag, |_| true))
            .filter_map(|at| keys.line(Whereabouts::unpacked(self.lone.get(at).to())))
            .for_each(|line| wanted.add(line));
        wanted.fetch();
    }

    /// Gives each page of a leaf a slot of its own.
    fn scatter(&mut self, object: u64, key: Key, leaf: LeafId) {
        if let Some(at) = self.slot_of(object, key, leaf) {
            self.dense.remove(at);
        }
        let row = self.leaves.give_up(leaf);
        self.ended = self.ended.wrapping_add(1);
        let first = key.index.0 - key.place();
        for (place, packed) in (0..).zip(row).filter(|(_, packed)| *packed != 0) {
            let index = first + place;
            let tag = self.lone_tag(object, key.at(PageIndex(index)));
            self.lone.insert(Slot::new(packed, tag));
        }
    }

    /// Removes a page; says where it was.
    pub(crate) fn remove(
        &mut self,
        keys: &impl Keys,
        object: u64,
        key: Key,
    ) -> Option<Whereabouts> {
        let (place, whereabouts) = self.find(keys, object, key)?;
        match place {
            Place::Lone(at) => self.lone.remove(at),
            Place::Leaf(leaf) => {
                if self.leaves.remove(leaf, key.place()) == Changed::Sparse {
                    self.scatter(object, key, leaf);
                }
            }
        }
        self.forget_reach(key);
        Some(whereabouts)
    }

    fn note_reach(&mut self, key: Key) {
        let extent = key.extent();
        if extent > 0 {
            let none = Reach {
                pages: 0,
                first: extent,
                last: extent,
            };
            let reach = self.wide.entry((key.pool, key.object)).or_insert(none);
            reach.pages += 1;
            reach.first = reach.first.min(extent);
            reach.last = reach.last.max(extent);
        }
    }

    fn forget_reach(&mut self, key: Key) {
        let object = (key.pool, key.object);
        if key.extent() > 0
            && let Some(reach) = self.wide.get_mut(&object)
        {
            reach.pages -= 1;
            if reach.pages == 0 {
                self.wide.remove(&object);
            }
        }
    }

    /// The pages of an object, an extent at a time: adds them to `found` and says where to go on. Start with 0. An
    /// object that reaches further than there are pages is found by a look at every page instead.
    pub(crate) fn object(
        &self,
        keys: &impl Keys,
        object: u64,
        key: Key,
        from: u32,
        found: &mut Vec<(Key, Whereabouts)>,
    ) -> Option<u32> {
        let reach = self.wide.get(&(key.pool, key.object));
        let span = reach.map_or(0, |reach| (reach.last - reach.first) as usize);
        if span > self.lone.len() / EXTENT_PAGES as usize + self.dense.len() {
            self.visit(keys, |there, whereabouts| {
                if there.pool == key.pool && there.object == key.object {
                    found.push((there, whereabouts));
                }
            });
            return None;
        }
        let extent = match (from, reach) {
            (0, _) => 0,
            (_, None) => return None,
            (from, Some(reach)) => from.max(reach.first),
        };
        let first = key.at(PageIndex(extent * EXTENT_PAGES));
        self.extent(keys, object, first, found);
        reach
            .is_some_and(|reach| extent < reach.last)
            .then_some(extent + 1)
    }

    fn extent(
        &self,
        keys: &impl Keys,
        object: u64,
        first: Key,
        found: &mut Vec<(Key, Whereabouts)>,
    ) {
        if let Some(leaf) = self.leaf(object, first) {
            found.extend(self.leaves.pages(leaf).map(unpack));
            return;
        }
        for place in 0..EXTENT_PAGES {
            let key = first.at(PageIndex(first.index.0 + place));
            if let Some(at) = self.find_lone(keys, object, key) {
                found.push((key, Whereabouts::unpacked(self.lone.get(at).to())));
            }
        }
    }

    /// Every page.
    pub(crate) fn visit(&self, keys: &impl Keys, mut visit: impl FnMut(Key, Whereabouts)) {
        for slot in self.lone.iter() {
            let whereabouts = Whereabouts::unpacked(slot.to());
            visit(keys.key_at(whereabouts), whereabouts);
        }
        for slot in self.dense.iter() {
            let pages = self.leaves.pages(LeafId::unpacked(slot.to())).map(unpack);
            pages.for_each(|(key, whereabouts)| visit(key, whereabouts));
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let wide = self.wide.capacity() * (size_of::<((u32, ObjectId), Reach)>() + 1);
        (self.leaves.bytes() + self.lone.bytes() + self.dense.bytes() + wide) as u64
    }
}

fn unpack((key, packed): (Key, u32)) -> (Key, Whereabouts) {
    (key, Whereabouts::unpacked(packed))
}
