//! What one tenant has of the page store: its shards, and the blocks that it takes frames from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use sublet_types::{EvictionKind, Second};

use super::shard::Shard;
use super::shard_debt::Part;
use super::shards_with_spare::{SHARDS_MAX, ShardsWithSpare};
use super::tally::{AllCounts, Tally};
use crate::api::SampledUse;
use crate::arena::{Arena, BlockId, BlockList, PageKind};
use crate::eviction::{Family, MakeEviction};
use crate::frames::Seed;
use crate::frames::{FrameId, Frames};
use crate::notes::Notes;

/// Who has fewer blocks of pages than this, 64 MiB, has most of them in the processor's caches: there to look ahead, or to
/// write past them, costs more than it brings.
const BEYOND_CACHES: u32 = if cfg!(test) { 1 } else { 32 };

/// Frames that a shard takes from the open block at once, where there are many.
const BATCH_MAX: u32 = 16;

/// A shard takes at most one in so many of its share of the tenant's frames at once.
const BATCH_ONE_IN: u32 = 8;

/// What grows is made one in so many larger than it has to be.
const GROWTH_ONE_IN: u32 = 16;

/// Frames for which what is remembered is made larger at once: some milliseconds. That of more is when there is time.
const GROWN_AT_ONCE: u32 = 1 << 15;

/// Of what is remembered for frames that are gone, one part in so many is forgotten at a time ([`Fitting::Later`]).
const FORGOTTEN_ONE_IN: u32 = 16;

/// Frames of a shard that are few.
const SMALL: u32 = 512;

/// When shards are fitted to what their tenant has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fitting {
    /// It has a block more: only if that is more than was reckoned with, and soon done.
    Grown,
    /// There is time.
    Exact,
    /// There is, and some time has passed: what is remembered of pages that it has no frames for any more becomes less.
    Later,
}

/// A tenant's pages.
pub(crate) struct Holdings {
    shards: Box<[Mutex<Shard>]>,
    /// What they count.
    counts: Arc<AllCounts>,
    /// What happens to a sample of the pages.
    samples: Arc<Notes<SampledUse>>,
    open: [Mutex<Option<Open>>; 2],
    /// Whether there is one: most puts that find no free frame need not lock it to see.
    is_open: [AtomicBool; 2],
    /// Held while a block of a kind is opened, so that threads that all find the last one used up open one.
    opening: [Mutex<()>; 2],
    /// Blocks of pages, by kind.
    blocks: [BlockList; 2],
    /// Ephemeral pages that went for others, as far as their shards have told.
    pub(super) displaced: AtomicU64,
    /// The shard that gave the last one to another.
    pub(super) giver: AtomicUsize,
    /// Looks for shards that have frames ready ahead of puts.
    readied: AtomicUsize,
    /// Whether the last such look found that the tenant puts.
    putting: AtomicBool,
    frozen: AtomicBool,
    eviction: Mutex<Chosen>,
    /// What of that is shown: giving shards another eviction takes its time, and nobody who looks waits for it.
    shown: Mutex<ShownEviction>,
    /// Frames for ephemeral pages that its shards were fitted for.
    fitted: AtomicU32,
    /// Pages for which the departed are remembered: no fewer than that, and more for a while after it had more.
    remembered: AtomicU32,
}

/// Which eviction was chosen, and what came of it.
struct Chosen {
    kind: EvictionKind,
    /// One of the tenant's pools keeps, or kept, pages that are read.
    keeps_read: bool,
    family: Family,
}

/// Which eviction was chosen, and which rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownEviction {
    pub(crate) chosen: EvictionKind,
    /// Never [`EvictionKind::Auto`].
    pub(crate) ruling: EvictionKind,
}

impl Default for ShownEviction {
    fn default() -> ShownEviction {
        let chosen = EvictionKind::default();
        ShownEviction {
            chosen,
            ruling: chosen.ruling(false),
        }
    }
}

/// A block whose frames are being handed out.
struct Open {
    block: BlockId,
    /// The place of the next frame.
    next: u32,
}

impl Holdings {
    pub(super) fn new(shards: usize, seed: Seed, handed_in: Option<MakeEviction>) -> Holdings {
        let with_spare = Arc::<ShardsWithSpare>::default();
        let samples = Arc::<Notes<SampledUse>>::default();
        let shards = shards.min(SHARDS_MAX);
        let counts = Arc::new(AllCounts::new(shards));
        let kind = EvictionKind::default();
        let family = Family::new(kind.ruling(false), shards, handed_in);
        let shard = |n| {
            let (with_spare, samples) = (Arc::clone(&with_spare), Arc::clone(&samples));
            let tally = Tally::new(Arc::clone(&counts), n as u8);
            let eviction = family.eviction(n);
            Mutex::new(Shard::new(
                n as u8, seed, eviction, with_spare, samples, tally,
            ))
        };
        Holdings {
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
            frozen: AtomicBool::new(false),
            shown: Mutex::default(),
            eviction: Mutex::new(Chosen {
                kind,
                keeps_read: false,
                family,
            }),
            fitted: AtomicU32::new(0),
            remembered: AtomicU32::new(0),
        }
    }

