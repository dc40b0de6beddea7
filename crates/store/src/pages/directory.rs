//! The directory of one shard: key → whereabouts.
//!
//! - *Slots*: one for each extent that has pages, found by its hash. It leads to the extent's only page, or to its
//!   leaf. A slot takes 11 to 14 bytes.
//! - *Leaves*: extents with two or more pages. A leaf takes 16 to 32 bytes per page if few are there, 4 to 5 if all
//!   are.
//! - *Wide objects*: objects with pages beyond their first extent: how many, and how far they reach.
//!
//! If an extent has only one page, its key is stored with the page itself.
//!
//! A whereabouts needs no generation. The frame table of a dropped block is swept, and what led to it is removed from
//! here, before the block's frames are used again (`sweep`).

use std::collections::HashMap;

use sublet_types::{ObjectId, PageIndex};

use super::directory_slots::{DirectorySlot, DirectorySlots};
use super::leaf::{LeafChange, LeafId, Leaves};
use crate::arena::PrefetchBatch;
use crate::borrowing::FarFrame;
use crate::frames::FrameId;
use crate::frames::{EXTENT_PAGES, HashSeed, SeededHasher, StoredKey};

/// Bits for the number of a frame, a place on disk or a leaf. They cover 4 TiB of pages.
const PLACE_BITS: u32 = 30;

/// The bit of a frame's number that says that a lender has it. So 2 TiB may lie here, and 2 TiB there.
const FAR_BIT: u32 = 1 << (PLACE_BITS - 1);

const HERE: u32 = 1;
const ROW: u32 = 2;
const IN_LEAF: u32 = 3;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// In a frame of this host.
    Here(FrameId),
    /// In a frame of a lender, or on its way there.
    There(FarFrame),
    /// In no frame: the shard's row of this number says where.
    Row(u32),
}

impl Whereabouts {
    /// The whereabouts in four bytes. The value is never zero.
    fn packed(self) -> u32 {
        match self {
            Whereabouts::Here(frame) => HERE << PLACE_BITS | frame.0,
            Whereabouts::There(frame) => HERE << PLACE_BITS | FAR_BIT | frame.0,
            Whereabouts::Row(number) => ROW << PLACE_BITS | number,
        }
    }

    fn unpacked(packed: u32) -> Whereabouts {
        let place = packed & ((1 << PLACE_BITS) - 1);
        match packed >> PLACE_BITS {
            ROW => Whereabouts::Row(place),
            _ if place & FAR_BIT != 0 => Whereabouts::There(FarFrame(place & !FAR_BIT)),
            _ => Whereabouts::Here(FrameId(place)),
        }
    }
}

/// What an extent's slot leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SlotTarget {
    /// To the extent's only page.
    Page(Whereabouts),
    Leaf(LeafId),
}

impl SlotTarget {
    fn packed(self) -> u32 {
        match self {
            SlotTarget::Page(whereabouts) => whereabouts.packed(),
            SlotTarget::Leaf(leaf) => IN_LEAF << PLACE_BITS | leaf.packed(),
        }
    }

    fn unpacked(packed: u32) -> SlotTarget {
        match packed >> PLACE_BITS {
            IN_LEAF => SlotTarget::Leaf(LeafId::unpacked(packed & ((1 << PLACE_BITS) - 1))),
            _ => SlotTarget::Page(Whereabouts::unpacked(packed)),
        }
    }
}

/// Tells which page is at a whereabouts. The key is stored with the page.
pub(crate) trait KeyLookup {
    /// Prefetches the page there, because it will probably be asked for.
    fn prefetch(&self, whereabouts: Whereabouts);
    fn key_at(&self, whereabouts: Whereabouts) -> StoredKey;
}

/// How far an object reaches beyond its first extent.
#[derive(Clone, Copy)]
struct ObjectSpan {
    /// Pages in extents other than the first.
    pages: u32,
    first: u32,
    last: u32,
}

pub(crate) struct Directory {
    seed: HashSeed,
    slots: DirectorySlots,
    leaves: Leaves,
    /// Counts how often the places where absent pages would go have changed, since the start.
    age: u32,
    wide: HashMap<(u32, ObjectId), ObjectSpan, SeededHasher>,
}

/// Where a page is, or where it would go. The answer holds as long as no other page arrives and the directory's age
/// does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DirectoryPosition {
    /// In a frame of this host.
    Here(FrameId),
    /// In a frame of a lender, or on its way there.
    There(FarFrame),
    /// In no frame: the shard's row of this number says where.
    Row(u32),
    /// Absent. Its extent has this leaf.
    InLeaf(LeafId),
    /// Absent. Its extent's slot leads to another page, with this packed whereabouts.
    Beside(u32),
    /// Absent. Its extent has no slot.
    Alone,
}

