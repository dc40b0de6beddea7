//! The directory of one shard: key → whereabouts.
//!
//! ```text
//!  slots   one for each extent that has pages, by the hash of it: to its only page, or to its leaf. 11 to 14
//!          bytes
//!  leaves  extents of two pages and more: 16 to 32 bytes a page where few are there, 4 to 5 where all are
//!  wide    objects with pages beyond their first extent: how many, and how far they reach
//! ```
//!
//! An only page's key stands with the page itself.
//!
//! A whereabouts needs no generation: the frame table of a dropped block is swept, and what led to it
//! removed from here, before the block's frames are used again (`sweep`).

use std::collections::HashMap;

use sublet_types::{ObjectId, PageIndex};

use super::leaf::{Changed, LeafId, Leaves};
use super::slots::{Slot, Slots};
use crate::arena::Wanted;
use crate::frames::FrameId;
use crate::frames::{EXTENT_PAGES, Key, Seed, Seeded};

/// Bits of what a slot or a leaf leads to, for a frame, a place on disk or a leaf: 4 TiB of pages.
const PLACE_BITS: u32 = 30;

const HERE: u32 = 1;
const ON_DISK: u32 = 2;
const IN_LEAF: u32 = 3;

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

/// What an extent's slot leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Led {
    /// To the only page of it that is there.
    Page(Whereabouts),
    Leaf(LeafId),
}

impl Led {
    fn packed(self) -> u32 {
        match self {
            Led::Page(whereabouts) => whereabouts.packed(),
            Led::Leaf(leaf) => IN_LEAF << PLACE_BITS | leaf.packed(),
        }
    }

    fn unpacked(packed: u32) -> Led {
        match packed >> PLACE_BITS {
            IN_LEAF => Led::Leaf(LeafId::unpacked(packed & ((1 << PLACE_BITS) - 1))),
            _ => Led::Page(Whereabouts::unpacked(packed)),
        }
    }
}

