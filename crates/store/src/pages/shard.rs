//! A shard: some of a tenant's objects under one lock.

use std::sync::Arc;

use sublet_types::Second;

use super::directory::{Directory, DirectoryPosition, KeyLookup, Whereabouts};
use super::freed_ahead::FreedAhead;
use super::rows::Rows;
use super::shard_debt::ShardDebt;
use super::shards_with_spare::{ShardsWithSpare, StockLevel};
use super::tally::ShardTally;
use crate::api::{SAMPLE_ONE_IN, SampledUse};
use crate::arena::{PageKind, PrefetchAddress};
use crate::eviction::{Eviction, PageRef};
use crate::frames::{FrameId, FrameQueue, FrameTable, QueueId};
use crate::frames::{HashSeed, StoredKey};
use crate::sample_log::{NoteAllocation, SampleLog};

/// The most sampled uses that wait in each place of the log.
const SAMPLES_MAX: usize = 1 << 16;

/// Pages that arrive in a shard before it advances the arena's clock. Also evictions before it reports its oldest page.
const REPORT_EVERY: u32 = 16;

/// Of this many puts without a frame in a shard, one asks whether another tenant should give way.
pub(super) const ASK_ONE_IN: u32 = 64;

/// The number of free frames of one kind from which a shard has some to spare. If one in [`SPARE_ONE_IN`] of its frames
/// is fewer, that many suffice.
const SPARE_MIN: u32 = 32;
const SPARE_ONE_IN: u32 = 16;

/// The shard has none to spare any more when it has less than this fraction of the frames that it advertised.
const SPARE_LOST_ONE_IN: u32 = 4;

/// What a shard has advertised to its siblings.
#[derive(Clone, Copy, Debug, Default)]
struct AdvertisedStock {
    /// Whether it advertises free frames.
    has_some: bool,
    /// The number of free frames at which it advertised some to spare. 0 if it does not.
    spare_from: u32,
}

/// A frame that a shard can spare, by how it became free.
pub(super) enum SpareFrame {
    Free(FrameId),
    /// A page of the tenant was evicted ahead, which counts as if it went now.
    FreedAhead(FrameId),
    /// A page of the tenant was displaced. Its block still counts the frame as taken.
    Displaced(FrameId),
}

impl SpareFrame {
    pub(super) fn frame(&self) -> FrameId {
        match self {
            SpareFrame::Free(frame)
            | SpareFrame::FreedAhead(frame)
            | SpareFrame::Displaced(frame) => *frame,
        }
    }
}

pub(crate) struct Shard {
    number: u8,
    pub(super) directory: Directory,
    pub(super) eviction: Box<dyn Eviction>,
    /// Frames without a page, by kind.
    pub(super) free: [FrameQueue; 2],
    /// Free frames of lenders.
    pub(super) far_free: FrameQueue,
    /// Of the ephemeral ones, those that were evicted ahead of puts.
    pub(super) ahead: FreedAhead,
    /// Which shards of the tenant have free frames, and what this one has advertised, by kind.
    with_spare: Arc<ShardsWithSpare>,
    advertised: [AdvertisedStock; 2],
    /// What it owes the other shards when pages have to go.
    pub(super) debt: ShardDebt,
    /// Persistent pages in frames, the longest unused last.
    pub(super) kept: FrameQueue,
    /// Pages that have a place on disk, or need no frame.
    pub(super) rows: Rows,
    pub(super) tally: ShardTally,
    /// A log of what happens to a sample of the tenant's pages.
    samples: Arc<SampleLog<SampledUse>>,
    /// Pages that arrived since it last advanced the arena's clock. At most [`REPORT_EVERY`].
    fresh: u32,
    /// Puts that found no frame, since the start.
    wanting: u32,
    /// The count of evictions at the last report of what goes next.
    reported_at: u64,
    /// Whether nobody gave way when it last asked, though its tenant is below its floor. Floors that do not fit
    /// together are cut.
    asked_in_vain: bool,
}

