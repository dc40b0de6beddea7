//! A shard: some of a tenant's objects, under one lock.

use std::sync::Arc;

use sublet_types::Second;

use super::directory::{Directory, Keys, Standing, Whereabouts};
use super::freed_ahead::Ahead;
use super::rows::Rows;
use super::shard_debt::ShardDebt;
use super::shards_with_spare::{ShardsWithSpare, Stock};
use super::tally::Tally;
use crate::api::{SAMPLE_ONE_IN, SampledUse};
use crate::arena::{Line, PageKind};
use crate::eviction::{Eviction, Page};
use crate::frames::{FrameId, Frames, Queue, QueueId};
use crate::frames::{Key, Seed};
use crate::notes::{Notes, Room};

/// Sampled uses that wait to be drained, at the most, in each of the places that they are kept in.
const SAMPLES_MAX: usize = 1 << 16;

/// Pages that come to a shard before it tells the arena's clock of them, and evictions before it tells of its oldest.
const TOLD_AT_ONCE: u32 = 16;

/// Puts of a shard without a frame, of which one asks whether another tenant should give way.
pub(super) const ASKS_ONE_IN: u32 = 64;

/// Free frames of one kind with which a shard has some to spare: so many, or one in so many of its frames where that is fewer.
const RICH: u32 = 32;
const RICH_ONE_IN: u32 = 16;

/// It has not any more when it has less than one in so many of them.
const POOR_ONE_IN: u32 = 4;

/// What a shard is told of as.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// That it has free frames.
    has_some: bool,
    /// That it had so many that it could spare some; none where it is not.
    spare_from: u32,
}

/// A frame that a shard can spare, by how it came to be free.
pub(super) enum Spare {
    Free(FrameId),
    /// Free since a page of the tenant was evicted ahead, as if it went now.
    FreedAhead(FrameId),
    /// A page of the tenant went for it. Its block counts it as taken still.
    Displaced(FrameId),
}

impl Spare {
    pub(super) fn frame(&self) -> FrameId {
        match self {
            Spare::Free(frame) | Spare::FreedAhead(frame) | Spare::Displaced(frame) => *frame,
        }
    }
}

pub(crate) struct Shard {
    number: u8,
    pub(super) directory: Directory,
    pub(super) eviction: Box<dyn Eviction>,
    /// Frames without a page, by kind.
    pub(super) free: [Queue; 2],
    /// Those of the ephemeral ones that were evicted ahead of puts.
    pub(super) ahead: Ahead,
    /// Which shards of the tenant have free frames; what this one is told of as, by kind.
    with_spare: Arc<ShardsWithSpare>,
    told: [Told; 2],
    /// What it owes the others where pages have to go.
    pub(super) debt: ShardDebt,
    /// Persistent pages here, the longest unused last.
    pub(super) kept: Queue,
    /// Persistent pages that have a place on disk.
    pub(super) rows: Rows,
    pub(super) tally: Tally,
    /// What happens to a sample of the tenant's pages.
    samples: Arc<Notes<SampledUse>>,
    /// Pages that came since it told the arena's clock, at the most [`TOLD_AT_ONCE`].
    fresh: u32,
    /// Puts that found no frame, since the start.
    wanting: u32,
    /// Evictions when it told what goes next.
    told_at: u64,
    /// Whether nobody gave way when it asked last, though its tenant is below its floor: floors that do not fit together are
    /// cut.
    asked_in_vain: bool,
}

impl Shard {
    pub(super) fn new(
        number: u8,
        seed: Seed,
        eviction: Box<dyn Eviction>,
        with_spare: Arc<ShardsWithSpare>,
        samples: Arc<Notes<SampledUse>>,
        tally: Tally,
    ) -> Shard {
        Shard {
            number,
            directory: Directory::new(seed),
            eviction,
            free: [Queue::new(QueueId::FREE), Queue::new(QueueId::FREE)],
            ahead: Ahead::default(),
            with_spare,
            told: [Told::default(); 2],
            debt: ShardDebt::default(),
            kept: Queue::new(QueueId::KEPT),
            rows: Rows::default(),
            tally,
            samples,
            fresh: 0,
            wanting: 0,
            told_at: 0,
            asked_in_vain: false,
        }
    }

    /// Has another eviction from now on.
    pub(super) fn set_eviction(
        &mut self,
        eviction: Box<dyn Eviction>,
        frames: &Frames,
        now: Second,
    ) {
        let mut before = std::mem::replace(&mut self.eviction, eviction);
        while let Some(frame) = before.victim(frames, now) {
            let hash = frames.hash(frame);
            self.eviction.admit(Page {
                frames,
                frame,
                hash,
                now,
            });
        }
    }

