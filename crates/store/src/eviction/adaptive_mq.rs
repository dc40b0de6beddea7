//! `adaptive-mq`: evicts by how often pages came back, for pools whose pages leave when they are read.
//!
//! ```text
//!   put, unknown ──► newcomers ─┐
//!   put, came back ► once │ twice │ 4 times │ 8 times or more   (by uses)
//!                               └─ the oldest of each, by weighted age ──► evicted, remembered
//!   get, flush ───► remembered as taken
//! ```
//!
//! Each level is in the order of puts. Of the levels' oldest pages, the one goes whose age divided by its level's
//! weight is highest. The weights lie between plain age and newcomers that count for a thirtieth. They are chosen by
//! the hits that each choice would have had on a sample of the tenant's pages (`shadows`). Uses outlive a page in
//! `history`: a page that is put again after it left was wanted.
//!
//! In a keeping pool, a use is recorded with the page. It counts when the page is about to be evicted: the page then
//! moves as if it were put again.

use std::sync::Arc;

use sublet_types::Second;

use super::history::{Departure, History, USES_MAX};
use super::rule::{Eviction, PageRef, REPRIEVES_MAX, queue};
use super::shared_order::{SharedOrder, TICK_PUTS, VictimShard, is_sampled};
use super::weights::{LEVELS, level_of, rank};
use crate::arena::PrefetchAddress;
use crate::frames::{FrameId, FrameQueue, FrameTable, QueueId};

/// Stands beside the uses of a page that is here: the page was read since it was put in its place.
const READ: u8 = USES_MAX + 1;

/// The most pages that a shard gives in addition when it was its own turn. Whose turn it is changes slowly. One in
/// [`OWN_TURNS_ONE_IN`] of the shard's pages is a limit too.
const OWN_TURNS_MAX: u32 = 7;
const OWN_TURNS_ONE_IN: u32 = 256;

pub(super) struct AdaptiveMq {
    shard: usize,
    levels: [FrameQueue; LEVELS],
    /// When the oldest page of each level was put.
    oldest: [u32; LEVELS],
    /// One bit for each level whose oldest page has left since. The new oldest page is looked up only when one has to
    /// go; its frame has been fetched by then.
    is_past: u8,
    /// The level whose oldest page was the next to go at the last look.
    next: usize,
    order: Arc<SharedOrder>,
    history: Arc<History>,
    sampled_mask: u64,
    /// Puts that the shared clock does not know of yet.
    puts: u32,
    /// The shard at which the search for another shard's page begins.
    search_start: usize,
    /// Pages that the shard gives for its own puts before it looks again which shard's turn it is.
    own_turns: u32,
}

impl AdaptiveMq {
    pub(super) fn new(shard: usize, order: Arc<SharedOrder>) -> AdaptiveMq {
        AdaptiveMq {
            shard,
            levels: std::array::from_fn(|level| queue(level as u8)),
            oldest: [0; LEVELS],
            is_past: 0,
            next: 0,
            history: order.history(),
            sampled_mask: order.sampled_mask(),
            order,
            puts: 0,
            search_start: shard,
            own_turns: 0,
        }
    }

    fn count_put(&mut self) {
        self.puts += 1;
        if self.puts == TICK_PUTS {
            self.puts = 0;
            self.order.clock.tick();
        }
    }

    fn push(&mut self, frames: &FrameTable, frame: FrameId, uses: u8) {
        let level = level_of(uses);
        let now = self.order.clock.now();
        let facts = frames.get(frame);
        facts.set_hits(uses);
        facts.set_note(now);
        self.levels[level].push(frames, frame);
        if self.levels[level].len() == 1 {
            self.oldest[level] = now;
            self.is_past &= !(1 << level);
            self.publish_first();
        }
    }

    /// Takes a page out of its level.
    fn remove(&mut self, frames: &FrameTable, frame: FrameId) {
        let level = usize::from(frames.get(frame).queue().0 - QueueId::OWN);
        if self.levels[level].tail() == Some(frame) {
            self.is_past |= 1 << level;
        }
        self.levels[level].remove(frames, frame);
        if self.levels[level].len() == 0 {
            self.publish_first();
        }
    }

    /// Looks up the oldest page of each level whose oldest has left. Returns which level is next.
    fn refresh_oldest(&mut self, frames: &FrameTable) -> Option<usize> {
        if self.is_past == 0 {
            return self.next_level().map(|(level, _)| level);
        }
        for level in (0..LEVELS).filter(|level| self.is_past & 1 << level != 0) {
            let oldest = self.levels[level].tail();
            self.oldest[level] = oldest.map_or(0, |frame| frames.get(frame).note());
        }
        self.is_past = 0;
        self.publish_first()
    }

