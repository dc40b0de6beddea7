//! The hash index: linear hashing over cache lines in arena blocks.
//!
//! ```text
//!  bucket: one cache line of 8 slots            spill unit: 4 slots
//! ┌────┬────┬────┬────┬────┬────┬────┬──────┐   ┌────┬────┬────┬──────┐
//! │item│item│item│item│item│item│item│ link ├──►│item│item│item│ link ├──► …
//! └────┴────┴────┴────┴────┴────┴────┴──────┘   └────┴────┴────┴──────┘
//! ```
//!
//! The table grows and shrinks by one bucket at a time, so nobody ever waits for a rehash. Writers hold
//! one of 256 stripes, chosen by the hash's low bits, which also choose the bucket: a bucket and the one
//! it is split into share their stripe. Readers hold nothing. A slot is one word, so what a reader finds
//! is whole; only a *miss* may be due to slots being moved at that moment, and a reader believes a miss
//! only if the stripe's version stood still meanwhile.

#![allow(unsafe_code)]

mod spill;

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

use super::slot::Slot;
use crate::arena::{Arena, BlockId, prefetch};
use spill::Spill;

/// Stripes of writers' locks; also the fewest buckets.
pub(crate) const STRIPES: usize = 256;

const LINE_SLOTS: usize = 8;
const LINE_BYTES: usize = LINE_SLOTS * 8;
const UNIT_SLOTS: usize = 4;

/// Units in a chain, at the most: beyond, an insert is refused and the caller makes room.
const UNITS_MAX: usize = 32;

/// Slots in a chain, at the most.
const CHAIN_MAX: usize = LINE_SLOTS + UNITS_MAX * (UNIT_SLOTS - 1);

/// Items for each bucket, in halves, above which the table grows: 6.5 of 8 slots. With spill units that
/// costs about 11 bytes an item (fewer slots to a unit than to a line keeps the slack small).
const FULL_HALVES: u64 = 13;

/// Items for each bucket, in halves, below which the table shrinks. Far enough below half of
/// `FULL_HALVES` that it does not swing.
const SPARSE_HALVES: u64 = 5;

/// Lock-free attempts at a lookup before it takes the stripe's lock.
const ATTEMPTS_MAX: u32 = 8;

/// No block to be had for the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoBlock;

/// The index.
pub(crate) struct Table {
    lines_per_block: u64,
    lines: Box<[AtomicPtr<AtomicU64>]>,
    buckets: AtomicU64,
    stripes: Box<[CachePadded<Stripe>]>,
    spill: Spill,
    /// Blocks of `lines`, in order; holding it is the right to grow or shrink.
    homes: Mutex<Vec<BlockId>>,
    /// How many these are, for who looks: a split holds the lock.
    homes_held: AtomicUsize,
}

#[derive(Default)]
struct Stripe {
    version: AtomicU32,
    /// Slots in use, stale ones included.
    occupied: Mutex<u64>,
}

/// What a slot means to its owner.
pub(crate) trait Judge {
    /// The hash of the item that a slot names; `None` if it is there no longer.
    fn hash_of(&self, slot: Slot) -> Option<u64>;

    /// Whether the item that a slot names is there no longer.
    fn is_stale(&self, slot: Slot) -> bool;
}

impl Table {
    /// A table in `first`, which is all its own.
    pub(crate) fn new(arena: &Arena, first: BlockId, blocks_max: usize) -> Table {
        let table = Table {
            lines_per_block: (arena.block_bytes() / LINE_BYTES) as u64,
            lines: (0..blocks_max).map(|_| AtomicPtr::default()).collect(),
            buckets: AtomicU64::new(STRIPES as u64),
            stripes: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            spill: Spill::new(blocks_max),
            homes: Mutex::new(Vec::new()),
            homes_held: AtomicUsize::new(0),
        };
        assert!(
            table.lines_per_block >= STRIPES as u64,
            "blocks too small for an index"
        );
        table.settle_in(arena, &mut table.homes.lock(), first);
        table
    }

    fn settle_in(&self, arena: &Arena, homes: &mut Vec<BlockId>, block: BlockId) {
        let slots = cleared(arena, block);
        self.lines[homes.len()].store(slots, Ordering::Release);
        homes.push(block);
        self.homes_held.store(homes.len(), Ordering::Relaxed);
    }

