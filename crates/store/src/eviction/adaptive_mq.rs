//! `adaptive-mq`: for pools whose pages leave when they are read, by how often their owner came back for them.
//!
//! ```text
//!   put, unknown ──► newcomers ─┐
//!   put, came back ► once │ twice │ 4 times │ 8 times or more   (by uses)
//!                               └─ the oldest of each, by weighted age ──► evicted, remembered
//!   get, flush ───► remembered as taken
//! ```
//!
//! Each level is in the order of puts. Of the levels' oldest pages goes the one whose age, divided by its level's weight, is the highest. What
//! weights there are, between plain age and newcomers that count for a thirtieth, is chosen by what each would have had of a sample
//! of the tenant's pages (`shadows`). Uses outlive a page in `history`: a page that is put again after it left was wanted.
//!
//! In a keeping pool a use is noted with the page, and counted when its turn to leave comes: it is put again, so to speak.

use std::sync::Arc;

use sublet_types::Second;

use super::history::{History, Left, USES_MAX};
use super::order::{Order, TICK_PUTS, Turn, is_sampled};
use super::rule::{Eviction, Page, REPRIEVES_MAX, queue};
use super::weights::{LEVELS, level_of, rank};
use crate::arena::Line;
use crate::frames::{FrameId, Frames, Queue, QueueId};

/// Beside the uses of a page that is here: it was read since it was put in its place.
const READ: u8 = USES_MAX + 1;

/// Whose turn it is changes slowly: where it was the shard's own, it is for so many pages more, at the most, and for one in so many of its pages.
const OWN_TURNS_MAX: u32 = 7;
const OWN_TURNS_ONE_IN: u32 = 256;

pub(super) struct AdaptiveMq {
    shard: usize,
    levels: [Queue; LEVELS],
    /// When the oldest page of each level was put.
    oldest: [u32; LEVELS],
    /// Levels whose oldest has left since; a bit each. Who is the oldest now is looked at when one has to go: by then its frame is fetched.
    is_past: u8,
    /// The level whose oldest was the next to go when that was looked at last.
    next: usize,
    order: Arc<Order>,
    history: Arc<History>,
    sampled_mask: u64,
    /// Puts since the clock was told of some.
    puts: u32,
    /// Where to begin to look for another shard's page.
    luck: usize,
    /// Pages that it gives for its own puts before it looks again whose turn it is.
    own_turns: u32,
}

impl AdaptiveMq {
    pub(super) fn new(shard: usize, order: Arc<Order>) -> AdaptiveMq {
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
            luck: shard,
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

    fn push(&mut self, frames: &Frames, frame: FrameId, uses: u8) {
        let level = level_of(uses);
        let now = self.order.clock.now();
        let facts = frames.get(frame);
        facts.set_hits(uses);
        facts.set_note(now);
        self.levels[level].push(frames, frame);
        if self.levels[level].len() == 1 {
            self.oldest[level] = now;
            self.is_past &= !(1 << level);
            self.note_first();
        }
    }

    /// Takes a page out of its level.
    fn remove(&mut self, frames: &Frames, frame: FrameId) {
        let level = usize::from(frames.get(frame).queue().0 - QueueId::OWN);
        if self.levels[level].tail() == Some(frame) {
            self.is_past |= 1 << level;
        }
        self.levels[level].remove(frames, frame);
        if self.levels[level].len() == 0 {
            self.note_first();
        }
    }

    /// Looks who is the oldest where the one that was has left. Says which level is next.
    fn look_at_oldest(&mut self, frames: &Frames) -> Option<usize> {
        if self.is_past == 0 {
            return self.next_level().map(|(level, _)| level);
        }
        for level in (0..LEVELS).filter(|level| self.is_past & 1 << level != 0) {
            let oldest = self.levels[level].tail();
            self.oldest[level] = oldest.map_or(0, |frame| frames.get(frame).note());
        }
        self.is_past = 0;
        self.note_first()
    }

    /// The level whose oldest page goes next, and its rank.
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

    /// Tells the other shards which page is the first here. Says of which level it is.
    fn note_first(&mut self) -> Option<usize> {
        let level = self.next_level().map(|(level, _)| level);
        self.next = level.unwrap_or(0);
        let first = level.map(|level| (self.oldest[level], level));
        self.order.note_first(self.shard, first);
        level
    }

    fn is_sampled(&self, hash: u64) -> bool {
        is_sampled(hash, self.sampled_mask)
    }

    /// Takes a page out and remembers it.
    fn leave(&mut self, page: Page<'_>, left: Left) {
        self.remove(page.frames, page.frame);
        let uses = page.hits() & USES_MAX;
        self.history.remember(page.hash, uses, left);
    }
}

impl Eviction for AdaptiveMq {
    fn admit(&mut self, page: Page<'_>) {
        self.count_put();
        let known = self.history.recall(page.hash);
        let uses = known.map_or(0, |uses| (uses + 1).min(USES_MAX));
        self.push(page.frames, page.frame, uses);
        if self.is_sampled(page.hash) {
            self.order.sample_put(page.hash);
        }
    }

    fn hit(&mut self, page: Page<'_>) {
        page.frames.get(page.frame).set_hits(page.hits() | READ);
        if self.is_sampled(page.hash) {
            self.order.sample_get(page.hash);
            self.order.sample_put(page.hash);
        }
    }

    fn take(&mut self, page: Page<'_>) {
        self.leave(page, Left::Taken);
        if self.is_sampled(page.hash) {
            self.order.sample_get(page.hash);
        }
    }

    fn miss(&mut self, hash: u64) {
        if self.is_sampled(hash) {
            self.order.sample_get(hash);
        }
    }

    fn forget(&mut self, page: Page<'_>) {
        self.leave(page, Left::Taken);
        if self.is_sampled(page.hash) {
            self.order.sample_flush(page.hash);
        }
    }

    fn forget_absent(&mut self, hash: u64) {
        if self.is_sampled(hash) {
            self.order.sample_flush(hash);
        }
    }

    fn lose(&mut self, page: Page<'_>) {
        self.leave(page, Left::Evicted);
    }

    fn victim(&mut self, frames: &Frames, _now: Second) -> Option<FrameId> {
        for reprieves in 0.. {
            let level = self.look_at_oldest(frames)?;
            let frame = self.levels[level].tail()?;
            self.remove(frames, frame);
            let hits = frames.get(frame).hits();
            let uses = hits & USES_MAX;
            if hits & READ == 0 || reprieves >= REPRIEVES_MAX {
                self.history
                    .remember(frames.hash(frame), uses, Left::Evicted);
                return Some(frame);
            }
            self.push(frames, frame, (uses + 1).min(USES_MAX));
        }
        None
    }

    fn go_along(&mut self, page: Page<'_>) {
        self.leave(page, Left::Evicted);
    }

    fn queues(&mut self) -> &mut [Queue] {
        &mut self.levels
    }

    fn renew(&mut self) {
        self.history = self.order.history();
        self.sampled_mask = self.order.sampled_mask();
    }

    fn ghost_line(&self, hash: u64) -> Option<Line> {
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

    fn whose_turn(&mut self) -> Option<Turn> {
        if self.own_turns > 0 {
            self.own_turns -= 1;
            return Some(Turn::Own);
        }
        self.luck = self.luck.wrapping_add(1) % (1 << 16);
        let own = self.next_level().map(|(_, rank)| rank);
        let turn = self.order.whose_turn(own, self.luck);
        if turn == Turn::Own {
            self.own_turns = (self.count() / OWN_TURNS_ONE_IN).min(OWN_TURNS_MAX);
        }
        Some(turn)
    }
}
