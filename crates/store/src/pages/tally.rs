//! What shards count. Only the holder of a shard's lock counts there. Readers need no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sublet_types::Pages;

use super::rows::RowPlace;
use crate::api::{PageTally, PutOutcome};

/// One shard's counts. They take one cache line, because a reader reads those of all shards of all tenants.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct ShardCounts {
    /// Puts, by outcome.
    stored: OwnedCounter,
    displaced: OwnedCounter,
    refused: OwnedCounter,
    pub(super) gets: OwnedCounter,
    pub(super) hits: OwnedCounter,
    pub(super) flushes: OwnedCounter,
    pub(super) evictions: OwnedCounter,
    pub(super) spilled: OwnedCounter,
}

const _: () = assert!(size_of::<ShardCounts>() == 64);

/// The counts of a tenant's shards, side by side.
pub(super) struct TenantCounts {
    shards: Box<[ShardCounts]>,
    /// Persistent pages that are on disk only, now. They come and go through the disk, so one counter serves all
    /// shards.
    on_disk: AtomicU64,
    /// Pages whose words are all equal, now. They need no frame.
    same_filled: AtomicU64,
    /// Pages that lenders have, or that are on their way there, now.
    at_lenders: AtomicU64,
    /// Evictions of pools whose sending was not allowed. One counter serves all shards, because most evictions are not
    /// such.
    unsendable: AtomicU64,
}

/// One shard's handle on its counts.
pub(super) struct ShardTally {
    all: Arc<TenantCounts>,
    number: u8,
}

/// A counter that one thread at a time changes and any thread may read.
#[derive(Debug, Default)]
pub(super) struct OwnedCounter(AtomicU64);

impl TenantCounts {
    pub(super) fn new(shards: usize) -> TenantCounts {
        TenantCounts {
            shards: (0..shards).map(|_| ShardCounts::default()).collect(),
            on_disk: AtomicU64::new(0),
            same_filled: AtomicU64::new(0),
            at_lenders: AtomicU64::new(0),
            unsendable: AtomicU64::new(0),
        }
    }

    /// The sum over all shards now.
    pub(super) fn sum(&self) -> PageTally {
        let mut sum = PageTally {
            unsendable: self.unsendable.load(Ordering::Relaxed),
            ..PageTally::default()
        };
        self.shards
            .iter()
            .for_each(|counts| counts.add_to(&mut sum));
        sum
    }

    /// The count of pages that are in such a place and in no frame.
    fn in_rows(&self, place: RowPlace) -> Option<&AtomicU64> {
        match place {
            RowPlace::Disk(_) => Some(&self.on_disk),
            RowPlace::Filled(..) => Some(&self.same_filled),
            RowPlace::Vacant => None,
        }
    }

    pub(super) fn at_lenders(&self) -> Pages {
        Pages(self.at_lenders.load(Ordering::Relaxed))
    }

    pub(super) fn same_filled(&self) -> Pages {
        Pages(self.same_filled.load(Ordering::Relaxed))
    }

    pub(super) fn on_disk(&self) -> Pages {
        Pages(self.on_disk.load(Ordering::Relaxed))
    }
}

impl ShardTally {
    pub(super) fn new(all: Arc<TenantCounts>, number: u8) -> ShardTally {
        ShardTally { all, number }
    }

    /// Resets the counts for another tenant. Its pages on disk are still there.
    pub(super) fn reset(&self) {
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
        self.all.unsendable.store(0, Ordering::Relaxed);
    }

    /// Counts a put by its outcome.
    #[inline]
    pub(super) fn count_put(&self, put: PutOutcome) {
        match put {
            PutOutcome::Stored | PutOutcome::Replaced => self.stored.bump(),
            PutOutcome::Displaced => self.displaced.bump(),
            PutOutcome::Refused(_) => self.refused.bump(),
        }
    }

    /// Counts an eviction of a pool whose sending is not allowed.
    pub(super) fn count_unsendable(&self) {
        self.all.unsendable.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a page that is in no frame from now on.
    pub(super) fn count_to_row(&self, place: RowPlace) {
        if let Some(count) = self.all.in_rows(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a page that a lender has from now on.
    pub(super) fn count_to_lender(&self) {
        self.all.at_lenders.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a page that no lender has any more.
    pub(super) fn count_off_lender(&self) {
        self.all.at_lenders.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a page that leaves its row, for a frame or for good.
    pub(super) fn count_off_row(&self, place: RowPlace) {
        if let Some(count) = self.all.in_rows(place) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl std::ops::Deref for ShardTally {
    type Target = ShardCounts;

    #[inline]
    fn deref(&self) -> &ShardCounts {
        &self.all.shards[usize::from(self.number)]
    }
}

impl ShardCounts {
    /// Adds the shard's counts to `sum`.
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

impl OwnedCounter {
    /// Adds one. The caller holds the shard's lock.
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