    /// Blocks that the index holds.
    pub(crate) fn blocks(&self) -> usize {
        self.homes_held.load(Ordering::Relaxed) + self.spill.blocks()
    }

    /// Holds what a split and a put that needs a unit hold.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        (self.homes.lock(), self.spill.hold())
    }

    /// Buckets now.
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
        // SAFETY: a bucket below `buckets` has a home, which holds `lines_per_block` lines of zeroed or
        // written atomics, and is retired only after all pins that saw it have ended.
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

    /// Starts fetching the bucket of a hash. The caller is pinned.
    pub(crate) fn expect(&self, hash: u64) {
        prefetch(self.line(self.bucket_of(hash)).as_ptr(), 1);
    }

    /// The first slot in the bucket's line that may be of this hash. The caller is pinned.
    pub(crate) fn guess(&self, hash: u64) -> Option<Slot> {
        let tag = Slot::tag_of(hash);
        let words = self.line(self.bucket_of(hash)).iter();
        let mut slots = words.map(|word| Slot(word.load(Ordering::Relaxed)));
        slots.find(|slot| slot.tag() == tag && slot.is_item())
    }

    /// The slot of an item with this hash for which `is_it` holds, without a lock. The caller is pinned.
    pub(crate) fn find<T>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(Slot) -> Option<T>,
    ) -> Option<(Cell<'_>, T)> {
        let version = &self.stripe(hash).version;
        for _ in 0..ATTEMPTS_MAX {
            let before = version.load(Ordering::Acquire);
            if let Some(found) = self.look(hash, &mut is_it) {
                return Some(found);
            }
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && version.load(Ordering::Relaxed) == before {
                return None;
            }
            std::hint::spin_loop();
        }
        let _still = self.stripe(hash).occupied.lock();
        self.look(hash, &mut is_it)
    }

    fn look<T>(
        &self,
        hash: u64,
        is_it: &mut impl FnMut(Slot) -> Option<T>,
    ) -> Option<(Cell<'_>, T)> {
        let tag = Slot::tag_of(hash);
        self.chain(self.bucket_of(hash))
            .filter(|cell| cell.slot.tag() == tag && cell.slot.is_item())
            .find_map(|cell| is_it(cell.slot).map(|found| (cell, found)))
    }

    /// Holds still whatever has this hash.
    pub(crate) fn lock(&self, hash: u64) -> Held<'_> {
        Held {
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

    /// Whether an insert should be followed by a `split`.
    fn is_full(&self, occupied: u64) -> bool {
        2 * occupied * STRIPES as u64 > FULL_HALVES * self.buckets()
    }

    /// Whether `merge` is worth its while.
    pub(crate) fn is_sparse(&self) -> bool {
        let buckets = self.buckets();
        buckets > STRIPES as u64 && 2 * self.occupied() < SPARSE_HALVES * buckets
    }

    /// One bucket more. `block` is asked when the index needs a block.
    pub(crate) fn split(
        &self,
        arena: &Arena,
        judge: &impl Judge,
        block: impl FnOnce() -> Option<BlockId>,
    ) -> Result<(), NoBlock> {
        let Some(mut homes) = self.homes.try_lock() else {
            return Ok(()); // somebody else is at it
        };
        let new = self.buckets();
        if new == homes.len() as u64 * self.lines_per_block {
            if homes.len() == self.lines.len() {
                return Err(NoBlock);
            }
            self.settle_in(arena, &mut homes, block().ok_or(NoBlock)?);
        }
        let base = 1u64 << (63 - new.leading_zeros());
        let old = new - base;
        let mut occupied = self.stripe(old).occupied.lock();
        let _moving = Moving::begin(&self.stripe(old).version);
        let mut gathered = Gathered::default();
        *occupied -= gathered.take(self, old, judge);
        let (moves, stays): (Vec<_>, Vec<_>) = gathered
            .slots
            .iter()
            .partition(|(_, hash)| hash & base != 0);
        self.write(new, &moves, &mut gathered.units);
        self.buckets.store(new + 1, Ordering::Release);
        self.write(old, &stays, &mut gathered.units);
        self.spill.free(gathered.units);
        Ok(())
    }

    /// One bucket fewer; gives up a block that this empties. `block` is asked when the merged chain needs
    /// a spill unit and there is none.
    pub(crate) fn merge(
        &self,
        arena: &Arena,
        judge: &impl Judge,
        mut block: impl FnMut() -> Option<BlockId>,
    ) -> Result<(), NoBlock> {
        let mut homes = self.homes.lock();
        let last = self.buckets() - 1;
        if last < STRIPES as u64 {
            return Ok(());
        }
        let into = last - (1 << (63 - last.leading_zeros()));
        let mut occupied = self.stripe(into).occupied.lock();
        let mut gathered = Gathered::default();
        // The units of two chains serve one, which may need more.
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
            match self.spill.alloc(arena, &mut block) {
                Some(unit) => gathered.units.push(unit),
                None => {
                    self.spill.free(gathered.units);
                    return Err(NoBlock);
                }
            }
        }
        let _moving = Moving::begin(&self.stripe(into).version);
        *occupied -= gathered.take(self, into, judge) + gathered.take(self, last, judge);
        let slots: Vec<_> = gathered.slots.iter().collect();
        self.write(into, &slots, &mut gathered.units);
        self.buckets.store(last, Ordering::Release);
        self.spill.free(gathered.units);
        if last.is_multiple_of(self.lines_per_block)
            && let Some(empty) = homes.pop()
        {
            self.homes_held.store(homes.len(), Ordering::Relaxed);
            // A reader that still counts `last` among the buckets is pinned: the block stays till then.
            arena.retire(&[empty]);
        }
        self.spill.give_up_empty(arena);
        Ok(())
    }

    /// How many slots of a chain are in use, and how many units it has.
    fn extent(&self, bucket: u64) -> (usize, usize) {
        let mut chain = self.chain(bucket);
        let slots = chain.by_ref().filter(|cell| cell.slot.is_item()).count();
        (slots, chain.units)
    }

    /// Removes what is stale from a bucket and closes the gaps. Says how many buckets there are.
    pub(crate) fn sweep(&self, bucket: u64, judge: &impl Judge) -> u64 {
        let stripe = self.stripe(bucket);
        let mut occupied = stripe.occupied.lock();
        let buckets = self.buckets();
        if bucket < buckets
            && self
                .chain(bucket)
                .any(|cell| cell.slot.is_item() && judge.is_stale(cell.slot))
        {
            let _moving = Moving::begin(&stripe.version);
            let mut gathered = Gathered::default();
            *occupied -= gathered.take(self, bucket, judge);
            let slots: Vec<_> = gathered.slots.iter().collect();
            self.write(bucket, &slots, &mut gathered.units);
            self.spill.free(gathered.units);
        }
        buckets
    }

    /// Writes a chain anew over an emptied line, with spill units out of `units`.
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
            line = self.spill.unit(unit);
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

