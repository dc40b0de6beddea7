//! What shards count. Only who holds a shard's lock counts there; whoever looks reads without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::api::PageTally;

/// What one shard counts.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) puts: Count,
    pub(super) puts_succeeded: Count,
    pub(super) puts_refused: Count,
    pub(super) gets: Count,
    pub(super) hits: Count,
    pub(super) flushes: Count,
    pub(super) evictions: Count,
    pub(super) spilled: Count,
    /// Persistent pages that are on disk only, now.
    pub(super) on_disk: Count,
}

/// The counts of a tenant's shards, side by side: a look reads them in one go.
pub(super) type AllCounts = Arc<[CachePadded<Counts>]>;

/// One shard's place among them.
pub(super) struct Tally {
    all: AllCounts,
    number: u8,
}

/// A counter that one thread at a time moves, and any may read.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Tally {
    pub(super) fn new(all: AllCounts, number: u8) -> Tally {
        Tally { all, number }
    }

    /// Counts from nothing on, for another tenant. Its pages on disk are still there.
    pub(super) fn begin_anew(&self) {
        let of_past = [
            &self.puts,
            &self.puts_succeeded,
            &self.puts_refused,
            &self.gets,
            &self.hits,
            &self.flushes,
            &self.evictions,
            &self.spilled,
        ];
        of_past.iter().for_each(|count| count.set(0));
    }
}

impl std::ops::Deref for Tally {
    type Target = Counts;

    #[inline]
    fn deref(&self) -> &Counts {
        &self.all[usize::from(self.number)]
    }
}

impl Counts {
    /// Adds what the shard counted to `sum`.
    pub(super) fn add_to(&self, sum: &mut PageTally) {
        sum.puts += self.puts.get();
        sum.puts_succeeded += self.puts_succeeded.get();
        sum.puts_refused += self.puts_refused.get();
        sum.gets += self.gets.get();
        sum.hits += self.hits.get();
        sum.flushes += self.flushes.get();
        sum.evictions += self.evictions.get();
        sum.spilled += self.spilled.get();
    }
}

impl Count {
    /// One more. The caller holds the shard's lock.
    #[inline]
    pub(super) fn bump(&self) {
        self.set(self.get() + 1);
    }

    /// One fewer. The caller holds the shard's lock.
    #[inline]
    pub(super) fn drop_one(&self) {
        self.set(self.get() - 1);
    }

    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}
