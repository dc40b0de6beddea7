//! One tenant's part of the page store: its shards, and the blocks that it takes frames from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use sublet_types::{EvictionKind, FreezeState, GetMode, Second};

use super::far::TenantFar;
use super::shard::Shard;
use super::shard_debt::ShardShare;
use super::shards_with_spare::{SHARDS_MAX, ShardsWithSpare};
use super::tally::{ShardTally, TenantCounts};
use crate::api::SampledUse;
use crate::arena::{Arena, BlockId, BlockList, PageKind};
use crate::eviction::{EvictionFamily, MakeEviction};
use crate::frames::HashSeed;
use crate::frames::{FrameId, FrameTable};
use crate::sample_log::SampleLog;

/// A tenant with fewer blocks of pages than this, 64 MiB, has most of them in the processor's caches. For such a
/// tenant, looking ahead or bypassing the caches costs more than it gains.
const BEYOND_CACHES: u32 = if cfg!(test) { 1 } else { 32 };

/// The most frames that a shard takes from the open block at once.
const BATCH_MAX: u32 = 16;

/// A shard takes at most this fraction of its share of the tenant's frames at once.
const BATCH_ONE_IN: u32 = 8;

/// What grows is made larger than necessary by this fraction.
const GROWTH_ONE_IN: u32 = 16;

/// The most frames for which the memory of departed pages grows at once, in some milliseconds. Beyond that it grows
/// when there is time.
const GROWN_AT_ONCE: u32 = 1 << 15;

/// The fraction of what is remembered for lost frames that is forgotten at a time ([`FitTiming::Later`]).
const FORGOTTEN_ONE_IN: u32 = 16;

/// A shard with fewer frames than this is small.
const SMALL: u32 = 512;

/// When shards are fitted to what their tenant has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FitTiming {
    /// The tenant has got a block. Fit only if it exceeds what was planned for and the work is short.
    Grown,
    /// There is time to fit.
    Exact,
    /// There is time, and some has passed. What is remembered for frames that the tenant no longer has shrinks.
    Later,
}

/// A tenant's pages.
pub(crate) struct TenantPages {
    shards: Box<[Mutex<Shard>]>,
    /// The counts of its shards.
    counts: Arc<TenantCounts>,
    /// A log of what happens to a sample of the pages.
    samples: Arc<SampleLog<SampledUse>>,
    open: [Mutex<Option<OpenBlock>>; 2],
    /// Whether a block is open. So most puts that find no free frame need not take the lock to see.
    is_open: [AtomicBool; 2],
    /// Held while a block of a kind is opened, so that threads that all find the last one used up open only one.
    opening: [Mutex<()>; 2],
    /// Blocks of pages, by kind.
    blocks: [BlockList; 2],
    /// Ephemeral pages that were displaced, as far as their shards have reported.
    pub(super) displaced: AtomicU64,
    /// The shard that last gave one to another shard.
    pub(super) giver: AtomicUsize,
    /// Counts the looks ahead of puts.
    readied: AtomicUsize,
    /// Whether the last such look found that the tenant puts.
    putting: AtomicBool,
    /// Its blocks of lenders.
    pub(super) far: TenantFar,
    frozen: AtomicBool,
    eviction: Mutex<ChosenEviction>,
    /// The part of the eviction that readers see. Giving shards another eviction takes time, and no reader waits for
    /// it.
    shown: Mutex<ShownEviction>,
    /// The number of ephemeral frames that its shards are fitted to.
    fitted: AtomicU32,
    /// The number of pages that the memory of departed pages is fitted to. It is at least `fitted`, and more for a
    /// while after the tenant had more.
    remembered: AtomicU32,
}

/// What the last look ahead of a tenant's puts found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PutActivity {
    /// Pages were evicted since the last look, or frames of such pages were taken.
    Putting,
    /// Neither happened.
    Idle,
}

/// The chosen eviction, and the evictions made for it.
struct ChosenEviction {
    kind: EvictionKind,
    /// [`GetMode::Keeping`] if one of the tenant's pools keeps, or kept, pages that are read.
    mode: GetMode,
    family: EvictionFamily,
}

/// The chosen eviction and the effective one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownEviction {
    pub(crate) chosen: EvictionKind,
    /// The effective eviction. It is never [`EvictionKind::Auto`].
    pub(crate) ruling: EvictionKind,
}