/// Units that a chain of so many slots needs.
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
    // SAFETY: the block was taken for the index, nobody else reads or writes it, and it is aligned far
    // beyond 8 bytes. Zero is a valid atomic.
    unsafe { start.write_bytes(0, arena.block_bytes()) };
    start.cast()
}

/// Says to readers, from here to its end, that slots of a stripe are being moved.
struct Moving<'a>(&'a AtomicU32);

impl<'a> Moving<'a> {
    fn begin(version: &'a AtomicU32) -> Moving<'a> {
        version.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        Moving(version)
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Chains taken out of the table, to be written back another way.
#[derive(Default)]
struct Gathered {
    slots: Vec<(Slot, u64)>,
    units: Vec<u32>,
}

impl Gathered {
    /// Takes a chain out, slot by slot, so that a reader's mark on a slot either is seen here or fails
    /// there. Returns how many stale slots it left behind.
    fn take(&mut self, table: &Table, bucket: u64, judge: &impl Judge) -> u64 {
        let mut stale = 0;
        let mut line = table.line(bucket);
        let mut at = 0;
        while at < line.len() {
            let slot = Slot(line[at].swap(0, Ordering::AcqRel));
            at += 1;
            if let Some(unit) = slot.as_link() {
                self.units.push(unit);
                line = table.spill.unit(unit);
                at = 0;
            } else if slot.is_item() {
                match judge.hash_of(slot) {
                    Some(hash) => self.slots.push((slot, hash)),
                    None => stale += 1,
                }
            }
        }
        stale
    }
}

/// The slots of a bucket, spill units included.
struct Chain<'t> {
    table: &'t Table,
    line: &'t [AtomicU64],
    at: usize,
    units: usize,
}

/// A slot and the word that was in it.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'t> {
    word: &'t AtomicU64,
    pub(crate) slot: Slot,
}

impl<'t> Iterator for Chain<'t> {
    type Item = Cell<'t>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'t>> {
        while let Some(word) = self.line.get(self.at) {
            let slot = Slot(word.load(Ordering::Acquire));
            self.at += 1;
            match slot.as_link() {
                None => return Some(Cell { word, slot }),
                // A reader may run into a unit that just changed chains; its version will tell.
                Some(_) if self.units == UNITS_MAX => return None,
                Some(unit) => {
                    self.line = self.table.spill.unit(unit);
                    self.at = 0;
                    self.units += 1;
                }
            }
        }
        None
    }
}

impl Cell<'_> {
    /// Puts `new` in place of what was seen. Fails if the slot has changed since.
    pub(crate) fn exchange(&self, new: Slot) -> Result<(), Slot> {
        self.word
            .compare_exchange(self.slot.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(Slot)
    }
}

/// A stripe that is held still: nobody else inserts, removes or moves slots of it.
pub(crate) struct Held<'t> {
    table: &'t Table,
    occupied: MutexGuard<'t, u64>,
}

