//! The hash index: linear hashing over cache lines in arena blocks.
//!
//! ```text
//!  bucket: one cache line of 8 slots            overflow unit: 4 slots
//! ┌────┬────┬────┬────┬────┬────┬────┬──────┐   ┌────┬────┬────┬──────┐
//! │item│item│item│item│item│item│item│ link ├──►│item│item│item│ link ├──► …
//! └────┴────┴────┴────┴────┴────┴────┴──────┘   └────┴────┴────┴──────┘
//! ```
//!
//! The table grows and shrinks by one bucket at a time, so no thread ever waits for a rehash. Writers hold one of 256
//! stripes. The hash's low bits choose the stripe and also the bucket, so a bucket and the one it is split into share
//! their stripe. Readers hold nothing.
//!
//! A slot is one word, so what a reader finds is whole. Only a *miss* may be due to slots that are moved at that
//! moment. A reader believes a miss only if the stripe's version did not change meanwhile.

#![allow(unsafe_code)]

mod overflow;

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

use super::slot::Slot;
use crate::arena::{Arena, BlockId, prefetch};
use overflow::OverflowUnits;

/// Stripes of writers' locks. This is also the least number of buckets.
pub(crate) const STRIPES: usize = 256;

const LINE_SLOTS: usize = 8;
const LINE_BYTES: usize = LINE_SLOTS * 8;
const UNIT_SLOTS: usize = 4;

/// The most units in a chain. Beyond that an insert is refused, and the caller makes room.
const UNITS_MAX: usize = 32;

/// The most slots in a chain.
const CHAIN_MAX: usize = LINE_SLOTS + UNITS_MAX * (UNIT_SLOTS - 1);

/// The load above which the table grows, in half items per bucket: 6.5 of 8 slots. With overflow units that costs about
/// 11 bytes per item. A unit has fewer slots than a line to keep the slack small.
const FULL_HALVES: u64 = 13;

/// The load below which the table shrinks, in half items per bucket. It is far enough below half of `FULL_HALVES` that
/// the table does not oscillate.
const SPARSE_HALVES: u64 = 5;

/// Lock-free attempts at a lookup before it takes the stripe's lock.
const ATTEMPTS_MAX: u32 = 8;

/// There is no block for the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoBlock;

/// The index.
pub(crate) struct Table {
    lines_per_block: u64,
    lines: Box<[AtomicPtr<AtomicU64>]>,
    buckets: AtomicU64,
    stripes: Box<[CachePadded<Stripe>]>,
    overflow: OverflowUnits,
    /// The blocks of `lines`, in order. Its holder may grow or shrink the table.
    homes: Mutex<Vec<BlockId>>,
    /// The number of these blocks, for readers, because a split holds the lock.
    homes_held: AtomicUsize,
}

#[derive(Default)]
struct Stripe {
    version: AtomicU32,
    /// Slots in use, stale ones included.
    occupied: Mutex<u64>,
}

/// Resolves slots for the table.
pub(crate) trait SlotResolver {
    /// The hash of the item that a slot names. `None` if the item is gone.
    fn hash_of(&self, slot: Slot) -> Option<u64>;

    /// Returns whether the item that a slot names is gone.
    fn is_stale(&self, slot: Slot) -> bool;
}

impl Table {
    /// A table in `first`, a block that it alone uses.
    pub(crate) fn new(arena: &Arena, first: BlockId, blocks_max: usize) -> Table {
        let table = Table {
            lines_per_block: (arena.block_bytes() / LINE_BYTES) as u64,
            lines: (0..blocks_max).map(|_| AtomicPtr::default()).collect(),
            buckets: AtomicU64::new(STRIPES as u64),
            stripes: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            overflow: OverflowUnits::new(blocks_max),
            homes: Mutex::new(Vec::new()),
            homes_held: AtomicUsize::new(0),
        };
        assert!(
            table.lines_per_block >= STRIPES as u64,
            "blocks too small for an index"
        );
        table.add_block(arena, &mut table.homes.lock(), first);
        table
    }

    fn add_block(&self, arena: &Arena, homes: &mut Vec<BlockId>, block: BlockId) {
        let slots = cleared(arena, block);
        self.lines[homes.len()].store(slots, Ordering::Release);
        homes.push(block);
        self.homes_held.store(homes.len(), Ordering::Relaxed);
    }