    /// The level whose oldest page goes next, and the rank of that page.
    fn next_level(&self) -> Option<(usize, u64)> {
        let (now, ranks) = (self.order.clock.now(), self.order.ranks());
        let mut next = None;
        for (level, (pages, oldest)) in self.levels.iter().zip(self.oldest).enumerate() {
            if pages.len() == 0 {
                continue;
            }
            let rank = rank(now.wrapping_sub(oldest), level, ranks);
            if next.is_none_or(|(_, highest)| rank > highest) {
                next = Some((level, rank));
            }
        }
        next
    }

    /// Tells the other shards which page is the first to go here. Returns its level.
    fn publish_first(&mut self) -> Option<usize> {
        let level = self.next_level().map(|(level, _)| level);
        self.next = level.unwrap_or(0);
        let first = level.map(|level| (self.oldest[level], level));
        self.order.publish_first(self.shard, first);
        level
    }

    fn is_sampled(&self, hash: u64) -> bool {
        is_sampled(hash, self.sampled_mask)
    }

    /// Takes a page out and remembers it.
    fn depart(&mut self, page: PageRef<'_>, left: Departure) {
        self.remove(page.frames, page.frame);
        let uses = page.hits() & USES_MAX;
        self.history.remember(page.hash, uses, left);
    }
}

impl Eviction for AdaptiveMq {
    fn admit(&mut self, page: PageRef<'_>) {
        self.count_put();
        let known = self.history.recall(page.hash);
        let uses = known.map_or(0, |uses| (uses + 1).min(USES_MAX));
        self.push(page.frames, page.frame, uses);
        if self.is_sampled(page.hash) {
            self.order.sample_put(page.hash);
        }
    }

    fn hit(&mut self, page: PageRef<'_>) {
        page.frames.get(page.frame).set_hits(page.hits() | READ);
        if self.is_sampled(page.hash) {
            self.order.sample_get(page.hash);
            self.order.sample_put(page.hash);
        }
    }

    fn hit_exclusive(&mut self, page: PageRef<'_>) {
        self.depart(page, Departure::Taken);
        if self.is_sampled(page.hash) {
            self.order.sample_get(page.hash);
        }
    }

    fn miss(&mut self, hash: u64) {
        if self.is_sampled(hash) {
            self.order.sample_get(hash);
        }
    }

    fn forget(&mut self, page: PageRef<'_>) {
        self.depart(page, Departure::Taken);
        if self.is_sampled(page.hash) {
            self.order.sample_flush(page.hash);
        }
    }

    fn forget_absent(&mut self, hash: u64) {
        if self.is_sampled(hash) {
            self.order.sample_flush(hash);
        }
    }

    fn drop_with_block(&mut self, page: PageRef<'_>) {
        self.depart(page, Departure::Evicted);
    }

    fn victim(&mut self, frames: &FrameTable, _now: Second) -> Option<FrameId> {
        for reprieves in 0.. {
            let level = self.refresh_oldest(frames)?;
            let frame = self.levels[level].tail()?;
            self.remove(frames, frame);
            let hits = frames.get(frame).hits();
            let uses = hits & USES_MAX;
            if hits & READ == 0 || reprieves >= REPRIEVES_MAX {
                self.history
                    .remember(frames.hash(frame), uses, Departure::Evicted);
                return Some(frame);
            }
            self.push(frames, frame, (uses + 1).min(USES_MAX));
        }
        None
    }

    fn evict_along(&mut self, page: PageRef<'_>) {
        self.depart(page, Departure::Evicted);
    }

    fn queues(&mut self) -> &mut [FrameQueue] {
        &mut self.levels
    }

    fn refresh_shared(&mut self) {
        self.history = self.order.history();
        self.sampled_mask = self.order.sampled_mask();
    }

    fn ghost_line(&self, hash: u64) -> Option<PrefetchAddress> {
        self.history.line(hash)
    }

    fn next_victim(&self) -> Option<FrameId> {
        self.levels[self.next].tail()
    }

    fn oldest(&self) -> Option<FrameId> {
        let now = self.order.clock.now();
        let proven = (1..LEVELS).filter(|level| self.levels[*level].len() > 0);
        let oldest = proven.max_by_key(|level| now.wrapping_sub(self.oldest[*level]));
        self.levels[oldest.unwrap_or(0)].tail()
    }

    fn victim_shard(&mut self) -> Option<VictimShard> {
        if self.own_turns > 0 {
            self.own_turns -= 1;
            return Some(VictimShard::Own);
        }
        self.search_start = self.search_start.wrapping_add(1) % (1 << 16);
        let own = self.next_level().map(|(_, rank)| rank);
        let turn = self.order.victim_shard(own, self.search_start);
        if turn == VictimShard::Own {
            self.own_turns = (self.count() / OWN_TURNS_ONE_IN).min(OWN_TURNS_MAX);
        }
        Some(turn)
    }
}