impl<'t> Held<'t> {
    /// The slot of an item with this hash for which `is_it` holds.
    pub(crate) fn find<T>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(Slot) -> Option<T>,
    ) -> Option<(Cell<'t>, T)> {
        self.table.look(hash, &mut is_it)
    }

    /// Empties a slot; returns what was in it at the last moment.
    pub(crate) fn remove(&mut self, cell: Cell<'t>) -> Slot {
        *self.occupied -= 1;
        Slot(cell.word.swap(0, Ordering::AcqRel))
    }

    /// Puts `new` in the place of an item; returns what was in it at the last moment.
    pub(crate) fn replace(&mut self, cell: Cell<'t>, new: Slot) -> Slot {
        Slot(cell.word.swap(new.0, Ordering::AcqRel))
    }

    /// Adds a slot, in the place of a stale one where there is one. Says whether the table should grow.
    pub(crate) fn insert(
        &mut self,
        arena: &Arena,
        hash: u64,
        slot: Slot,
        judge: &impl Judge,
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
            if judge.is_stale(cell.slot) {
                cell.word.store(slot.0, Ordering::Release);
                return Ok(false);
            }
            last = Some(cell);
            length += 1;
        }
        if length >= CHAIN_MAX {
            return Err(NoBlock);
        }
        let unit = self.table.spill.alloc(arena, block).ok_or(NoBlock)?;
        self.extend(last.ok_or(NoBlock)?, unit, slot);
        Ok(self.table.is_full(*self.occupied))
    }

    /// Hangs `unit` on the chain's last slot, whose item moves into it. A reader sees that item in the
    /// one place or the other.
    fn extend(&mut self, last: Cell<'t>, unit: u32, slot: Slot) {
        let cells = self.table.spill.unit(unit);
        cells[1].store(slot.0, Ordering::Relaxed);
        *self.occupied += 1;
        let mut moved = last.slot;
        loop {
            cells[0].store(moved.0, Ordering::Release);
            let seen = Cell {
                slot: moved,
                ..last
            };
            match seen.exchange(Slot::link(unit)) {
                Ok(()) => return,
                // A reader marked it meanwhile: take the mark along.
                Err(marked) => moved = marked,
            }
        }
    }

    /// The slots that share a chain with this hash: the candidates when one must go.
    pub(crate) fn neighbours(&self, hash: u64) -> impl Iterator<Item = Cell<'t>> {
        self.table
            .chain(self.table.bucket_of(hash))
            .filter(|cell| cell.slot.is_item())
    }
}

#[cfg(test)]
mod tests;