/// Says which page is at a whereabouts: the key stands with the page.
pub(crate) trait Keys {
    /// Hears that the page there will probably be asked for.
    fn expect(&self, whereabouts: Whereabouts);
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
    slots: Slots,
    leaves: Leaves,
    /// Changes of where pages that are not there would be, since the start.
    age: u32,
    wide: HashMap<(u32, ObjectId), Reach, Seeded>,
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
    /// Nowhere; its extent's slot leads to another page, so.
    Beside(u32),
    /// Nowhere; its extent has no slot.
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
            slots: Slots::default(),
            leaves: Leaves::default(),
            age: 0,
            wide: HashMap::with_hasher(Seeded::new(seed)),
        }
    }

    fn tag(&self, object: u64, key: Key) -> u32 {
        (self.seed.extent(object, key.extent()) >> 32) as u32
    }

    /// What a slot of a key's tag says of a page, if it is the slot of the key's extent. Where there is a page, by the
    /// frame's word: a leaf's head is another line of memory, and need not be waited for.
    #[inline]
    fn told(&self, keys: &impl Keys, key: Key, packed: u32) -> Option<Standing> {
        match Led::unpacked(packed) {
            Led::Leaf(leaf) => match self.leaves.get(leaf, key.place()) {
                None => self
                    .leaves
                    .is_of(leaf, key)
                    .then_some(Standing::InLeaf(leaf)),
                Some(packed) => {
                    let there = Whereabouts::unpacked(packed);
                    keys.expect(there);
                    (keys.key_at(there) == key).then(|| there.into())
                }
            },
            Led::Page(there) => match keys.key_at(there) {
                same if same == key => Some(there.into()),
                near if near.is_beside(key) => Some(Standing::Beside(packed)),
                _ => None,
            },
        }
    }

    /// An extent's slot, and what it says of a page. `object` is the hash of the page's object.
    #[inline]
    fn find(&self, keys: &impl Keys, object: u64, key: Key) -> Option<(usize, Standing)> {
        let tag = self.tag(object, key);
        self.slots.find(tag, |packed| self.told(keys, key, packed))
    }

    /// Where a page is, or else where it would be. `object` is the hash of its object.
    #[inline]
    pub(crate) fn look(&self, keys: &impl Keys, object: u64, key: Key) -> Standing {
        let found = self.find(keys, object, key);
        found.map_or(Standing::Alone, |(_, standing)| standing)
    }

    /// Where a page is. `object` is the hash of its object.
    #[inline]
    pub(crate) fn get(&self, keys: &impl Keys, object: u64, key: Key) -> Option<Whereabouts> {
        match self.look(keys, object, key) {
            Standing::Here(frame) => Some(Whereabouts::Here(frame)),
            Standing::OnDisk(number) => Some(Whereabouts::OnDisk(number)),
            Standing::InLeaf(_) | Standing::Beside(_) | Standing::Alone => None,
        }
    }

    /// What the slot of a key's extent probably leads to: nobody has looked whether it is that.
    fn probably_led(&self, object: u64, key: Key) -> Option<Led> {
        let found = self.slots.find(self.tag(object, key), Some);
        found.map(|(_, packed)| Led::unpacked(packed))
    }

    /// Where a page probably is: nobody has looked whether it is the page.
    pub(crate) fn guess(&self, object: u64, key: Key) -> Option<Whereabouts> {
        self.guess_by(self.probably_led(object, key)?, key)
    }

    /// The same, by what the extent's slot leads to.
    #[inline]
    pub(crate) fn guess_by(&self, led: Led, key: Key) -> Option<Whereabouts> {
        match led {
            Led::Page(whereabouts) => Some(whereabouts),
            Led::Leaf(leaf) => self
                .leaves
                .get(leaf, key.place())
                .map(Whereabouts::unpacked),
        }
    }

    /// Wants the slot of a key's extent.
    #[inline]
    pub(crate) fn want_slot(&self, object: u64, key: Key, wanted: &mut Wanted) {
        let line = self.slots.line(self.tag(object, key));
        line.into_iter().for_each(|line| wanted.add(line));
    }

    /// Has the processor fetch the slot of a key's extent.
    #[inline]
    pub(crate) fn expect_slot(&self, object: u64, key: Key) {
        let line = self.slots.line(self.tag(object, key));
        line.into_iter().for_each(|line| line.fetch());
    }

    /// Wants what will be read of its leaf to find a page or to add it. Says what the extent's slot leads to.
    #[inline]
    pub(crate) fn want_leaf(&self, object: u64, key: Key, wanted: &mut Wanted) -> Option<Led> {
        let led = self.probably_led(object, key)?;
        if let Led::Leaf(leaf) = led {
            let (head, word) = self.leaves.lines(leaf, key.place());
            wanted.add(head);
            wanted.add(word);
        }
        Some(led)
    }

    /// Says where a page is that is known already.
    pub(crate) fn set(&mut self, keys: &impl Keys, object: u64, key: Key, to: Whereabouts) {
        let Some((at, _)) = self.find(keys, object, key) else {
            debug_assert!(false, "a page that is moved is known");
            return;
        };
        match Led::unpacked(self.slots.get(at).to()) {
            Led::Page(_) => self.slots.set(at, to.packed()),
            Led::Leaf(leaf) => self.leaves.set(leaf, key.place(), to.packed()),
        }
    }

    /// A number that is another one as soon as pages that left have changed where others would be.
    pub(crate) fn age(&self) -> u32 {
        self.age
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
            Standing::Beside(other) => self.add_beside(keys, object, key, other, to),
            Standing::Alone => {
                let slot = Slot::new(to.packed(), self.tag(object, key));
                self.slots.insert(slot);
            }
            Standing::Here(_) | Standing::OnDisk(_) => {
                debug_assert!(false, "a page that is added is not known");
            }
        }
        self.note_reach(key);
    }

    #[inline]
    fn add_to_leaf(&mut self, object: u64, key: Key, leaf: LeafId, to: Whereabouts) {
        if let Changed::Moved(moved) = self.leaves.insert(leaf, key.place(), to.packed()) {
            self.lead_on(object, key, Led::Leaf(leaf).packed(), Led::Leaf(moved));
        }
    }

    /// Makes a leaf of an extent's only page and one more.
    fn add_beside(&mut self, keys: &impl Keys, object: u64, key: Key, other: u32, to: Whereabouts) {
        let place = keys.key_at(Whereabouts::unpacked(other)).place();
        let leaf = self.leaves.add(key);
        for (place, packed) in [(place, other), (key.place(), to.packed())] {
            let changed = self.leaves.insert(leaf, place, packed);
            debug_assert_eq!(changed, Changed::Stays);
        }
        self.lead_on(object, key, other, Led::Leaf(leaf));
    }

    /// Has the slot of a key's extent that led to `from` lead somewhere else.
    fn lead_on(&mut self, object: u64, key: Key, from: u32, to: Led) {
        let is_it = |packed| (packed == from).then_some(());
        match self.slots.find(self.tag(object, key), is_it) {
            Some((at, ())) => self.slots.set(at, to.packed()),
            None => debug_assert!(false, "a slot led there"),
        }
    }

    /// Removes a page; says where it was.
    pub(crate) fn remove(
        &mut self,
        keys: &impl Keys,
        object: u64,
        key: Key,
    ) -> Option<Whereabouts> {
        let (at, standing) = self.find(keys, object, key)?;
        let whereabouts = match standing {
            Standing::Here(frame) => Whereabouts::Here(frame),
            Standing::OnDisk(number) => Whereabouts::OnDisk(number),
            Standing::InLeaf(_) | Standing::Beside(_) | Standing::Alone => return None,
        };
        match Led::unpacked(self.slots.get(at).to()) {
            Led::Page(_) => {
                self.slots.remove(at);
                self.age = self.age.wrapping_add(1);
            }
            Led::Leaf(leaf) => self.remove_from_leaf(at, leaf, key),
        }
        self.forget_reach(key);
        Some(whereabouts)
    }

    fn remove_from_leaf(&mut self, at: usize, leaf: LeafId, key: Key) {
        let led = match self.leaves.remove(leaf, key.place()) {
            Changed::Stays => return,
            Changed::Moved(moved) => Led::Leaf(moved).packed(),
            Changed::Ended(left) => left,
        };
        self.slots.set(at, led);
        self.age = self.age.wrapping_add(1);
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
    /// object that reaches further than there are extents is found by a look at every page instead: as many as there
    /// is room for, so flush them and ask again.
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
        if span > self.slots.len() {
            let mut has_all = true;
            self.visit(keys, |there, whereabouts| {
                if there.pool != key.pool || there.object != key.object {
                    return;
                }
                match has_room(found, 1) {
                    true => found.push((there, whereabouts)),
                    false => has_all = false,
                }
            });
            return (!has_all).then_some(from);
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

    /// The pages of a key's extent.
    fn extent(&self, keys: &impl Keys, object: u64, key: Key, found: &mut Vec<(Key, Whereabouts)>) {
        let is_it = |led: &Led| match *led {
            Led::Page(there) => keys.key_at(there).is_beside(key),
            Led::Leaf(leaf) => self.leaves.is_of(leaf, key),
        };
        let tells = |packed| Some(Led::unpacked(packed)).filter(is_it);
        if let Some((_, led)) = self.slots.find(self.tag(object, key), tells) {
            self.visit_slot(keys, led, |key, whereabouts| found.push((key, whereabouts)));
        }
    }

    fn visit_slot(&self, keys: &impl Keys, led: Led, mut visit: impl FnMut(Key, Whereabouts)) {
        match led {
            Led::Page(there) => visit(keys.key_at(there), there),
            Led::Leaf(leaf) => self
                .leaves
                .pages(leaf)
                .for_each(|(key, packed)| visit(key, Whereabouts::unpacked(packed))),
        }
    }

    /// Every page.
    pub(crate) fn visit(&self, keys: &impl Keys, mut visit: impl FnMut(Key, Whereabouts)) {
        for slot in self.slots.iter() {
            self.visit_slot(keys, Led::unpacked(slot.to()), &mut visit);
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let wide = self.wide.capacity() * (size_of::<((u32, ObjectId), Reach)>() + 1);
        (self.leaves.bytes() + self.slots.bytes() + wide) as u64
    }
}

/// Whether there is room for so many more pages. Who flushes goes on without: what was found is flushed first (R-F3).
pub(super) fn has_room(found: &mut Vec<(Key, Whereabouts)>, more: usize) -> bool {
    found.capacity() - found.len() >= more || found.try_reserve(more).is_ok()
}