    /// Blocks that the index holds.
    pub(crate) fn blocks(&self) -> usize {
        self.homes_held.load(Ordering::Relaxed) + self.overflow.blocks()
    }

    /// Holds the lock that a split and a put that needs a unit hold.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        (self.homes.lock(), self.overflow.hold())
    }

    /// The number of buckets now.
    pub(crate) fn buckets(&self) -> u64 {
        self.buckets.load(Ordering::Acquire)
    }

    /// Slots in use, stale ones included.
    pub(crate) fn occupied(&self) -> u64 {
        self.stripes
            .iter()
            .map(|stripe| *stripe.occupied.lock())
            .sum()
    }

    fn bucket_of(&self, hash: u64) -> u64 {
        let buckets = self.buckets();
        let base = 1 << (63 - buckets.leading_zeros());
        let wide = hash & (2 * base - 1);
        if wide < buckets {
            wide
        } else {
            hash & (base - 1)
        }
    }

    fn line(&self, bucket: u64) -> &[AtomicU64] {
        let home = &self.lines[(bucket / self.lines_per_block) as usize];
        let slots = home.load(Ordering::Acquire);
        let at = (bucket % self.lines_per_block) as usize * LINE_SLOTS;
        // SAFETY: a bucket below `buckets` has a home, which holds `lines_per_block` lines of zeroed or written
        // atomics. It is retired only after all pins that saw it have ended.
        unsafe { std::slice::from_raw_parts(slots.add(at), LINE_SLOTS) }
    }

    fn stripe(&self, hash: u64) -> &Stripe {
        &self.stripes[hash as usize % STRIPES]
    }

    fn chain(&self, bucket: u64) -> Chain<'_> {
        Chain {
            table: self,
            line: self.line(bucket),
            at: 0,
            units: 0,
        }
    }

    /// Starts to fetch the bucket of a hash. The caller is pinned.
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(self.line(self.bucket_of(hash)).as_ptr(), 1);
    }

    /// The first slot in the bucket's line that may have this hash. The caller is pinned.
    pub(crate) fn guess(&self, hash: u64) -> Option<Slot> {
        let tag = Slot::tag_of(hash);
        let words = self.line(self.bucket_of(hash)).iter();
        let mut slots = words.map(|word| Slot(word.load(Ordering::Relaxed)));
        slots.find(|slot| slot.tag() == tag && slot.is_item())
    }

    /// Finds, without a lock, the slot of an item with this hash for which `is_it` holds. The caller is pinned.
    pub(crate) fn find<T>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(Slot) -> Option<T>,
    ) -> Option<(SlotRef<'_>, T)> {
        let version = &self.stripe(hash).version;
        for _ in 0..ATTEMPTS_MAX {
            let before = version.load(Ordering::Acquire);
            if let Some(found) = self.try_find(hash, &mut is_it) {
                return Some(found);
            }
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && version.load(Ordering::Relaxed) == before {
                return None;
            }
            std::hint::spin_loop();
        }
        let _still = self.stripe(hash).occupied.lock();
        self.try_find(hash, &mut is_it)
    }

    fn try_find<T>(
        &self,
        hash: u64,
        is_it: &mut impl FnMut(Slot) -> Option<T>,
    ) -> Option<(SlotRef<'_>, T)> {
        let tag = Slot::tag_of(hash);
        self.chain(self.bucket_of(hash))
            .filter(|cell| cell.slot.tag() == tag && cell.slot.is_item())
            .find_map(|cell| is_it(cell.slot).map(|found| (cell, found)))
    }

    /// Locks the stripe of this hash.
    pub(crate) fn lock(&self, hash: u64) -> LockedStripe<'_> {
        LockedStripe {
            table: self,
            occupied: self.stripe(hash).occupied.lock(),
        }
    }

    /// Visits the slots of a bucket, without a lock. The caller is pinned.
    pub(crate) fn visit(&self, bucket: u64, mut visit: impl FnMut(Slot)) {
        self.chain(bucket)
            .filter(|cell| cell.slot.is_item())
            .for_each(|cell| visit(cell.slot));
    }

    /// Returns whether a `split` should follow an insert.
    fn is_full(&self, occupied: u64) -> bool {
        2 * occupied * STRIPES as u64 > FULL_HALVES * self.buckets()
    }

    /// Returns whether a `merge` is worthwhile.
    pub(crate) fn is_sparse(&self) -> bool {
        let buckets = self.buckets();
        buckets > STRIPES as u64 && 2 * self.occupied() < SPARSE_HALVES * buckets
    }

    /// Adds a bucket. It calls `block` if the index needs a block.
    pub(crate) fn split(
        &self,
        arena: &Arena,
        resolver: &impl SlotResolver,
        block: impl FnOnce() -> Option<BlockId>,
    ) -> Result<(), NoBlock> {
        let Some(mut homes) = self.homes.try_lock() else {
            return Ok(()); // another thread does it
        };
        let new = self.buckets();
        if new == homes.len() as u64 * self.lines_per_block {
            if homes.len() == self.lines.len() {
                return Err(NoBlock);
            }
            self.add_block(arena, &mut homes, block().ok_or(NoBlock)?);
        }
        let base = 1u64 << (63 - new.leading_zeros());
        let old = new - base;
        let mut occupied = self.stripe(old).occupied.lock();
        let _moving = MoveGuard::begin(&self.stripe(old).version);
        let mut gathered = DetachedChains::default();
        *occupied -= gathered.detach(self, old, resolver);
        let (moves, stays): (Vec<_>, Vec<_>) = gathered
            .slots
            .iter()
            .partition(|(_, hash)| hash & base != 0);
        self.write(new, &moves, &mut gathered.units);
        self.buckets.store(new + 1, Ordering::Release);
        self.write(old, &stays, &mut gathered.units);
        self.overflow.free(gathered.units);
        Ok(())
    }

    /// Removes a bucket and gives up a block that this empties. It calls `block` if the merged chain needs an overflow
    /// unit and there is none.
    pub(crate) fn merge(
        &self,
        arena: &Arena,
        resolver: &impl SlotResolver,
        mut block: impl FnMut() -> Option<BlockId>,
    ) -> Result<(), NoBlock> {
        let mut homes = self.homes.lock();
        let last = self.buckets() - 1;
        if last < STRIPES as u64 {
            return Ok(());
        }
        let into = last - (1 << (63 - last.leading_zeros()));
        let mut occupied = self.stripe(into).occupied.lock();
        let mut gathered = DetachedChains::default();
        // The units of the two chains serve one chain, which may need more.
        let (slots, units) = [into, last]
            .map(|bucket| self.extent(bucket))
            .into_iter()
            .fold((0, 0), |(slots, units), extent| {
                (slots + extent.0, units + extent.1)
            });
        if slots > CHAIN_MAX {
            return Err(NoBlock);
        }
        for _ in units..units_for(slots) {
            match self.overflow.alloc(arena, &mut block) {
                Some(unit) => gathered.units.push(unit),
                None => {
                    self.overflow.free(gathered.units);
                    return Err(NoBlock);
                }
            }
        }
        let _moving = MoveGuard::begin(&self.stripe(into).version);
        *occupied -= gathered.detach(self, into, resolver) + gathered.detach(self, last, resolver);
        let slots: Vec<_> = gathered.slots.iter().collect();
        self.write(into, &slots, &mut gathered.units);
        self.buckets.store(last, Ordering::Release);
        self.overflow.free(gathered.units);
        if last.is_multiple_of(self.lines_per_block)
            && let Some(empty) = homes.pop()
        {
            self.homes_held.store(homes.len(), Ordering::Relaxed);
            // A reader that still counts `last` among the buckets is pinned, and the block stays until then.
            arena.retire(&[empty]);
        }
        self.overflow.give_up_empty(arena);
        Ok(())
    }

    /// How many slots of a chain are in use, and how many units it has.
    fn extent(&self, bucket: u64) -> (usize, usize) {
        let mut chain = self.chain(bucket);
        let slots = chain.by_ref().filter(|cell| cell.slot.is_item()).count();
        (slots, chain.units)
    }

    /// Removes stale slots from a bucket and closes the gaps. Returns how many buckets there are.
    pub(crate) fn sweep(&self, bucket: u64, resolver: &impl SlotResolver) -> u64 {
        let stripe = self.stripe(bucket);
        let mut occupied = stripe.occupied.lock();
        let buckets = self.buckets();
        if bucket < buckets
            && self
                .chain(bucket)
                .any(|cell| cell.slot.is_item() && resolver.is_stale(cell.slot))
        {
            let _moving = MoveGuard::begin(&stripe.version);
            let mut gathered = DetachedChains::default();
            *occupied -= gathered.detach(self, bucket, resolver);
            let slots: Vec<_> = gathered.slots.iter().collect();
            self.write(bucket, &slots, &mut gathered.units);
            self.overflow.free(gathered.units);
        }
        buckets
    }

    /// Writes a chain anew over an emptied line, with overflow units from `units`.
    fn write(&self, bucket: u64, slots: &[&(Slot, u64)], units: &mut Vec<u32>) {
        let mut line = self.line(bucket);
        let mut rest = slots;
        while rest.len() > line.len() {
            let (here, after) = rest.split_at(line.len() - 1);
            let unit = units
                .pop()
                .expect("gathered chains bring the units that they need");
            store_all(line, here);
            line[line.len() - 1].store(Slot::link(unit).0, Ordering::Release);
            line = self.overflow.unit(unit);
            rest = after;
        }
        store_all(line, rest);
    }
}

