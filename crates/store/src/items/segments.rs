//! A tenant's segments: the blocks that it appends to, and those that are full.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use sublet_types::{Bytes, Expiry, Second};

use super::segment_cursor::SegmentCursor;
use super::space_time::{SurvivalBar, TurnoverClock};
use crate::arena::{Arena, BlockId, BlockList, BlockOwner, BlockQueue, RecordClaim};
use crate::tenants::Tenant;

/// Open segments per tenant. Items with similar times to live die together. The first class is for items that never
/// expire.
pub(crate) const CLASSES: usize = 8;

/// The longest times to live of classes 1 to 6, in seconds. Longer ones go into class 7.
const CLASS_BOUNDS: [u32; CLASSES - 2] = [60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600];

/// A smaller tenant has only one class, because open segments would be too large a part of it.
const ONE_CLASS_BELOW: Bytes = Bytes::mib(64);

/// How many of the oldest full segments are examined for the one that was opened first.
const OLDEST_LOOKED_AT: usize = 64;

/// The segments of one tenant.
#[derive(Default)]
pub(crate) struct Segments {
    open: [Mutex<Option<BlockId>>; CLASSES],
    /// Full segments that `full` has not taken in yet.
    arrivals: Mutex<Vec<BlockId>>,
    full: Mutex<FullSegments>,
    /// All segments, including open ones.
    all: BlockList,
    /// Read at every hit, so it is kept apart from what writers change.
    clock: CachePadded<TurnoverClock>,
    /// Whether a sparse segment may be there to be recycled: one was opened since the last look, or one is worked on.
    recycles: AtomicBool,
    /// Items that expire lie beside others that do not.
    mixes: AtomicBool,
    /// Segments with a lower sequence were flushed.
    flushed_before: AtomicU64,
    /// The second of the last flush.
    flushed_at: AtomicU32,
    /// The second after the one in which the oldest segment was opened, as it was last found. 0 if there was none.
    oldest: AtomicU32,
}

/// Whether recycling has more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recycling {
    /// A sparse segment is being worked on, or one may be there.
    Pending,
    /// No sparse segment is known until another segment is opened.
    Done,
}

/// Full segments in the order of their age.
#[derive(Default)]
pub(crate) struct FullSegments {
    pub(super) blocks: BlockQueue,
    /// The segment that survivors are copied into.
    pub(super) target: Option<BlockId>,
    /// The segment that is being worked through.
    pub(super) source: Option<SegmentCursor>,
    pub(super) survival_bar: SurvivalBar,
    /// Segments opened for survivors for which no block was given up yet.
    pub(super) owed: i64,
}

impl Segments {
    /// The class of an item that expires at `expiry`.
    pub(super) fn class_of(
        &self,
        tenant: &Tenant,
        block_bytes: usize,
        expiry: Expiry,
        now: Second,
    ) -> usize {
        let held = u64::from(tenant.held()) * block_bytes as u64;
        match expiry {
            Expiry::At(second) if held >= ONE_CLASS_BELOW.0 => {
                let ttl = second.0.saturating_sub(now.0);
                1 + CLASS_BOUNDS
                    .iter()
                    .position(|bound| ttl <= *bound)
                    .unwrap_or(CLASS_BOUNDS.len())
            }
            Expiry::At(_) => {
                self.mixes.store(true, Ordering::Relaxed);
                0
            }
            Expiry::Never => 0,
        }
    }

    /// Returns whether items that expire lie beside items that do not.
    pub(super) fn mixes(&self) -> bool {
        self.mixes.load(Ordering::Relaxed)
    }

    /// Claims `len` bytes in the tenant's open segment of that class, or in a new segment if that is full. `None` if
    /// there is no block for it.
    pub(super) fn claim(
        &self,
        tenant: &Tenant,
        arena: &Arena,
        class: usize,
        len: u32,
        now: Second,
    ) -> Option<RecordClaim> {
        let mut open = self.open[class].lock();
        if let Some(block) = *open {
            if let Some(claim) = arena.claim(block, len) {
                return Some(claim);
            }
            arena.close(block);
            self.arrivals.lock().push(block);
            *open = None;
        }
        if tenant.is_at_limit(1) {
            return None;
        }
        let block = arena.allocate(BlockOwner::Items(tenant.id), arena.reserve(), now)?;
        self.record_opened(tenant, arena, block);
        arena
            .block(block)
            .class
            .store(class as u8, Ordering::Relaxed);
        *open = Some(block);
        self.recycles.store(true, Ordering::Relaxed);
        arena.claim(block, len)
    }

    /// Adds a segment that was opened.
    pub(super) fn record_opened(&self, tenant: &Tenant, arena: &Arena, block: BlockId) {
        tenant.gained_block();
        self.all.add(arena, block);
        self.clock.advance(self.all.len());
    }

    /// Removes a segment that will be given up next.
    pub(super) fn record_given_up(&self, tenant: &Tenant, arena: &Arena, block: BlockId) {
        tenant.lost_block();
        self.all.remove(arena, block);
    }

    /// All segments, including open ones.
    pub(crate) fn all(&self) -> &BlockList {
        &self.all
    }

    /// The clock by which its items age.
    pub(super) fn clock(&self) -> &TurnoverClock {
        &self.clock
    }

    /// Returns whether it is time to look for a segment to recycle, or to go on with one.
    pub(super) fn may_recycle(&self) -> bool {
        self.recycles.load(Ordering::Relaxed)
    }