    /// Whether the last look found that the tenant puts.
    pub(super) fn is_putting(&self) -> bool {
        self.putting.load(Ordering::Relaxed)
    }

    pub(super) fn set_putting(&self, putting: bool) {
        self.putting.store(putting, Ordering::Relaxed);
    }

    /// The shard with which to begin having frames ready: another each time.
    pub(super) fn next_to_ready(&self) -> usize {
        self.readied.fetch_add(1, Ordering::Relaxed)
    }

    /// All shards.
    pub(crate) fn shards(&self) -> &[Mutex<Shard>] {
        &self.shards
    }

    /// Holds what whoever gives the shards another eviction holds.
    #[cfg(test)]
    pub(crate) fn hold_eviction(&self) -> impl Sized + '_ {
        self.eviction.lock()
    }

    /// What each shard counts; no shard is locked for it.
    pub(super) fn counts(&self) -> &AllCounts {
        &self.counts
    }

    /// What was noted of the tenant's followed pages and not drained yet.
    pub(crate) fn samples(&self) -> &Notes<SampledUse> {
        &self.samples
    }

    /// Two shards, locked. Who waits for a shard while he has another locks them in the order of their numbers.
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

    /// Blocks of a kind.
    pub(crate) fn blocks(&self, kind: PageKind) -> u32 {
        self.blocks[kind as usize].len()
    }

    /// The blocks of a kind themselves.
    pub(crate) fn list(&self, kind: PageKind) -> &BlockList {
        &self.blocks[kind as usize]
    }

    /// Blocks of both kinds.
    fn all_blocks(&self) -> u32 {
        PageKind::ALL.map(|kind| self.blocks(kind)).iter().sum()
    }

    /// Whether there are more pages than the processor's caches hold most of.
    pub(super) fn are_beyond_caches(&self) -> bool {
        self.all_blocks() >= BEYOND_CACHES
    }

    /// Whether a shard gave more of its pages for others than it owes.
    pub(super) fn is_overdrawn(&self, shard: &mut Shard, per_block: u32) -> bool {
        if shard.debt.are_due() {
            let own = shard.frames();
            let all = self.blocks(PageKind::Ephemeral) * per_block;
            shard.debt.settle(&self.displaced, Part { own, all });
        }
        shard.debt.is_overdrawn()
    }

    /// Hears that a block is the tenant's no longer.
    pub(super) fn lost_block(&self, kind: PageKind, arena: &Arena, block: BlockId) {
        self.list(kind).remove(arena, block);
        self.close(kind, block);
    }

    /// Has no more frames of a block handed out.
    pub(super) fn close(&self, kind: PageKind, block: BlockId) {
        let mut open = self.open[kind as usize].lock();
        if open.as_ref().is_some_and(|open| open.block == block) {
            self.shut(kind, &mut open);
        }
    }

    /// The right to open a block of a kind; nothing where one is open by then.
    pub(super) fn begin_opening(&self, kind: PageKind) -> Option<MutexGuard<'_, ()>> {
        let opening = self.opening[kind as usize].lock();
        let is_open = self.open[kind as usize].lock().is_some();
        (!is_open).then_some(opening)
    }

    /// Has frames handed out from `block` from now on.
    pub(super) fn open(&self, kind: PageKind, arena: &Arena, block: BlockId) {
        let mut open = self.open[kind as usize].lock();
        self.list(kind).add(arena, block);
        *open = Some(Open { block, next: 0 });
        self.is_open[kind as usize].store(true, Ordering::Relaxed);
        arena.block(block).stay();
    }

    /// Some frames of the open block, from the last to the first: who frees them in this order uses them in the other,
    /// and pages that come in order lie in order, which is read three times as fast. Empty if it is used up.
    pub(super) fn some_frames(
        &self,
        kind: PageKind,
        frames: &Frames,
    ) -> impl Iterator<Item = FrameId> + use<> {
        let (first, count) = match self.is_open[kind as usize].load(Ordering::Relaxed) {
            true => self.hand_out(kind, frames.per_block()),
            false => (0, 0),
        };
        (first..first + count).rev().map(FrameId)
    }

    /// The first of the frames that are handed out next, and how many.
    fn hand_out(&self, kind: PageKind, per_block: u32) -> (u32, u32) {
        let mut open = self.open[kind as usize].lock();
        let share = self.blocks(kind).max(1) * per_block / self.shards.len() as u32;
        let batch = (share / BATCH_ONE_IN).clamp(1, BATCH_MAX);
        let Some(Open { block, next }) = &mut *open else {
            return (0, 0);
        };
        let first = block.0 * per_block + *next;
        let count = batch.min(per_block - *next);
        *next += count;
        if *next == per_block {
            self.shut(kind, &mut open);
        }
        (first, count)
    }

    fn shut(&self, kind: PageKind, open: &mut Option<Open>) {
        *open = None;
        self.is_open[kind as usize].store(false, Ordering::Relaxed);
    }

    /// Whether new pages are refused (R-M1).
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }

    /// Which eviction was chosen for it, and which its shards have, or are being given.
    pub(crate) fn eviction(&self) -> ShownEviction {
        *self.shown.lock()
    }

    /// Chooses an eviction. Where another rules then, every shard is given it; the pages come into it as if they were put now, the oldest
    /// first.
    pub(super) fn set_eviction(&self, kind: EvictionKind, frames: &Frames, now: Second) {
        let mut chosen = self.eviction.lock();
        chosen.kind = kind;
        self.rule(&mut chosen, frames, now);
    }

    /// Hears whether one of the tenant's pools keeps pages that are read.
    pub(super) fn keep_read(&self, keeps_read: bool, frames: &Frames) {
        let mut chosen = self.eviction.lock();
        chosen.keeps_read = keeps_read;
        self.rule(&mut chosen, frames, Second::default());
    }

    /// Is as new, for another tenant: nothing of what was set, counted and learned stays.
    pub(super) fn begin_anew(&self, frames: &Frames) {
        self.freeze(false);
        let mut chosen = self.eviction.lock();
        (chosen.kind, chosen.keeps_read) = (EvictionKind::default(), false);
        self.remembered.store(0, Ordering::Relaxed);
        self.show(&chosen);
        self.replace(&mut chosen, frames, Second::default());
        drop(chosen);
        self.displaced.store(0, Ordering::Relaxed);
        let shards = self.shards.iter();
        shards.for_each(|shard| shard.lock().begin_anew());
    }

    /// Gives every shard the eviction that rules by what was chosen, if it has another.
    fn rule(&self, chosen: &mut Chosen, frames: &Frames, now: Second) {
        self.show(chosen);
        if chosen.family.kind() != chosen.kind.ruling(chosen.keeps_read) {
            self.replace(chosen, frames, now);
        }
    }

    fn show(&self, chosen: &Chosen) {
        *self.shown.lock() = ShownEviction {
            chosen: chosen.kind,
            ruling: chosen.kind.ruling(chosen.keeps_read),
        };
    }

    fn replace(&self, chosen: &mut Chosen, frames: &Frames, now: Second) {
        let ruling = chosen.kind.ruling(chosen.keeps_read);
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

    /// Has what shards remember suit the frames that the tenant has, where it has more than that was made for, or in any
    /// case. The caller holds no shard.
    pub(super) fn fit(&self, per_block: u32, fitting: Fitting) {
        let frames = self.blocks(PageKind::Ephemeral) * per_block;
        let fitted = self.fitted.load(Ordering::Relaxed);
        let remembered = self.remembered.load(Ordering::Relaxed);
        let (wanted, stays) = match fitting {
            Fitting::Grown => (frames + frames / GROWTH_ONE_IN, remembered),
            Fitting::Exact => (frames, remembered),
            Fitting::Later => (frames, remembered - remembered.div_ceil(FORGOTTEN_ONE_IN)),
        };
        let stays = stays.max(frames);
        let is_due = match fitting {
            Fitting::Grown => frames > fitted && frames <= GROWN_AT_ONCE,
            Fitting::Exact | Fitting::Later => frames != fitted || stays != remembered,
        };
        if !is_due {
            return;
        }
        let chosen = self.eviction.lock();
        self.fitted.store(wanted, Ordering::Relaxed);
        self.remembered.store(stays, Ordering::Relaxed);
        chosen.family.fit(wanted.into(), stays.max(wanted).into());
        let shards = self.shards.iter();
        shards.for_each(|shard| shard.lock().eviction.renew());
    }

    /// Whether shards have so few frames that none may lie idle in one of them.
    pub(super) fn are_shards_small(&self) -> bool {
        self.frames_of_shard() < SMALL
    }

    /// Frames for ephemeral pages that a shard has, in the mean.
    pub(super) fn frames_of_shard(&self) -> u32 {
        self.fitted.load(Ordering::Relaxed) / self.shards.len() as u32
    }

    /// Bytes of what its shards' evictions have in common.
    pub(super) fn order_bytes(&self) -> u64 {
        self.eviction.lock().family.bytes()
    }

    /// Refuses new pages from now on, or takes them again.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Release);
    }
}