fn store_all(line: &[AtomicU64], slots: &[&(Slot, u64)]) {
    for (at, cell) in line.iter().enumerate() {
        let slot = slots.get(at).map_or(Slot::EMPTY, |(slot, _)| *slot);
        cell.store(slot.0, Ordering::Release);
    }
}

/// The units that a chain of this many slots needs.
fn units_for(slots: usize) -> usize {
    if slots <= LINE_SLOTS {
        return 0;
    }
    (slots - (LINE_SLOTS - 1))
        .saturating_sub(1)
        .div_ceil(UNIT_SLOTS - 1)
}

/// A block of zeroed atomics.
fn cleared(arena: &Arena, block: BlockId) -> *mut AtomicU64 {
    let start = arena.address(block);
    // SAFETY: the block was taken for the index. Nobody else reads or writes it, and it is aligned far beyond 8 bytes.
    // Zero is a valid atomic.
    unsafe { start.write_bytes(0, arena.block_bytes()) };
    start.cast()
}

/// Tells readers, for as long as it lives, that slots of a stripe are being moved.
struct MoveGuard<'a>(&'a AtomicU32);

impl<'a> MoveGuard<'a> {
    fn begin(version: &'a AtomicU32) -> MoveGuard<'a> {
        version.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        MoveGuard(version)
    }
}

impl Drop for MoveGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Chains that were taken out of the table, to be written back differently.
#[derive(Default)]
struct DetachedChains {
    slots: Vec<(Slot, u64)>,
    units: Vec<u32>,
}

impl DetachedChains {
    /// Takes a chain out, slot by slot. A reader's mark on a slot is either seen here or fails there. Returns how many
    /// stale slots were left out.
    fn detach(&mut self, table: &Table, bucket: u64, resolver: &impl SlotResolver) -> u64 {
        let mut stale = 0;
        let mut line = table.line(bucket);
        let mut at = 0;
        while at < line.len() {
            let slot = Slot(line[at].swap(0, Ordering::AcqRel));
            at += 1;
            if let Some(unit) = slot.as_link() {
                self.units.push(unit);
                line = table.overflow.unit(unit);
                at = 0;
            } else if slot.is_item() {
                match resolver.hash_of(slot) {
                    Some(hash) => self.slots.push((slot, hash)),
                    None => stale += 1,
                }
            }
        }
        stale
    }
}

/// The slots of a bucket, including its overflow units.
struct Chain<'t> {
    table: &'t Table,
    line: &'t [AtomicU64],
    at: usize,
    units: usize,
}

