//! Overflow units of four slots each, for buckets that are full.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{UNIT_SLOTS, cleared};
use crate::arena::{Arena, BlockId};

const UNIT_BYTES: usize = UNIT_SLOTS * 8;

/// The most units in a block, as a power of two. The upper bits of a unit's number name its block.
const UNITS_PER_BLOCK_BITS: u32 = 16;

/// All units, in blocks of their own.
pub(super) struct OverflowUnits {
    starts: Box<[AtomicPtr<AtomicU64>]>,
    homes: Mutex<Vec<Option<UnitBlock>>>,
    /// The number of blocks among these, for readers, because puts hold the lock.
    held: AtomicUsize,
}

/// A block of units.
struct UnitBlock {
    block: BlockId,
    vacant: Vec<u16>,
    units: usize,
}

impl OverflowUnits {
    pub(super) fn new(blocks_max: usize) -> OverflowUnits {
        OverflowUnits {
            starts: (0..blocks_max).map(|_| AtomicPtr::default()).collect(),
            homes: Mutex::new(Vec::new()),
            held: AtomicUsize::new(0),
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.homes.lock()
    }

    pub(super) fn unit(&self, unit: u32) -> &[AtomicU64] {
        let start = self.starts[(unit >> UNITS_PER_BLOCK_BITS) as usize].load(Ordering::Acquire);
        let at = (unit & ((1 << UNITS_PER_BLOCK_BITS) - 1)) as usize * UNIT_SLOTS;
        // SAFETY: a unit that a link names lies in a block of zeroed or written atomics. That block is retired only
        // when no link names one of its units and all pins that saw one have ended.
        unsafe { std::slice::from_raw_parts(start.add(at), UNIT_SLOTS) }
    }

    /// A unit of empty slots. It calls `block` if all blocks are full.
    pub(super) fn alloc(
        &self,
        arena: &Arena,
        block: impl FnOnce() -> Option<BlockId>,
    ) -> Option<u32> {
        let mut homes = self.homes.lock();
        let vacant =
            |home: &Option<UnitBlock>| home.as_ref().is_some_and(|home| !home.vacant.is_empty());
        let at = match homes.iter().position(vacant) {
            Some(at) => at,
            None => self.open(arena, &mut homes, block()?)?,
        };
        let unit = homes[at].as_mut()?.vacant.pop()?;
        let unit = (at as u32) << UNITS_PER_BLOCK_BITS | u32::from(unit);
        for cell in self.unit(unit) {
            cell.store(0, Ordering::Relaxed);
        }
        Some(unit)
    }

    fn open(
        &self,
        arena: &Arena,
        homes: &mut Vec<Option<UnitBlock>>,
        block: BlockId,
    ) -> Option<usize> {
        let at = homes
            .iter()
            .position(Option::is_none)
            .unwrap_or(homes.len());
        if at == self.starts.len() {
            arena.retire(&[block]);
            return None;
        }
        let units = (arena.block_bytes() / UNIT_BYTES).min(1 << UNITS_PER_BLOCK_BITS);
        self.starts[at].store(cleared(arena, block), Ordering::Release);
        let home = UnitBlock {
            block,
            vacant: (0..units).rev().map(|unit| unit as u16).collect(),
            units,
        };
        if at == homes.len() {
            homes.push(Some(home));
        } else {
            homes[at] = Some(home);
        }
        self.held.fetch_add(1, Ordering::Relaxed);
        Some(at)
    }

    pub(super) fn free(&self, units: Vec<u32>) {
        if units.is_empty() {
            return;
        }
        let mut homes = self.homes.lock();
        for unit in units {
            if let Some(home) = homes[(unit >> UNITS_PER_BLOCK_BITS) as usize].as_mut() {
                home.vacant.push(unit as u16);
            }
        }
    }

    /// Retires the blocks in which no unit is used.
    pub(super) fn give_up_empty(&self, arena: &Arena) {
        for home in self.homes.lock().iter_mut() {
            if let Some(empty) = home.take_if(|home| home.vacant.len() == home.units) {
                self.held.fetch_sub(1, Ordering::Relaxed);
                arena.retire(&[empty.block]);
            }
        }
    }
}