impl Shard {
    pub(super) fn new(
        number: u8,
        seed: HashSeed,
        eviction: Box<dyn Eviction>,
        with_spare: Arc<ShardsWithSpare>,
        samples: Arc<SampleLog<SampledUse>>,
        tally: ShardTally,
    ) -> Shard {
        Shard {
            number,
            directory: Directory::new(seed),
            eviction,
            free: [
                FrameQueue::new(QueueId::FREE),
                FrameQueue::new(QueueId::FREE),
            ],
            far_free: FrameQueue::new(QueueId::FREE),
            ahead: FreedAhead::default(),
            with_spare,
            advertised: [AdvertisedStock::default(); 2],
            debt: ShardDebt::default(),
            kept: FrameQueue::new(QueueId::KEPT),
            rows: Rows::default(),
            tally,
            samples,
            fresh: 0,
            wanting: 0,
            reported_at: 0,
            asked_in_vain: false,
        }
    }

    /// Replaces the eviction.
    pub(super) fn set_eviction(
        &mut self,
        eviction: Box<dyn Eviction>,
        frames: &FrameTable,
        now: Second,
    ) {
        let mut before = std::mem::replace(&mut self.eviction, eviction);
        while let Some(frame) = before.victim(frames, now) {
            let hash = frames.hash(frame);
            self.eviction.admit(PageRef {
                frames,
                frame,
                hash,
                now,
            });
        }
    }

    /// Counts a put without a frame. Returns whether this is one that asks whether another tenant should give way.
    pub(super) fn is_time_to_ask(&mut self) -> bool {
        let is_time = self.wanting.is_multiple_of(ASK_ONE_IN);
        self.wanting = self.wanting.wrapping_add(1);
        self.asked_in_vain &= !is_time;
        is_time
    }

    /// Records that nobody gave way for its tenant's floor.
    pub(super) fn record_asked_in_vain(&mut self) {
        self.asked_in_vain = true;
    }

    /// Returns whether it may skip asking for its tenant's floor until it is time again.
    pub(super) fn asked_in_vain(&self) -> bool {
        self.asked_in_vain
    }

    /// Counts a page that arrived. Returns how many to report, if it is time.
    pub(super) fn count_arrival(&mut self) -> Option<u32> {
        self.fresh += 1;
        (self.fresh >= REPORT_EVERY).then(|| std::mem::take(&mut self.fresh))
    }

    /// Resets the counters for another tenant.
    pub(super) fn reset(&mut self) {
        self.tally.reset();
        self.debt = ShardDebt::default();
        (self.reported_at, self.wanting, self.asked_in_vain) = (0, 0, false);
    }

    /// Returns whether it is time to report what goes next: at the first eviction, and then after some more.
    pub(super) fn is_report_due(&mut self) -> bool {
        let reported = self.reported_at;
        let is_time =
            reported == 0 || self.tally.evictions.get() >= reported + u64::from(REPORT_EVERY);
        self.reported_at = if is_time {
            self.tally.evictions.get()
        } else {
            reported
        };
        is_time
    }

    pub(super) fn number(&self) -> u8 {
        self.number
    }

    /// Adds a free frame.
    pub(super) fn push_free(&mut self, frames: &FrameTable, frame: FrameId, kind: PageKind) {
        let free = &mut self.free[kind as usize];
        free.push(frames, frame);
        let (len, advertised) = (free.len(), self.advertised[kind as usize]);
        if !advertised.has_some {
            self.advertised[kind as usize].has_some = true;
            self.with_spare.set(StockLevel::Any, kind, self.number);
        }
        if advertised.spare_from == 0
            && (len >= SPARE_MIN || len * SPARE_ONE_IN >= self.frames_of(kind))
        {
            self.advertised[kind as usize].spare_from = len;
            self.with_spare.set(StockLevel::Spare, kind, self.number);
        }
    }

    /// A free frame that was removed, by how it became free.
    pub(super) fn as_spare(&mut self, frame: FrameId, kind: PageKind) -> SpareFrame {
        let left = self.free[kind as usize].len();
        match kind == PageKind::Ephemeral && self.ahead.record_taken(left) {
            true => SpareFrame::FreedAhead(frame),
            false => SpareFrame::Free(frame),
        }
    }