/// A slot and the word that was in it.
#[derive(Clone, Copy)]
pub(crate) struct SlotRef<'t> {
    word: &'t AtomicU64,
    pub(crate) slot: Slot,
}

impl<'t> Iterator for Chain<'t> {
    type Item = SlotRef<'t>;

    #[inline]
    fn next(&mut self) -> Option<SlotRef<'t>> {
        while let Some(word) = self.line.get(self.at) {
            let slot = Slot(word.load(Ordering::Acquire));
            self.at += 1;
            match slot.as_link() {
                None => return Some(SlotRef { word, slot }),
                // A reader may reach a unit that just changed chains. The version will show it.
                Some(_) if self.units == UNITS_MAX => return None,
                Some(unit) => {
                    self.line = self.table.overflow.unit(unit);
                    self.at = 0;
                    self.units += 1;
                }
            }
        }
        None
    }
}

impl SlotRef<'_> {
    /// Replaces the word that was seen by `new`. Fails if the slot has changed since.
    pub(crate) fn exchange(&self, new: Slot) -> Result<(), Slot> {
        self.word
            .compare_exchange(self.slot.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(Slot)
    }
}

/// A locked stripe: nobody else inserts, removes or moves slots of it.
pub(crate) struct LockedStripe<'t> {
    table: &'t Table,
    occupied: MutexGuard<'t, u64>,
}

