//! A tenant's segments: the blocks that it appends to, and those that are full.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use sublet_types::{Bytes, Expiry, Second};

use super::source::Source;
use super::space_time::{Clock, Window};
use crate::arena::{Arena, BlockId, BlockList, BlockQueue, Claim, Claimant};
use crate::tenants::Tenant;

/// Open segments of a tenant: items of like time to live die together. The first is for those that never
/// expire.
pub(crate) const CLASSES: usize = 8;

/// Longest times to live of classes 1 to 6, seconds; longer ones go into class 7.
const CLASS_BOUNDS: [u32; CLASSES - 2] = [60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600];

/// A smaller tenant has one class only: open segments would be too large a part of it.
const ONE_CLASS_BELOW: Bytes = Bytes::mib(64);

/// Of the full segments, the oldest come first: so many are looked at for the one opened first.
const OLDEST_LOOKED_AT: usize = 64;

/// The segments of one tenant.
#[derive(Default)]
pub(crate) struct Segments {
    open: [Mutex<Option<BlockId>>; CLASSES],
    /// Full segments that the ring has not taken in yet.
    arrivals: Mutex<Vec<BlockId>>,
    ring: Mutex<Ring>,
    /// All of them, open ones among them.
    all: BlockList,
    /// Read at every hit: away from what writers change.
    clock: CachePadded<Clock>,
    /// A sparse segment may be there to be recycled: one was opened since the last look, or one is worked at.
    recycles: AtomicBool,
    /// Items that expire lie beside others that do not.
    mixes: AtomicBool,
    /// Segments with a lower sequence were flushed.
    flushed_before: AtomicU64,
    /// The second of the last flush.
    flushed_at: AtomicU32,
    /// The second after the one in which the oldest segment was opened, as a look found it last; 0 where there was none.
    oldest: AtomicU32,
}

/// Full segments in the order of their age.
#[derive(Default)]
pub(crate) struct Ring {
    pub(super) blocks: BlockQueue,
    /// The segment that survivors are copied into.
    pub(super) target: Option<BlockId>,
    /// The segment that is being worked through.
    pub(super) source: Option<Source>,
    pub(super) window: Window,
    /// Segments opened for survivors that no block was given up for yet.
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

    /// Whether items that expire lie beside others that do not.
    pub(super) fn mixes(&self) -> bool {
        self.mixes.load(Ordering::Relaxed)
    }

    /// A place for `len` bytes in the tenant's open segment of that class; a new segment if that is full.
    /// `None` if there is no block for it.
    pub(super) fn claim(
        &self,
        tenant: &Tenant,
        arena: &Arena,
        class: usize,
        len: u32,
        now: Second,
    ) -> Option<Claim> {
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
        let block = arena.take(Claimant::Tenant(tenant.id), arena.reserve(), now)?;
        self.note_opened(tenant, arena, block);
        arena
            .block(block)
            .class
            .store(class as u8, Ordering::Relaxed);
        *open = Some(block);
        self.recycles.store(true, Ordering::Relaxed);
        arena.claim(block, len)
    }

    /// Takes in a segment that was opened.
    pub(super) fn note_opened(&self, tenant: &Tenant, arena: &Arena, block: BlockId) {
        tenant.gained_block();
        self.all.add(arena, block);
        self.clock.note_opened(self.all.len());
    }

    /// Lets go of a segment that is given up next.
    pub(super) fn note_given_up(&self, tenant: &Tenant, arena: &Arena, block: BlockId) {
        tenant.lost_block();
        self.all.remove(arena, block);
    }

    /// All segments, open ones among them.
    pub(crate) fn all(&self) -> &BlockList {
        &self.all
    }

    /// The clock by which its items age.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether it is time to look for a segment to recycle, or to go on with one.
    pub(super) fn recycles(&self) -> bool {
        self.recycles.load(Ordering::Relaxed)
    }

    /// Notes whether there is more to do at a segment that is recycled.
    pub(super) fn set_recycles(&self, more: bool) {
        self.recycles.store(more, Ordering::Relaxed);
    }

