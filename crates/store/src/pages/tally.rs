//! What shards count. Only who holds a shard's lock counts there; whoever looks reads without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sublet_types::Pages;

use crate::api::{PageTally, Put};

/// What one shard counts: a line of the cache, for a look reads those of all shards of all tenants.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counts {
    /// Puts, by what became of each.
    stored: Count,
    displaced: Count,
    refused: Count,
    pub(super) gets: Count,
    pub(super) hits: Count,
    pub(super) flushes: Count,
    pub(super) evictions: Count,
    pub(super) spilled: Count,
}

const _: () = assert!(size_of::<Counts>() == 64);

/// What a tenant's shards count, side by side.
pub(super) struct AllCounts {
    shards: Box<[Counts]>,
    /// Persistent pages that are on disk only, now. They come and go by way of the disk, so that one counter does for all shards.
    on_disk: AtomicU64,
}

/// One shard's place among them.
pub(super) struct Tally {
    all: Arc<AllCounts>,
    number: u8,
}

/// A counter that one thread at a time moves, and any may read.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl AllCounts {
    pub(super) fn new(shards: usize) -> AllCounts {
        AllCounts {
            shards: (0..shards).map(|_| Counts::default()).collect(),
            on_disk: AtomicU64::new(0),
        }
    }

    /// The sum over all shards, now.
    pub(super) fn sum(&self) -> PageTally {
        let mut sum = PageTally::default();
        self.shards
            .iter()
            .for_each(|counts| counts.add_to(&mut sum));
        sum
    }

    pub(super) fn on_disk(&self) -> Pages {
        Pages(self.on_disk.load(Ordering::Relaxed))
    }
}

impl Tally {
    pub(super) fn new(all: Arc<AllCounts>, number: u8) -> Tally {
        Tally { all, number }
    }

    /// Counts from nothing on, for another tenant. Its pages on disk are still there.
    pub(super) fn begin_anew(&self) {
        let of_past = [
            &self.stored,
            &self.displaced,
            &self.refused,
            &self.gets,
            &self.hits,
            &self.flushes,
            &self.evictions,
            &self.spilled,
        ];
        of_past.iter().for_each(|count| count.set(0));
    }

    /// Counts a put by what became of it.
    #[inline]
    pub(super) fn count_put(&self, put: Put) {
        match put {
            Put::Stored | Put::Replaced => self.stored.bump(),
            Put::Displaced => self.displaced.bump(),
            Put::Refused(_) => self.refused.bump(),
        }
    }

    /// Counts a page that is on disk only from now on.
    pub(super) fn came_on_disk(&self) {
        self.all.on_disk.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that is so no more.
    pub(super) fn left_disk(&self) {
        self.all.on_disk.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::ops::Deref for Tally {
    type Target = Counts;

    #[inline]
    fn deref(&self) -> &Counts {
        &self.all.shards[usize::from(self.number)]
    }
}

impl Counts {
    /// Adds what the shard counted to `sum`.
    fn add_to(&self, sum: &mut PageTally) {
        let stored = self.stored.get();
        let refused = self.refused.get();
        sum.puts += stored + refused + self.displaced.get();
        sum.puts_succeeded += stored;
        sum.puts_refused += refused;
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

    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}