impl Default for ShownEviction {
    fn default() -> ShownEviction {
        let chosen = EvictionKind::default();
        ShownEviction {
            chosen,
            ruling: chosen.effective(GetMode::Exclusive),
        }
    }
}

/// A block whose frames are being handed out.
struct OpenBlock {
    block: BlockId,
    /// The index of the next frame.
    next: u32,
}

impl TenantPages {
    pub(super) fn new(
        shards: usize,
        seed: HashSeed,
        handed_in: Option<MakeEviction>,
        far: TenantFar,
    ) -> TenantPages {
        let with_spare = Arc::<ShardsWithSpare>::default();
        let samples = Arc::<SampleLog<SampledUse>>::default();
        let shards = shards.min(SHARDS_MAX);
        let counts = Arc::new(TenantCounts::new(shards));
        let kind = EvictionKind::default();
        let family = EvictionFamily::new(kind.effective(GetMode::Exclusive), shards, handed_in);
        let shard = |n| {
            let (with_spare, samples) = (Arc::clone(&with_spare), Arc::clone(&samples));
            let tally = ShardTally::new(Arc::clone(&counts), n as u8);
            let eviction = family.eviction(n);
            Mutex::new(Shard::new(
                n as u8, seed, eviction, with_spare, samples, tally,
            ))
        };
        TenantPages {
            shards: (0..shards).map(shard).collect(),
            counts,
            samples: Arc::clone(&samples),
            open: [Mutex::new(None), Mutex::new(None)],
            is_open: [AtomicBool::new(false), AtomicBool::new(false)],
            opening: [Mutex::new(()), Mutex::new(())],
            blocks: Default::default(),
            displaced: AtomicU64::new(0),
            giver: AtomicUsize::new(0),
            readied: AtomicUsize::new(0),
            putting: AtomicBool::new(false),
            far,
            frozen: AtomicBool::new(false),
            shown: Mutex::default(),
            eviction: Mutex::new(ChosenEviction {
                kind,
                mode: GetMode::Exclusive,
                family,
            }),
            fitted: AtomicU32::new(0),
            remembered: AtomicU32::new(0),
        }
    }

    /// Returns whether the last look found that the tenant puts.
    pub(super) fn is_putting(&self) -> bool {
        self.putting.load(Ordering::Relaxed)
    }

    pub(super) fn set_put_activity(&self, activity: PutActivity) {
        let putting = activity == PutActivity::Putting;
        self.putting.store(putting, Ordering::Relaxed);
    }

    /// The shard at which to start evicting ahead, another one each time.
    pub(super) fn next_to_ready(&self) -> usize {
        self.readied.fetch_add(1, Ordering::Relaxed)
    }

    /// All shards.
    pub(crate) fn shards(&self) -> &[Mutex<Shard>] {
        &self.shards
    }