    /// The ring, with all full segments in it, unless another thread works on it.
    pub(crate) fn try_ring(&self, arena: &Arena) -> Option<MutexGuard<'_, Ring>> {
        let mut ring = self.ring.try_lock()?;
        self.take_in(arena, &mut ring);
        Some(ring)
    }

    fn take_in(&self, arena: &Arena, ring: &mut Ring) {
        ring.blocks.extend(arena, self.arrivals.lock().drain(..));
    }

    /// When its oldest segment was opened, by the arena's clock. `None` if it has none.
    pub(super) fn oldest(&self, arena: &Arena, ring: &Ring) -> Option<u64> {
        let born = |block: BlockId| arena.block(block).born.load(Ordering::Relaxed);
        let full = ring.blocks.front().map(born);
        full.or_else(|| {
            let open = self.open.iter().filter_map(|open| *open.lock());
            open.chain(ring.target).map(born).min()
        })
    }

    /// When the oldest segment that was not flushed was opened. Where another thread works on the ring, what was said last.
    pub(crate) fn oldest_opened(&self, arena: &Arena) -> Option<Second> {
        if let Some(ring) = self.try_ring(arena) {
            let lives = |block: &BlockId| !self.is_flushed(arena.block(*block).sequence());
            let full = ring.blocks.iter().take(OLDEST_LOOKED_AT);
            let open = self.open.iter().filter_map(|open| *open.lock());
            let all = full.chain(ring.target).chain(open).filter(lives);
            let oldest = all.map(|block| arena.block(block).opened().0).min();
            let after = oldest.map_or(0, |second| second.saturating_add(1));
            self.oldest.store(after, Ordering::Relaxed);
        }
        let after = self.oldest.load(Ordering::Relaxed);
        after.checked_sub(1).map(Second)
    }

    /// Closes every open segment, the survivors' too.
    pub(super) fn close_all(&self, arena: &Arena, ring: &mut Ring) {
        for open in &self.open {
            let closing = open.lock().take();
            closing.iter().for_each(|block| arena.close(*block));
            ring.blocks.extend(arena, closing);
        }
        self.take_in(arena, ring);
        ring.settle_target(arena);
    }

    /// Hides all that was stored so far. Says whether it could: not while another thread works on the
    /// ring, for which a pinned caller must not wait.
    pub(crate) fn try_flush(&self, arena: &Arena, now: Second) -> bool {
        let Some(mut ring) = self.try_ring(arena) else {
            return false;
        };
        // With all classes locked nobody opens a segment: what is stored later has a higher sequence.
        let mut open: Vec<_> = self.open.iter().map(|open| open.lock()).collect();
        let closing: Vec<BlockId> = open.iter_mut().filter_map(|open| open.take()).collect();
        closing.iter().for_each(|block| arena.close(*block));
        ring.blocks.extend(arena, closing);
        self.take_in(arena, &mut ring);
        ring.settle_target(arena);
        self.flushed_at.store(now.0, Ordering::Relaxed);
        self.flushed_before
            .store(arena.next_sequence(), Ordering::SeqCst);
        drop(open);
        // What is written yet into a place that was claimed before is counted, though nobody sees it, until its block goes.
        for block in ring.blocks.iter() {
            arena.lose_all(block);
        }
        true
    }

    /// The same for who has the place of somebody that was removed: what was learned of that one's items is forgotten, too.
    pub(crate) fn try_begin_anew(&self, arena: &Arena) -> bool {
        if !self.try_flush(arena, Second::default()) {
            return false;
        }
        self.mixes.store(false, Ordering::Relaxed);
        let Some(mut ring) = self.try_ring(arena) else {
            return false;
        };
        (ring.window, ring.owed) = (Window::default(), 0);
        true
    }

    /// Waits until nobody works on the ring. The caller is not pinned: meanwhile no block would come free.
    pub(crate) fn await_ring(&self) {
        drop(self.ring.lock());
    }

    /// Whether everything in a block of this sequence was flushed at `then` or before.
    pub(super) fn was_flushed(&self, sequence: u64, then: Second) -> bool {
        self.is_flushed(sequence) && self.flushed_at.load(Ordering::Relaxed) <= then.0
    }

    /// The sequence below which segments were flushed.
    pub(super) fn flushed_before(&self) -> u64 {
        self.flushed_before.load(Ordering::Acquire)
    }

    /// Whether everything in a block of this sequence was flushed.
    pub(crate) fn is_flushed(&self, sequence: u64) -> bool {
        sequence < self.flushed_before()
    }
}

impl Ring {
    /// Puts the survivors' segment into the ring, as the newest.
    pub(super) fn settle_target(&mut self, arena: &Arena) {
        if let Some(target) = self.target.take() {
            arena.close(target);
            self.blocks.push(arena, target);
        }
    }

    /// Takes a block out of the ring.
    pub(super) fn remove(&mut self, arena: &Arena, block: BlockId) {
        self.blocks.remove(arena, block);
        self.source = self.source.filter(|source| source.block != block);
    }
}