    /// Records whether there is more to recycle.
    pub(super) fn set_recycling(&self, recycling: Recycling) {
        let recycles = recycling == Recycling::Pending;
        self.recycles.store(recycles, Ordering::Relaxed);
    }

    /// Locks the full segments, with all arrivals taken in, unless another thread works on them.
    pub(crate) fn try_lock_full(&self, arena: &Arena) -> Option<MutexGuard<'_, FullSegments>> {
        let mut full_segments = self.full.try_lock()?;
        self.collect_arrivals(arena, &mut full_segments);
        Some(full_segments)
    }

    fn collect_arrivals(&self, arena: &Arena, full_segments: &mut FullSegments) {
        full_segments
            .blocks
            .extend(arena, self.arrivals.lock().drain(..));
    }

    /// When its oldest segment was opened, by the arena's clock. `None` if it has none.
    pub(super) fn oldest(&self, arena: &Arena, full_segments: &FullSegments) -> Option<u64> {
        let born = |block: BlockId| arena.block(block).born.load(Ordering::Relaxed);
        let full = full_segments.blocks.front().map(born);
        full.or_else(|| {
            let open = self.open.iter().filter_map(|open| *open.lock());
            open.chain(full_segments.target).map(born).min()
        })
    }

    /// When the oldest segment that was not flushed was opened. If another thread works on the full segments, this is
    /// the last known answer.
    pub(crate) fn oldest_opened(&self, arena: &Arena) -> Option<Second> {
        if let Some(full_segments) = self.try_lock_full(arena) {
            let lives = |block: &BlockId| !self.is_flushed(arena.block(*block).sequence());
            let full = full_segments.blocks.iter().take(OLDEST_LOOKED_AT);
            let open = self.open.iter().filter_map(|open| *open.lock());
            let all = full.chain(full_segments.target).chain(open).filter(lives);
            let oldest = all.map(|block| arena.block(block).opened().0).min();
            let after = oldest.map_or(0, |second| second.saturating_add(1));
            self.oldest.store(after, Ordering::Relaxed);
        }
        let after = self.oldest.load(Ordering::Relaxed);
        after.checked_sub(1).map(Second)
    }

    /// Closes every open segment, including the survivors'.
    pub(super) fn close_all(&self, arena: &Arena, full_segments: &mut FullSegments) {
        for open in &self.open {
            let closing = open.lock().take();
            closing.iter().for_each(|block| arena.close(*block));
            full_segments.blocks.extend(arena, closing);
        }
        self.collect_arrivals(arena, full_segments);
        full_segments.settle_target(arena);
    }

    /// Hides everything stored so far. Returns whether it could. It cannot while another thread works on the full
    /// segments, and a pinned caller must not wait for that thread.
    pub(crate) fn try_flush(&self, arena: &Arena, now: Second) -> bool {
        let Some(mut full_segments) = self.try_lock_full(arena) else {
            return false;
        };
        // With all classes locked, no thread opens a segment. What is stored later has a higher sequence.
        let mut open: Vec<_> = self.open.iter().map(|open| open.lock()).collect();
        let closing: Vec<BlockId> = open.iter_mut().filter_map(|open| open.take()).collect();
        closing.iter().for_each(|block| arena.close(*block));
        full_segments.blocks.extend(arena, closing);
        self.collect_arrivals(arena, &mut full_segments);
        full_segments.settle_target(arena);
        self.flushed_at.store(now.0, Ordering::Relaxed);
        self.flushed_before
            .store(arena.next_sequence(), Ordering::SeqCst);
        drop(open);
        // Writes into places that were claimed before still count until their block goes, though no reader sees them.
        for block in full_segments.blocks.iter() {
            arena.lose_all(block);
        }
        true
    }

    /// Does the same for a tenant that gets the slot of a removed one. It also forgets what was learned of that
    /// tenant's items.
    pub(crate) fn try_reset(&self, arena: &Arena) -> bool {
        if !self.try_flush(arena, Second::default()) {
            return false;
        }
        self.mixes.store(false, Ordering::Relaxed);
        let Some(mut full_segments) = self.try_lock_full(arena) else {
            return false;
        };
        (full_segments.survival_bar, full_segments.owed) = (SurvivalBar::default(), 0);
        true
    }

    /// Waits until no thread works on the full segments. The caller must not be pinned, because no block would come
    /// free meanwhile.
    pub(crate) fn await_full(&self) {
        drop(self.full.lock());
    }

    /// Returns whether everything in a block of this sequence was flushed at `then` or before.
    pub(super) fn was_flushed(&self, sequence: u64, then: Second) -> bool {
        self.is_flushed(sequence) && self.flushed_at.load(Ordering::Relaxed) <= then.0
    }

    /// The sequence below which segments were flushed.
    pub(super) fn flushed_before(&self) -> u64 {
        self.flushed_before.load(Ordering::Acquire)
    }

    /// Returns whether everything in a block of this sequence was flushed.
    pub(crate) fn is_flushed(&self, sequence: u64) -> bool {
        sequence < self.flushed_before()
    }
}

impl FullSegments {
    /// Adds the survivors' segment to the full segments, as the newest.
    pub(super) fn settle_target(&mut self, arena: &Arena) {
        if let Some(target) = self.target.take() {
            arena.close(target);
            self.blocks.push(arena, target);
        }
    }

    /// Removes a block from the full segments.
    pub(super) fn remove(&mut self, arena: &Arena, block: BlockId) {
        self.blocks.remove(arena, block);
        self.source = self.source.filter(|source| source.block != block);
    }
}
