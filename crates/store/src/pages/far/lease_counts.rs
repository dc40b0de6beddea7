//! What became of each lease's pages. Nothing is counted on the way of a put: who carries pages counts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::lending::{LEASES_MAX, LeaseTally};

/// The counters of one lease, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LeaseCounts {
    pub(super) sent: LeaseCount,
    pub(super) lost: LeaseCount,
    pub(super) fetched: LeaseCount,
    pub(super) hits: LeaseCount,
    pub(super) gone: LeaseCount,
}

/// A count of one lease's pages.
#[derive(Debug, Default)]
pub(super) struct LeaseCount(AtomicU64);

impl LeaseCount {
    /// Counts this many more.
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl LeaseCounts {
    /// Counters for each lease that may be.
    pub(super) fn of_all() -> Box<[LeaseCounts]> {
        (0..LEASES_MAX).map(|_| LeaseCounts::default()).collect()
    }

    pub(super) fn tally(&self) -> LeaseTally {
        LeaseTally {
            sent: self.sent.get(),
            lost: self.lost.get(),
            fetched: self.fetched.get(),
            hits: self.hits.get(),
            gone: self.gone.get(),
        }
    }

    /// Begins anew for another lease of that number.
    pub(super) fn reset(&self) {
        let all = [
            &self.sent,
            &self.lost,
            &self.fetched,
            &self.hits,
            &self.gone,
        ];
        all.into_iter().for_each(LeaseCount::reset);
    }
}