impl<'t> LockedStripe<'t> {
    /// The slot of an item with this hash for which `is_it` holds.
    pub(crate) fn find<T>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(Slot) -> Option<T>,
    ) -> Option<(SlotRef<'t>, T)> {
        self.table.try_find(hash, &mut is_it)
    }

    /// Empties a slot. Returns its last content.
    pub(crate) fn remove(&mut self, cell: SlotRef<'t>) -> Slot {
        *self.occupied -= 1;
        Slot(cell.word.swap(0, Ordering::AcqRel))
    }

    /// Puts `new` in the place of an item. Returns the slot's last content.
    pub(crate) fn replace(&mut self, cell: SlotRef<'t>, new: Slot) -> Slot {
        Slot(cell.word.swap(new.0, Ordering::AcqRel))
    }

    /// Adds a slot, in the place of a stale one if there is one. Returns whether the table should grow.
    pub(crate) fn insert(
        &mut self,
        arena: &Arena,
        hash: u64,
        slot: Slot,
        resolver: &impl SlotResolver,
        block: impl FnOnce() -> Option<BlockId>,
    ) -> Result<bool, NoBlock> {
        let mut last = None;
        let mut length = 0;
        for cell in self.table.chain(self.table.bucket_of(hash)) {
            if cell.slot.is_empty() {
                *self.occupied += 1;
                cell.word.store(slot.0, Ordering::Release);
                return Ok(self.table.is_full(*self.occupied));
            }
            if resolver.is_stale(cell.slot) {
                cell.word.store(slot.0, Ordering::Release);
                return Ok(false);
            }
            last = Some(cell);
            length += 1;
        }
        if length >= CHAIN_MAX {
            return Err(NoBlock);
        }
        let unit = self.table.overflow.alloc(arena, block).ok_or(NoBlock)?;
        self.extend(last.ok_or(NoBlock)?, unit, slot);
        Ok(self.table.is_full(*self.occupied))
    }

    /// Links `unit` to the chain's last slot, whose item moves into it. A reader sees that item in one place or the
    /// other.
    fn extend(&mut self, last: SlotRef<'t>, unit: u32, slot: Slot) {
        let cells = self.table.overflow.unit(unit);
        cells[1].store(slot.0, Ordering::Relaxed);
        *self.occupied += 1;
        let mut moved = last.slot;
        loop {
            cells[0].store(moved.0, Ordering::Release);
            let seen = SlotRef {
                slot: moved,
                ..last
            };
            match seen.exchange(Slot::link(unit)) {
                Ok(()) => return,
                // A reader marked it meanwhile. Take the mark along.
                Err(marked) => moved = marked,
            }
        }
    }

    /// The slots that share a chain with this hash: the candidates if one must go.
    pub(crate) fn neighbours(&self, hash: u64) -> impl Iterator<Item = SlotRef<'t>> {
        self.table
            .chain(self.table.bucket_of(hash))
            .filter(|cell| cell.slot.is_item())
    }
}

#[cfg(test)]
mod tests;
