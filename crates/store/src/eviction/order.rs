//! What the shards of one tenant have in common, so that its pages leave as if they stood in one line: the clock,
//! history, shadows, and how near to leaving the first of each shard's line is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::history::History;
use super::shadows::{self, Shadows};
use super::weights::{LEVELS, RANKS, START, rank};

/// Puts that make a tick of the clock.
pub(super) const TICK_PUTS: u32 = 16;

/// Counts a tenant's puts, in ticks: its shards' ages compare, and others' puts make none of its pages older.
#[derive(Debug, Default)]
pub(super) struct Clock(AtomicU32);

impl Clock {
    pub(super) fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn tick(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Who should give a page for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The shard that is asked.
    Own,
    /// Another, by its number.
    Of(usize),
}

/// A shard's first in line, as the others see it: nobody, or when it was put, and its level.
#[repr(align(64))]
#[derive(Debug, Default)]
struct First(AtomicU64);

const LEVEL_BITS: u32 = 8;

/// A shard gives its own page where that is as near to leaving as the first of all, but for one part in so many: another shard's page
/// costs more, and to go nearer saves no miss (docs/decisions/2026-11-25-one-order-over-shards.md).
const SLACK_ONE_IN: u64 = 8;

/// What is known of the first of all becomes less by one part in so many, at one look in [`FADES_AT_ONE_IN`]: who was it has left since.
const FADES_ONE_IN: u64 = 256;
const FADES_AT_ONE_IN: usize = 16;

#[derive(Debug)]
pub(crate) struct Order {
    pub(super) clock: Clock,
    ruling: AtomicUsize,
    firsts: Box<[First]>,
    /// The rank of the first of all, as far as is known.
    highest: AtomicU64,
    history: Mutex<Arc<History>>,
    sampled_mask: AtomicU64,
    shadows: Mutex<Shadows>,
}

impl Order {
    pub(super) fn new(shards: usize) -> Order {
        Order {
            clock: Clock::default(),
            ruling: AtomicUsize::new(START),
            firsts: (0..shards).map(|_| First::default()).collect(),
            highest: AtomicU64::new(0),
            history: Mutex::default(),
            sampled_mask: AtomicU64::new(u64::MAX),
            shadows: Mutex::new(Shadows::new(1)),
        }
    }

    /// Has as large a sample as so many pages need, and history of so many. Shards have to take them over.
    pub(super) fn fit(&self, pages: u64, remembered: u64) {
        let mut history = self.history.lock();
        if let Some(fitted) = history.fitted(remembered) {
            *history = Arc::new(fitted);
        }
        let one_in = shadows::sampled_one_in(pages);
        let mask = if pages == 0 { u64::MAX } else { one_in - 1 };
        self.sampled_mask.store(mask, Ordering::Relaxed);
        let mut shadows = self.shadows.lock();
        let keeps = |name: u32| is_sampled(u64::from(name), mask);
        *shadows = shadows.fitted((pages / one_in) as u32, keeps);
        self.ruling.store(shadows.ruling(), Ordering::Relaxed);
    }

    pub(super) fn history(&self) -> Arc<History> {
        Arc::clone(&self.history.lock())
    }

    pub(super) fn sampled_mask(&self) -> u64 {
        self.sampled_mask.load(Ordering::Relaxed)
    }

    /// What a unit of age counts for, by level.
    pub(super) fn ranks(&self) -> &'static [u32; LEVELS] {
        &RANKS[self.ruling.load(Ordering::Relaxed)]
    }

    /// Tells the shadows of a sampled page that was asked for.
    pub(super) fn sample_get(&self, hash: u64) {
        let ruling = self.shadows.lock().get(hash as u32);
        self.ruling.store(ruling, Ordering::Relaxed);
    }

    pub(super) fn sample_put(&self, hash: u64) {
        self.shadows.lock().put(hash as u32);
    }

    pub(super) fn sample_flush(&self, hash: u64) {
        self.shadows.lock().flush(hash as u32);
    }

    /// A shard says who is its first in line.
    pub(super) fn note_first(&self, shard: usize, first: Option<(u32, usize)>) {
        let packed = first.map_or(0, |(put_at, level)| {
            u64::from(put_at) << LEVEL_BITS | (level as u64 + 1)
        });
        self.firsts[shard].0.store(packed, Ordering::Relaxed);
    }

    /// The rank of a shard's first in line, by what it said last; 0 where there is nobody.
    fn rank_of_first(&self, shard: usize) -> u64 {
        let packed = self.firsts[shard].0.load(Ordering::Relaxed);
        let put_at = (packed >> LEVEL_BITS) as u32;
        let age = self.clock.now().wrapping_sub(put_at);
        let level = (packed as u8).checked_sub(1);
        level.map_or(0, |level| rank(age, usize::from(level), self.ranks()))
    }

    /// Who gives a page for one that comes to a shard whose first has this rank. `luck` says where to begin to look.
    pub(super) fn whose_turn(&self, own: Option<u64>, luck: usize) -> Turn {
        let shards = self.firsts.len();
        if shards == 1 {
            return Turn::Own;
        }
        let own = own.unwrap_or(0);
        let mut highest = self.highest.load(Ordering::Relaxed);
        if luck.is_multiple_of(FADES_AT_ONE_IN) {
            highest -= highest / FADES_ONE_IN;
            self.highest.store(highest, Ordering::Relaxed);
        }
        let known = highest.max(self.rank_of_first(luck % shards)).max(own);
        if known > highest {
            self.highest.store(known, Ordering::Relaxed);
        }
        if is_near(own, known) {
            return Turn::Own;
        }
        let mut first = (own, None);
        for shard in (luck..luck + shards).map(|shard| shard % shards) {
            let rank = self.rank_of_first(shard);
            if is_near(rank, known) {
                return Turn::Of(shard);
            }
            if rank > first.0 {
                first = (rank, Some(shard));
            }
        }
        self.highest.store(first.0, Ordering::Relaxed);
        first.1.map_or(Turn::Own, Turn::Of)
    }

    /// Bytes of history, shadows and what shards say of their firsts.
    pub(super) fn bytes(&self) -> u64 {
        let firsts = size_of_val(&*self.firsts) as u64;
        self.history.lock().bytes() + self.shadows.lock().bytes() + firsts
    }
}

fn is_near(rank: u64, highest: u64) -> bool {
    rank >= highest - highest / SLACK_ONE_IN && rank > 0
}

/// Whether a page is sampled, by the low bits of its hash, which are its name in the sample, too.
pub(super) fn is_sampled(hash: u64, mask: u64) -> bool {
    hash & mask == 0
}