    /// Counts a put without a frame. Says whether it is the one that asks whether another tenant should give way.
    pub(super) fn is_time_to_ask(&mut self) -> bool {
        let is_time = self.wanting.is_multiple_of(ASKS_ONE_IN);
        self.wanting = self.wanting.wrapping_add(1);
        self.asked_in_vain &= !is_time;
        is_time
    }

    /// Hears that nobody gave way for its tenant's floor.
    pub(super) fn note_in_vain(&mut self) {
        self.asked_in_vain = true;
    }

    /// Whether it need not ask for its tenant's floor, before it is time to.
    pub(super) fn asked_in_vain(&self) -> bool {
        self.asked_in_vain
    }

    /// Counts a page that came. Says of how many it is time to tell.
    pub(super) fn came(&mut self) -> Option<u32> {
        self.fresh += 1;
        (self.fresh >= TOLD_AT_ONCE).then(|| std::mem::take(&mut self.fresh))
    }

    /// Counts from nothing on, for another tenant.
    pub(super) fn begin_anew(&mut self) {
        self.tally.begin_anew();
        self.debt = ShardDebt::default();
        (self.told_at, self.wanting, self.asked_in_vain) = (0, 0, false);
    }

    /// Whether it is time to tell what goes next: at the first eviction, and some later.
    pub(super) fn is_time_to_tell(&mut self) -> bool {
        let told = self.told_at;
        let is_time = told == 0 || self.tally.evictions.get() >= told + u64::from(TOLD_AT_ONCE);
        self.told_at = if is_time {
            self.tally.evictions.get()
        } else {
            told
        };
        is_time
    }

    pub(super) fn number(&self) -> u8 {
        self.number
    }

    /// Takes in a free frame.
    pub(super) fn push_free(&mut self, frames: &Frames, frame: FrameId, kind: PageKind) {
        let free = &mut self.free[kind as usize];
        free.push(frames, frame);
        let (len, told) = (free.len(), self.told[kind as usize]);
        if !told.has_some {
            self.told[kind as usize].has_some = true;
            self.with_spare.set(Stock::Some, kind, self.number);
        }
        if told.spare_from == 0 && (len >= RICH || len * RICH_ONE_IN >= self.frames_of(kind)) {
            self.told[kind as usize].spare_from = len;
            self.with_spare.set(Stock::Spare, kind, self.number);
        }
    }

    /// A free frame that was taken out, by how it came to be free.
    pub(super) fn spared(&mut self, frame: FrameId, kind: PageKind) -> Spare {
        let left = self.free[kind as usize].len();
        match kind == PageKind::Ephemeral && self.ahead.take(left) {
            true => Spare::FreedAhead(frame),
            false => Spare::Free(frame),
        }
    }

    /// Takes out a free frame that is the shard's no longer.
    pub(super) fn remove_free(&mut self, frames: &Frames, frame: FrameId, kind: PageKind) {
        self.free[kind as usize].remove(frames, frame);
        if kind == PageKind::Ephemeral {
            self.ahead.bound(self.free[kind as usize].len());
        }
    }

    /// Takes out the free frame that was used last.
    pub(super) fn pop_free(&mut self, frames: &Frames, kind: PageKind) -> Option<FrameId> {
        let free = &mut self.free[kind as usize];
        let popped = free.pop_newest(frames);
        let (len, told) = (free.len(), &mut self.told[kind as usize]);
        if told.spare_from > 0 && len * POOR_ONE_IN < told.spare_from {
            told.spare_from = 0;
            self.with_spare.clear(Stock::Spare, kind, self.number);
        }
        // Told when somebody looks in vain: most that are empty have one again soon.
        if popped.is_none() && told.has_some {
            told.has_some = false;
            self.with_spare.clear(Stock::Some, kind, self.number);
        }
        popped
    }

    fn frames_of(&mut self, kind: PageKind) -> u32 {
        match kind {
            PageKind::Ephemeral => self.frames(),
            PageKind::Persistent => self.kept.len() + self.free[kind as usize].len(),
        }
    }

    /// The next shard of the tenant, from number `from` on, that has such a stock of frames of a kind; but not this one.
    pub(super) fn sibling_with(&self, stock: Stock, kind: PageKind, from: usize) -> Option<usize> {
        self.with_spare.find(stock, kind, from, self.number)
    }

    /// Frames for ephemeral pages that it has.
    pub(super) fn frames(&mut self) -> u32 {
        self.eviction.count() + self.free[PageKind::Ephemeral as usize].len()
    }

    /// Has the processor fetch what a put will touch.
    pub(super) fn expect(&self, frames: &Frames, kind: PageKind, hash: u64) {
        if let Some(frame) = self.next_frame(kind) {
            frames.expect(frame);
        }
        self.expect_ghost(hash);
    }

