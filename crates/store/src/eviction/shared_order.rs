//! What the shards of one tenant share, so that its pages leave as if they stood in one line. This is the clock, the
//! history, the shadows, and how near to leaving each shard's first page is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::history::History;
use super::shadows::{self, Shadows};
use super::weights::{LEVELS, RANKS, START, rank};

/// Puts per tick of the clock.
pub(super) const TICK_PUTS: u32 = 16;

/// Counts a tenant's puts in ticks. So ages compare between its shards, and other tenants' puts make none of its pages
/// older.
#[derive(Debug, Default)]
pub(super) struct PutClock(AtomicU32);

impl PutClock {
    pub(super) fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn tick(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The shard that should give a page for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimShard {
    /// The shard that asks.
    Own,
    /// Another shard, by its number.
    Other(usize),
}

/// The first page in a shard's line, as the other shards see it: none, or when it was put and its level.
#[repr(align(64))]
#[derive(Debug, Default)]
struct FirstInLine(AtomicU64);

const LEVEL_BITS: u32 = 8;

/// A shard gives its own page if the page is as near to leaving as the first of all, less this fraction. Another
/// shard's page costs more, and a smaller fraction saves no miss (docs/decisions/2026-11-25-one-order-over-shards.md).
const SLACK_ONE_IN: u64 = 8;

/// The known rank of the first of all fades by this fraction at one look in [`FADES_AT_ONE_IN`], because that page has
/// left since.
const FADES_ONE_IN: u64 = 256;
const FADES_AT_ONE_IN: usize = 16;

#[derive(Debug)]
pub(crate) struct SharedOrder {
    pub(super) clock: PutClock,
    ruling: AtomicUsize,
    firsts: Box<[FirstInLine]>,
    /// The rank of the first of all, as far as it is known.
    highest: AtomicU64,
    history: Mutex<Arc<History>>,
    sampled_mask: AtomicU64,
    shadows: Mutex<Shadows>,
}

impl SharedOrder {
    pub(super) fn new(shards: usize) -> SharedOrder {
        SharedOrder {
            clock: PutClock::default(),
            ruling: AtomicUsize::new(START),
            firsts: (0..shards).map(|_| FirstInLine::default()).collect(),
            highest: AtomicU64::new(0),
            history: Mutex::default(),
            sampled_mask: AtomicU64::new(u64::MAX),
            shadows: Mutex::new(Shadows::new(1)),
        }
    }

    /// Fits the sample to this many pages and the history to `remembered`. The shards have to adopt them afterwards.
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

    /// Reports a get of a sampled page to the shadows.
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

    /// Publishes the first page in a shard's line.
    pub(super) fn publish_first(&self, shard: usize, first: Option<(u32, usize)>) {
        let packed = first.map_or(0, |(put_at, level)| {
            u64::from(put_at) << LEVEL_BITS | (level as u64 + 1)
        });
        self.firsts[shard].0.store(packed, Ordering::Relaxed);
    }

    /// The rank of a shard's first page, as it was published last. 0 if it has none.
    fn rank_of_first(&self, shard: usize) -> u64 {
        let packed = self.firsts[shard].0.load(Ordering::Relaxed);
        let put_at = (packed >> LEVEL_BITS) as u32;
        let age = self.clock.now().wrapping_sub(put_at);
        let level = (packed as u8).checked_sub(1);
        level.map_or(0, |level| rank(age, usize::from(level), self.ranks()))
    }

    /// The shard that gives a page for one that comes to a shard whose first page has this rank. `random` chooses where
    /// the search starts.
    pub(super) fn victim_shard(&self, own: Option<u64>, random: usize) -> VictimShard {
        let shards = self.firsts.len();
        if shards == 1 {
            return VictimShard::Own;
        }
        let own = own.unwrap_or(0);
        let mut highest = self.highest.load(Ordering::Relaxed);
        if random.is_multiple_of(FADES_AT_ONE_IN) {
            highest -= highest / FADES_ONE_IN;
            self.highest.store(highest, Ordering::Relaxed);
        }
        let known = highest.max(self.rank_of_first(random % shards)).max(own);
        if known > highest {
            self.highest.store(known, Ordering::Relaxed);
        }
        if is_near(own, known) {
            return VictimShard::Own;
        }
        let mut first = (own, None);
        for shard in (random..random + shards).map(|shard| shard % shards) {
            let rank = self.rank_of_first(shard);
            if is_near(rank, known) {
                return VictimShard::Other(shard);
            }
            if rank > first.0 {
                first = (rank, Some(shard));
            }
        }
        self.highest.store(first.0, Ordering::Relaxed);
        first.1.map_or(VictimShard::Own, VictimShard::Other)
    }

    /// Bytes of the history, the shadows and the published first pages.
    pub(super) fn bytes(&self) -> u64 {
        let firsts = size_of_val(&*self.firsts) as u64;
        self.history.lock().bytes() + self.shadows.lock().bytes() + firsts
    }
}

fn is_near(rank: u64, highest: u64) -> bool {
    rank >= highest - highest / SLACK_ONE_IN && rank > 0
}

/// Returns whether a page is sampled. The low bits of its hash decide; they are also its name in the sample.
pub(super) fn is_sampled(hash: u64, mask: u64) -> bool {
    hash & mask == 0
}