impl From<Whereabouts> for DirectoryPosition {
    fn from(whereabouts: Whereabouts) -> DirectoryPosition {
        match whereabouts {
            Whereabouts::Here(frame) => DirectoryPosition::Here(frame),
            Whereabouts::There(frame) => DirectoryPosition::There(frame),
            Whereabouts::Row(number) => DirectoryPosition::Row(number),
        }
    }
}

impl Directory {
    pub(crate) fn new(seed: HashSeed) -> Directory {
        Directory {
            seed,
            slots: DirectorySlots::default(),
            leaves: Leaves::default(),
            age: 0,
            wide: HashMap::with_hasher(SeededHasher::new(seed)),
        }
    }

    fn tag(&self, object: u64, key: StoredKey) -> u32 {
        (self.seed.extent(object, key.extent()) >> 32) as u32
    }

    /// What a slot with a key's tag says about a page, if it is the slot of the key's extent. If a page is there, the
    /// frame's record answers. A leaf's head is another line of memory that need not be waited for.
    #[inline]
    fn resolve_slot(
        &self,
        keys: &impl KeyLookup,
        key: StoredKey,
        packed: u32,
    ) -> Option<DirectoryPosition> {
        match SlotTarget::unpacked(packed) {
            SlotTarget::Leaf(leaf) => match self.leaves.get(leaf, key.place()) {
                None => self
                    .leaves
                    .is_of(leaf, key)
                    .then_some(DirectoryPosition::InLeaf(leaf)),
                Some(packed) => {
                    let there = Whereabouts::unpacked(packed);
                    keys.prefetch(there);
                    (keys.key_at(there) == key).then(|| there.into())
                }
            },
            SlotTarget::Page(there) => match keys.key_at(there) {
                same if same == key => Some(there.into()),
                near if near.is_beside(key) => Some(DirectoryPosition::Beside(packed)),
                _ => None,
            },
        }
    }

    /// Finds an extent's slot, and what it says about a page. `object` is the hash of the page's object.
    #[inline]
    fn find(
        &self,
        keys: &impl KeyLookup,
        object: u64,
        key: StoredKey,
    ) -> Option<(usize, DirectoryPosition)> {
        let tag = self.tag(object, key);
        self.slots
            .find(tag, |packed| self.resolve_slot(keys, key, packed))
    }

    /// Finds where a page is, or where it would go. `object` is the hash of its object.
    #[inline]
    pub(crate) fn locate(
        &self,
        keys: &impl KeyLookup,
        object: u64,
        key: StoredKey,
    ) -> DirectoryPosition {
        let found = self.find(keys, object, key);
        found.map_or(DirectoryPosition::Alone, |(_, position)| position)
    }

    /// Finds where a page is. `object` is the hash of its object.
    #[inline]
    pub(crate) fn get(
        &self,
        keys: &impl KeyLookup,
        object: u64,
        key: StoredKey,
    ) -> Option<Whereabouts> {
        match self.locate(keys, object, key) {
            DirectoryPosition::Here(frame) => Some(Whereabouts::Here(frame)),
            DirectoryPosition::There(frame) => Some(Whereabouts::There(frame)),
            DirectoryPosition::Row(number) => Some(Whereabouts::Row(number)),
            DirectoryPosition::InLeaf(_)
            | DirectoryPosition::Beside(_)
            | DirectoryPosition::Alone => None,
        }
    }

    /// What the slot of a key's extent probably leads to. This is not verified.
    fn probable_target(&self, object: u64, key: StoredKey) -> Option<SlotTarget> {
        let found = self.slots.find(self.tag(object, key), Some);
        found.map(|(_, packed)| SlotTarget::unpacked(packed))
    }

    /// Where a page probably is. This is not verified.
    pub(crate) fn guess(&self, object: u64, key: StoredKey) -> Option<Whereabouts> {
        self.guess_by(self.probable_target(object, key)?, key)
    }

    /// The same, given what the extent's slot leads to.
    #[inline]
    pub(crate) fn guess_by(&self, target: SlotTarget, key: StoredKey) -> Option<Whereabouts> {
        match target {
            SlotTarget::Page(whereabouts) => Some(whereabouts),
            SlotTarget::Leaf(leaf) => self
                .leaves
                .get(leaf, key.place())
                .map(Whereabouts::unpacked),
        }
    }