    /// Has the processor fetch where a page's coming or going is remembered.
    pub(super) fn expect_ghost(&self, hash: u64) {
        let line = self.eviction.ghost_line(hash);
        line.into_iter().for_each(Line::fetch);
    }

    /// Has the processor fetch what leads to a page that will go, and where that is remembered.
    pub(super) fn expect_to_go(&self, object: u64, key: Key, hash: u64) {
        self.directory.expect_slot(object, key);
        self.expect_ghost(hash);
    }

    /// The frame that the next new page of a kind will probably get: a free one, or else the next victim's.
    pub(super) fn next_frame(&self, kind: PageKind) -> Option<FrameId> {
        let free = self.free[kind as usize].head();
        match kind {
            PageKind::Ephemeral => free.or_else(|| self.eviction.next_victim()),
            PageKind::Persistent => free,
        }
    }

    /// Where a page is.
    pub(super) fn find(&self, frames: &Frames, object: u64, key: Key) -> Option<Whereabouts> {
        self.directory.get(&self.keys(frames), object, key)
    }

    /// Where a page is, or else where it would be.
    pub(super) fn look(&self, frames: &Frames, object: u64, key: Key) -> Standing {
        self.directory.look(&self.keys(frames), object, key)
    }

    pub(super) fn keys<'a>(&'a self, frames: &'a Frames) -> ShardKeys<'a> {
        ShardKeys {
            frames,
            rows: &self.rows,
            are_read: true,
        }
    }

    /// Adds a page where a look said that it would be. Nothing came or went since.
    pub(super) fn add(
        &mut self,
        frames: &Frames,
        object: u64,
        key: Key,
        standing: Standing,
        to: Whereabouts,
    ) {
        self.count_in(frames, key, to);
        let (directory, keys) = self.parts(frames);
        directory.add(&keys, object, key, standing, to);
    }

    /// Notes that a page has gone from one place to another.
    pub(super) fn set(
        &mut self,
        frames: &Frames,
        object: u64,
        key: Key,
        from: Whereabouts,
        to: Whereabouts,
    ) {
        self.count_out(frames, key, from);
        self.count_in(frames, key, to);
        let (directory, keys) = self.parts(frames);
        directory.set(&keys, object, key, to);
    }

    /// Forgets where a page is that nobody reads any more. Says where it was.
    pub(super) fn remove(&mut self, frames: &Frames, object: u64, key: Key) -> Option<Whereabouts> {
        let (directory, keys) = self.parts(frames);
        let was = directory.remove(&keys, object, key)?;
        self.count_out(frames, key, was);
        Some(was)
    }

    /// Forgets where a page is that will be read. Says where it was.
    pub(super) fn remove_to_read(
        &mut self,
        frames: &Frames,
        object: u64,
        key: Key,
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

    /// Counts a page for its pool, or among those on disk.
    fn count_in(&self, frames: &Frames, key: Key, at: Whereabouts) {
        match at {
            Whereabouts::Here(_) => frames.of_pools().came(key.pool, self.number),
            Whereabouts::OnDisk(_) => self.tally.came_on_disk(),
        }
    }

    fn count_out(&self, frames: &Frames, key: Key, was: Whereabouts) {
        match was {
            Whereabouts::Here(_) => frames.of_pools().went(key.pool, self.number),
            Whereabouts::OnDisk(_) => self.tally.left_disk(),
        }
    }

    /// The directory, to be changed, and what tells which page is where.
    fn parts<'a>(&'a mut self, frames: &'a Frames) -> (&'a mut Directory, ShardKeys<'a>) {
        let keys = ShardKeys {
            frames,
            rows: &self.rows,
            are_read: false,
        };
        (&mut self.directory, keys)
    }

    /// Notes a use of a page, if it is one of those that are followed.
    pub(super) fn sample(&mut self, hash: u64, what: SampledUse) {
        if hash.is_multiple_of(SAMPLE_ONE_IN) {
            let room = match what {
                SampledUse::Flush => Room::There,
                _ => Room::Taken,
            };
            self.samples.write(hash, what, room, SAMPLES_MAX);
        }
    }
}

/// Which page is where, in one shard.
pub(super) struct ShardKeys<'a> {
    frames: &'a Frames,
    rows: &'a Rows,
    /// Whether pages that are found are read then. To fetch one that goes would be in the way of what is written over it.
    are_read: bool,
}

impl Keys for ShardKeys<'_> {
    #[inline]
    fn expect(&self, whereabouts: Whereabouts) {
        if self.are_read
            && let Whereabouts::Here(frame) = whereabouts
        {
            self.frames.expect_page(frame);
        }
    }

    #[inline]
    fn key_at(&self, whereabouts: Whereabouts) -> Key {
        match whereabouts {
            Whereabouts::Here(frame) => self.frames.get(frame).key(),
            Whereabouts::OnDisk(page) => self.rows.key(page),
        }
    }
}