    /// Removes a free frame that is no longer the shard's.
    pub(super) fn remove_free(&mut self, frames: &FrameTable, frame: FrameId, kind: PageKind) {
        self.free[kind as usize].remove(frames, frame);
        if kind == PageKind::Ephemeral {
            self.ahead.cap(self.free[kind as usize].len());
        }
    }

    /// Removes the free frame that was used last.
    pub(super) fn pop_free(&mut self, frames: &FrameTable, kind: PageKind) -> Option<FrameId> {
        let free = &mut self.free[kind as usize];
        let popped = free.pop_newest(frames);
        let (len, advertised) = (free.len(), &mut self.advertised[kind as usize]);
        if advertised.spare_from > 0 && len * SPARE_LOST_ONE_IN < advertised.spare_from {
            advertised.spare_from = 0;
            self.with_spare.clear(StockLevel::Spare, kind, self.number);
        }
        // Withdraw the advertisement only when a look fails. Most empty shards have a free frame again soon.
        if popped.is_none() && advertised.has_some {
            advertised.has_some = false;
            self.with_spare.clear(StockLevel::Any, kind, self.number);
        }
        popped
    }

    fn frames_of(&mut self, kind: PageKind) -> u32 {
        match kind {
            PageKind::Ephemeral => self.frames(),
            PageKind::Persistent => self.kept.len() + self.free[kind as usize].len(),
        }
    }

    /// The next other shard of the tenant, from number `from` on, that has such a stock of frames of a kind.
    pub(super) fn sibling_with(
        &self,
        stock: StockLevel,
        kind: PageKind,
        from: usize,
    ) -> Option<usize> {
        self.with_spare.find(stock, kind, from, self.number)
    }

    /// The number of its frames for ephemeral pages.
    pub(super) fn frames(&mut self) -> u32 {
        self.eviction.count() + self.free[PageKind::Ephemeral as usize].len()
    }

    /// Prefetches what a put will touch.
    pub(super) fn prefetch(&self, frames: &FrameTable, kind: PageKind, hash: u64) {
        if let Some(frame) = self.next_frame(kind) {
            frames.prefetch(frame);
        }
        self.prefetch_ghost(hash);
    }

    /// Prefetches where a page's coming or going is remembered.
    pub(super) fn prefetch_ghost(&self, hash: u64) {
        let line = self.eviction.ghost_line(hash);
        line.into_iter().for_each(PrefetchAddress::fetch);
    }

    /// Prefetches what leads to a page that will go, and where that is remembered.
    pub(super) fn prefetch_victim(&self, object: u64, key: StoredKey, hash: u64) {
        self.directory.prefetch_slot(object, key);
        self.prefetch_ghost(hash);
    }

    /// The frame that the next new page of a kind will probably get: a free one, or the next victim's.
    pub(super) fn next_frame(&self, kind: PageKind) -> Option<FrameId> {
        let free = self.free[kind as usize].head();
        match kind {
            PageKind::Ephemeral => free.or_else(|| self.eviction.next_victim()),
            PageKind::Persistent => free,
        }
    }

    /// Where a page is.
    pub(super) fn find(
        &self,
        frames: &FrameTable,
        object: u64,
        key: StoredKey,
    ) -> Option<Whereabouts> {
        self.directory.get(&self.keys(frames), object, key)
    }

    /// Finds where a page is, or where it would go.
    pub(super) fn locate(
        &self,
        frames: &FrameTable,
        object: u64,
        key: StoredKey,
    ) -> DirectoryPosition {
        self.directory.locate(&self.keys(frames), object, key)
    }

    pub(super) fn keys<'a>(&'a self, frames: &'a FrameTable) -> ShardKeys<'a> {
        ShardKeys {
            frames,
            rows: &self.rows,
            are_read: true,
        }
    }