    /// Adds the slot of a key's extent to the batch.
    #[inline]
    pub(crate) fn batch_slot(&self, object: u64, key: StoredKey, batch: &mut PrefetchBatch) {
        let line = self.slots.line(self.tag(object, key));
        line.into_iter().for_each(|line| batch.add(line));
    }

    /// Prefetches the slot of a key's extent.
    #[inline]
    pub(crate) fn prefetch_slot(&self, object: u64, key: StoredKey) {
        let line = self.slots.line(self.tag(object, key));
        line.into_iter().for_each(|line| line.fetch());
    }

    /// Adds to the batch what a look-up or an insert reads of the key's leaf. Returns what the extent's slot leads to.
    #[inline]
    pub(crate) fn batch_leaf(
        &self,
        object: u64,
        key: StoredKey,
        batch: &mut PrefetchBatch,
    ) -> Option<SlotTarget> {
        let target = self.probable_target(object, key)?;
        if let SlotTarget::Leaf(leaf) = target {
            let (head, word) = self.leaves.lines(leaf, key.place());
            batch.add(head);
            batch.add(word);
        }
        Some(target)
    }

    /// Sets where a known page is. If it is its extent's only page, other pages of the extent would now go elsewhere:
    /// their place names its whereabouts.
    pub(crate) fn set(
        &mut self,
        keys: &impl KeyLookup,
        object: u64,
        key: StoredKey,
        to: Whereabouts,
    ) {
        let Some((at, _)) = self.find(keys, object, key) else {
            debug_assert!(false, "a page that is moved is known");
            return;
        };
        match SlotTarget::unpacked(self.slots.get(at).to()) {
            SlotTarget::Page(_) => {
                self.slots.set(at, to.packed());
                self.age = self.age.wrapping_add(1);
            }
            SlotTarget::Leaf(leaf) => self.leaves.set(leaf, key.place(), to.packed()),
        }
    }

    /// A number that changes as soon as departures and moves have changed where absent pages would go.
    pub(crate) fn age(&self) -> u32 {
        self.age
    }

    /// Adds an unknown page at the position that a look-up returned.
    #[inline]
    pub(crate) fn add(
        &mut self,
        keys: &impl KeyLookup,
        object: u64,
        key: StoredKey,
        position: DirectoryPosition,
        to: Whereabouts,
    ) {
        match position {
            DirectoryPosition::InLeaf(leaf) => self.add_to_leaf(object, key, leaf, to),
            DirectoryPosition::Beside(other) => self.add_beside(keys, object, key, other, to),
            DirectoryPosition::Alone => {
                let slot = DirectorySlot::new(to.packed(), self.tag(object, key));
                self.slots.insert(slot);
            }
            DirectoryPosition::Here(_)
            | DirectoryPosition::There(_)
            | DirectoryPosition::Row(_) => {
                debug_assert!(false, "a page that is added is not known");
            }
        }
        self.grow_span(key);
    }

    #[inline]
    fn add_to_leaf(&mut self, object: u64, key: StoredKey, leaf: LeafId, to: Whereabouts) {
        if let LeafChange::Moved(moved) = self.leaves.insert(leaf, key.place(), to.packed()) {
            self.redirect_slot(
                object,
                key,
                SlotTarget::Leaf(leaf).packed(),
                SlotTarget::Leaf(moved),
            );
        }
    }

    /// Makes a leaf of an extent's only page and one more.
    fn add_beside(
        &mut self,
        keys: &impl KeyLookup,
        object: u64,
        key: StoredKey,
        other: u32,
        to: Whereabouts,
    ) {
        let place = keys.key_at(Whereabouts::unpacked(other)).place();
        let leaf = self.leaves.add(key);
        for (place, packed) in [(place, other), (key.place(), to.packed())] {
            let changed = self.leaves.insert(leaf, place, packed);
            debug_assert_eq!(changed, LeafChange::Stays);
        }
        self.redirect_slot(object, key, other, SlotTarget::Leaf(leaf));
    }

    /// Redirects the slot of a key's extent from `from` to another target.
    fn redirect_slot(&mut self, object: u64, key: StoredKey, from: u32, to: SlotTarget) {
        let is_it = |packed| (packed == from).then_some(());
        match self.slots.find(self.tag(object, key), is_it) {
            Some((at, ())) => self.slots.set(at, to.packed()),
            None => debug_assert!(false, "a slot led there"),
        }
    }