    /// Holds the lock that is held while the shards get another eviction.
    #[cfg(test)]
    pub(crate) fn hold_eviction(&self) -> impl Sized + '_ {
        self.eviction.lock()
    }

    /// The counts of each shard. Reading them locks no shard.
    pub(super) fn counts(&self) -> &TenantCounts {
        &self.counts
    }

    /// The log of the tenant's sampled pages that was not drained yet.
    pub(crate) fn samples(&self) -> &SampleLog<SampledUse> {
        &self.samples
    }

    /// Locks two shards. A thread that waits for a shard while it holds another locks them in the order of their
    /// numbers.
    pub(super) fn lock_two(
        &self,
        a: usize,
        b: usize,
    ) -> (MutexGuard<'_, Shard>, MutexGuard<'_, Shard>) {
        if a < b {
            let a = self.shards[a].lock();
            (a, self.shards[b].lock())
        } else {
            let b = self.shards[b].lock();
            (self.shards[a].lock(), b)
        }
    }

    /// The shard of an object, by its hash.
    pub(super) fn shard(&self, object: u64) -> &Mutex<Shard> {
        &self.shards[self.shard_number(object)]
    }

    /// The number of an object's shard, by its hash.
    pub(crate) fn shard_number(&self, object: u64) -> usize {
        ((u128::from(object) * self.shards.len() as u128) >> 64) as usize
    }

    /// The number of blocks of a kind.
    pub(crate) fn blocks(&self, kind: PageKind) -> u32 {
        self.blocks[kind as usize].len()
    }

    /// The blocks of a kind.
    pub(crate) fn list(&self, kind: PageKind) -> &BlockList {
        &self.blocks[kind as usize]
    }

    /// The number of blocks of both kinds.
    fn all_blocks(&self) -> u32 {
        PageKind::ALL.map(|kind| self.blocks(kind)).iter().sum()
    }

    /// Returns whether there are more pages than fit mostly into the processor's caches.
    pub(super) fn are_beyond_caches(&self) -> bool {
        self.all_blocks() >= BEYOND_CACHES
    }

    /// Returns whether a shard gave more of its pages for others than it owes.
    pub(super) fn is_overdrawn(&self, shard: &mut Shard, per_block: u32) -> bool {
        if shard.debt.is_settling_due() {
            let own = shard.frames();
            let all = self.blocks(PageKind::Ephemeral) * per_block;
            shard.debt.settle(&self.displaced, ShardShare { own, all });
        }
        shard.debt.is_overdrawn()
    }

    /// Records that a block is no longer the tenant's.
    pub(super) fn remove_block(&self, kind: PageKind, arena: &Arena, block: BlockId) {
        self.list(kind).remove(arena, block);
        self.close_block(kind, block);
    }

    /// Stops handing out frames of a block.
    pub(super) fn close_block(&self, kind: PageKind, block: BlockId) {
        let mut open = self.open[kind as usize].lock();
        if open.as_ref().is_some_and(|open| open.block == block) {
            self.clear_open_block(kind, &mut open);
        }
    }

    /// The right to open a block of a kind. `None` if one is open by then.
    pub(super) fn begin_opening(&self, kind: PageKind) -> Option<MutexGuard<'_, ()>> {
        let opening = self.opening[kind as usize].lock();
        let is_open = self.open[kind as usize].lock().is_some();
        (!is_open).then_some(opening)
    }

    /// Starts to hand out frames of `block`.
    pub(super) fn open_block(&self, kind: PageKind, arena: &Arena, block: BlockId) {
        let mut open = self.open[kind as usize].lock();
        self.list(kind).add(arena, block);
        *open = Some(OpenBlock { block, next: 0 });
        self.is_open[kind as usize].store(true, Ordering::Relaxed);
        arena.block(block).cancel_leaving();
    }

    /// Some frames of the open block, from last to first. The caller frees them in this order and so uses them in the
    /// opposite one. Pages that come in order then lie in order, which is read three times as fast. Empty if the block
    /// is used up.
    pub(super) fn some_frames(
        &self,
        kind: PageKind,
        frames: &FrameTable,
    ) -> impl Iterator<Item = FrameId> + use<> {
        let (first, count) = match self.is_open[kind as usize].load(Ordering::Relaxed) {
            true => self.hand_out(kind, frames.per_block()),
            false => (0, 0),
        };
        (first..first + count).rev().map(FrameId)
    }

    /// The first frame that is handed out next, and how many.
    fn hand_out(&self, kind: PageKind, per_block: u32) -> (u32, u32) {
        let mut open = self.open[kind as usize].lock();
        let share = self.blocks(kind).max(1) * per_block / self.shards.len() as u32;
        let batch = (share / BATCH_ONE_IN).clamp(1, BATCH_MAX);
        let Some(OpenBlock { block, next }) = &mut *open else {
            return (0, 0);
        };
        let first = block.0 * per_block + *next;
        let count = batch.min(per_block - *next);
        *next += count;
        if *next == per_block {
            self.clear_open_block(kind, &mut open);
        }
        (first, count)
    }

    fn clear_open_block(&self, kind: PageKind, open: &mut Option<OpenBlock>) {
        *open = None;
        self.is_open[kind as usize].store(false, Ordering::Relaxed);
    }

    /// Returns whether new pages are refused (R-M1).
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }

    /// The chosen eviction, and the effective one that its shards have or are getting.
    pub(crate) fn eviction(&self) -> ShownEviction {
        *self.shown.lock()
    }

    /// Chooses an eviction. If the effective one changes, every shard gets it. The pages enter it as if they were put
    /// now, oldest first.
    pub(super) fn set_eviction(&self, kind: EvictionKind, frames: &FrameTable, now: Second) {
        let mut chosen = self.eviction.lock();
        chosen.kind = kind;
        self.apply_eviction(&mut chosen, frames, now);
    }

    /// Records that one of the tenant's pools keeps pages that are read.
    pub(super) fn set_keeping(&self, frames: &FrameTable) {
        let mut chosen = self.eviction.lock();
        chosen.mode = GetMode::Keeping;
        self.apply_eviction(&mut chosen, frames, Second::default());
    }

    /// Resets everything that was set, counted and learned, for another tenant.
    pub(super) fn reset(&self, frames: &FrameTable) {
        self.set_freeze_state(FreezeState::Thawed);
        let mut chosen = self.eviction.lock();
        (chosen.kind, chosen.mode) = (EvictionKind::default(), GetMode::Exclusive);
        self.remembered.store(0, Ordering::Relaxed);
        self.show(&chosen);
        self.replace(&mut chosen, frames, Second::default());
        drop(chosen);
        self.displaced.store(0, Ordering::Relaxed);
        let shards = self.shards.iter();
        shards.for_each(|shard| shard.lock().reset());
    }

    /// Gives every shard the effective eviction, if it has another.
    fn apply_eviction(&self, chosen: &mut ChosenEviction, frames: &FrameTable, now: Second) {
        self.show(chosen);
        if chosen.family.kind() != chosen.kind.effective(chosen.mode) {
            self.replace(chosen, frames, now);
        }
    }

    fn show(&self, chosen: &ChosenEviction) {
        *self.shown.lock() = ShownEviction {
            chosen: chosen.kind,
            ruling: chosen.kind.effective(chosen.mode),
        };
    }

    fn replace(&self, chosen: &mut ChosenEviction, frames: &FrameTable, now: Second) {
        let ruling = chosen.kind.effective(chosen.mode);
        chosen.family = chosen.family.of_kind(ruling, self.shards.len());
        let fitted = self.fitted.load(Ordering::Relaxed);
        let remembered = self.remembered.load(Ordering::Relaxed);
        chosen
            .family
            .fit(fitted.into(), remembered.max(fitted).into());
        for (number, shard) in self.shards.iter().enumerate() {
            let eviction = chosen.family.eviction(number);
            shard.lock().set_eviction(eviction, frames, now);
        }
    }

    /// Fits what shards remember to the tenant's frames, if it has outgrown that or in any case, by `fitting`. The
    /// caller holds no shard.
    pub(super) fn fit(&self, per_block: u32, fitting: FitTiming) {
        let frames = self.blocks(PageKind::Ephemeral) * per_block;
        let fitted = self.fitted.load(Ordering::Relaxed);
        let remembered = self.remembered.load(Ordering::Relaxed);
        let (wanted, stays) = match fitting {
            FitTiming::Grown => (frames + frames / GROWTH_ONE_IN, remembered),
            FitTiming::Exact => (frames, remembered),
            FitTiming::Later => (frames, remembered - remembered.div_ceil(FORGOTTEN_ONE_IN)),
        };
        let stays = stays.max(frames);
        let is_due = match fitting {
            FitTiming::Grown => frames > fitted && frames <= GROWN_AT_ONCE,
            FitTiming::Exact | FitTiming::Later => frames != fitted || stays != remembered,
        };
        if !is_due {
            return;
        }
        let chosen = self.eviction.lock();
        self.fitted.store(wanted, Ordering::Relaxed);
        self.remembered.store(stays, Ordering::Relaxed);
        chosen.family.fit(wanted.into(), stays.max(wanted).into());
        let shards = self.shards.iter();
        shards.for_each(|shard| shard.lock().eviction.refresh_shared());
    }

    /// Returns whether shards have so few frames that none may lie idle in one of them.
    pub(super) fn are_shards_small(&self) -> bool {
        self.frames_of_shard() < SMALL
    }

    /// The average number of ephemeral frames per shard.
    pub(super) fn frames_of_shard(&self) -> u32 {
        self.fitted.load(Ordering::Relaxed) / self.shards.len() as u32
    }

    /// Bytes of what its shards' evictions share.
    pub(super) fn order_bytes(&self) -> u64 {
        self.eviction.lock().family.bytes()
    }

    /// Refuses new pages from now on, or takes them again.
    pub(crate) fn set_freeze_state(&self, state: FreezeState) {
        self.frozen.store(state.is_frozen(), Ordering::Release);
    }
}