    /// Adds a page at the position that `locate` returned. No page may have come or gone since.
    pub(super) fn add(
        &mut self,
        frames: &FrameTable,
        object: u64,
        key: StoredKey,
        position: DirectoryPosition,
        to: Whereabouts,
    ) {
        self.count_in(frames, key, to);
        let (directory, keys) = self.parts(frames);
        directory.add(&keys, object, key, position, to);
    }

    /// Records that a page moved.
    pub(super) fn set(
        &mut self,
        frames: &FrameTable,
        object: u64,
        key: StoredKey,
        from: Whereabouts,
        to: Whereabouts,
    ) {
        self.count_out(frames, key, from);
        self.count_in(frames, key, to);
        let (directory, keys) = self.parts(frames);
        directory.set(&keys, object, key, to);
    }

    /// Removes a page that nobody will read. Returns where it was.
    pub(super) fn remove(
        &mut self,
        frames: &FrameTable,
        object: u64,
        key: StoredKey,
    ) -> Option<Whereabouts> {
        let (directory, keys) = self.parts(frames);
        let was = directory.remove(&keys, object, key)?;
        self.count_out(frames, key, was);
        Some(was)
    }

    /// Removes a page that will be read. Returns where it was.
    pub(super) fn remove_to_read(
        &mut self,
        frames: &FrameTable,
        object: u64,
        key: StoredKey,
    ) -> Option<Whereabouts> {
        let (directory, keys) = self.parts(frames);
        let keys = ShardKeys {
            are_read: true,
            ..keys
        };
        let was = directory.remove(&keys, object, key)?;
        self.count_out(frames, key, was);
        Some(was)
    }

    /// Counts a page for its pool, or among those that are in no frame here.
    fn count_in(&self, frames: &FrameTable, key: StoredKey, at: Whereabouts) {
        match at {
            Whereabouts::Here(_) => frames.of_pools().count_in(key.pool, self.number),
            Whereabouts::There(_) => self.tally.count_to_lender(),
            Whereabouts::Row(number) => self.tally.count_to_row(self.rows.get(number).place),
        }
    }

    fn count_out(&self, frames: &FrameTable, key: StoredKey, was: Whereabouts) {
        match was {
            Whereabouts::Here(_) => frames.of_pools().count_out(key.pool, self.number),
            Whereabouts::There(_) => self.tally.count_off_lender(),
            Whereabouts::Row(number) => self.tally.count_off_row(self.rows.get(number).place),
        }
    }

    /// The directory, for changes, and the lookup of keys.
    fn parts<'a>(&'a mut self, frames: &'a FrameTable) -> (&'a mut Directory, ShardKeys<'a>) {
        let keys = ShardKeys {
            frames,
            rows: &self.rows,
            are_read: false,
        };
        (&mut self.directory, keys)
    }

    /// Records a use of a page, if the page is sampled.
    pub(super) fn sample(&mut self, hash: u64, what: SampledUse) {
        if hash.is_multiple_of(SAMPLE_ONE_IN) {
            let room = match what {
                SampledUse::Flush => NoteAllocation::Avoided,
                _ => NoteAllocation::Allowed,
            };
            self.samples.record(hash, what, room, SAMPLES_MAX);
        }
    }
}

/// Tells which page is at a whereabouts, in one shard.
pub(super) struct ShardKeys<'a> {
    frames: &'a FrameTable,
    rows: &'a Rows,
    /// Whether pages that are found will be read. Fetching a page that goes would hinder the write over it.
    are_read: bool,
}

impl KeyLookup for ShardKeys<'_> {
    #[inline]
    fn prefetch(&self, whereabouts: Whereabouts) {
        if self.are_read
            && let Whereabouts::Here(frame) = whereabouts
        {
            self.frames.prefetch_page(frame);
        }
    }

    #[inline]
    fn key_at(&self, whereabouts: Whereabouts) -> StoredKey {
        match whereabouts {
            Whereabouts::Here(frame) => self.frames.get(frame).key(),
            Whereabouts::There(frame) => self.frames.far().get(frame).key(),
            Whereabouts::Row(number) => self.rows.key(number),
        }
    }
}