    /// Removes a page. Returns where it was.
    pub(crate) fn remove(
        &mut self,
        keys: &impl KeyLookup,
        object: u64,
        key: StoredKey,
    ) -> Option<Whereabouts> {
        let (at, position) = self.find(keys, object, key)?;
        let whereabouts = match position {
            DirectoryPosition::Here(frame) => Whereabouts::Here(frame),
            DirectoryPosition::There(frame) => Whereabouts::There(frame),
            DirectoryPosition::Row(number) => Whereabouts::Row(number),
            DirectoryPosition::InLeaf(_)
            | DirectoryPosition::Beside(_)
            | DirectoryPosition::Alone => return None,
        };
        match SlotTarget::unpacked(self.slots.get(at).to()) {
            SlotTarget::Page(_) => {
                self.slots.remove(at);
                self.age = self.age.wrapping_add(1);
            }
            SlotTarget::Leaf(leaf) => self.remove_from_leaf(at, leaf, key),
        }
        self.shrink_span(key);
        Some(whereabouts)
    }

    fn remove_from_leaf(&mut self, at: usize, leaf: LeafId, key: StoredKey) {
        let target = match self.leaves.remove(leaf, key.place()) {
            LeafChange::Stays => return,
            LeafChange::Moved(moved) => SlotTarget::Leaf(moved).packed(),
            LeafChange::Ended(left) => left,
        };
        self.slots.set(at, target);
        self.age = self.age.wrapping_add(1);
    }

    fn grow_span(&mut self, key: StoredKey) {
        let extent = key.extent();
        if extent > 0 {
            let none = ObjectSpan {
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

    fn shrink_span(&mut self, key: StoredKey) {
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

    /// Adds the pages of an object to `found`, one extent at a time. Start with 0; it returns where to go on. If an
    /// object spans more than the shard has extents, it looks at every page instead. It then returns as many as there
    /// is room for, so flush them and call again.
    pub(crate) fn object(
        &self,
        keys: &impl KeyLookup,
        object: u64,
        key: StoredKey,
        from: u32,
        found: &mut Vec<(StoredKey, Whereabouts)>,
    ) -> Option<u32> {
        let reach = self.wide.get(&(key.pool, key.object));
        let span = reach.map_or(0, |reach| (reach.last - reach.first) as usize);
        if span > self.slots.len() {
            let mut has_all = true;
            self.visit(keys, |there, whereabouts| {
                if there.pool != key.pool || there.object != key.object {
                    return;
                }
                match try_reserve(found, 1) {
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
    fn extent(
        &self,
        keys: &impl KeyLookup,
        object: u64,
        key: StoredKey,
        found: &mut Vec<(StoredKey, Whereabouts)>,
    ) {
        let is_it = |target: &SlotTarget| match *target {
            SlotTarget::Page(there) => keys.key_at(there).is_beside(key),
            SlotTarget::Leaf(leaf) => self.leaves.is_of(leaf, key),
        };
        let tells = |packed| Some(SlotTarget::unpacked(packed)).filter(is_it);
        if let Some((_, target)) = self.slots.find(self.tag(object, key), tells) {
            self.visit_slot(keys, target, |key, whereabouts| {
                found.push((key, whereabouts))
            });
        }
    }

    fn visit_slot(
        &self,
        keys: &impl KeyLookup,
        target: SlotTarget,
        mut visit: impl FnMut(StoredKey, Whereabouts),
    ) {
        match target {
            SlotTarget::Page(there) => visit(keys.key_at(there), there),
            SlotTarget::Leaf(leaf) => self
                .leaves
                .pages(leaf)
                .for_each(|(key, packed)| visit(key, Whereabouts::unpacked(packed))),
        }
    }

    /// Every page.
    pub(crate) fn visit(
        &self,
        keys: &impl KeyLookup,
        mut visit: impl FnMut(StoredKey, Whereabouts),
    ) {
        for slot in self.slots.iter() {
            self.visit_slot(keys, SlotTarget::unpacked(slot.to()), &mut visit);
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let wide = self.wide.capacity() * (size_of::<((u32, ObjectId), ObjectSpan)>() + 1);
        (self.leaves.bytes() + self.slots.bytes() + wide) as u64
    }
}

/// Returns whether there is room for this many more pages. A flush goes on without: it first flushes what was found
/// (R-F3).
pub(super) fn try_reserve(found: &mut Vec<(StoredKey, Whereabouts)>, more: usize) -> bool {
    found.capacity() - found.len() >= more || found.try_reserve(more).is_ok()
}
