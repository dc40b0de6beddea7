//! What befell a tenant's items, counted since the start.

use std::sync::atomic::{AtomicU64, Ordering};

use super::slot::Slot;

/// A tenant's counters that only the engine can move.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Items evicted to make room.
    pub(crate) evictions: Count,
    /// Of these, evicted for an item that their own tenant stored.
    pub(crate) displaced: Count,
    /// Of all of them, never hit.
    pub(crate) evicted_unfetched: Count,
    /// Expired and flushed items whose memory was taken back.
    pub(crate) reclaimed: Count,
    /// Of these, never hit.
    pub(crate) expired_unfetched: Count,
}

impl Tally {
    /// Counts anew: another tenant is counted now.
    pub(crate) fn reset(&self) {
        let all = [
            &self.evictions,
            &self.displaced,
            &self.evicted_unfetched,
            &self.reclaimed,
            &self.expired_unfetched,
        ];
        all.iter()
            .for_each(|count| count.0.store(0, Ordering::Relaxed));
    }

    /// Counts so many expired or flushed items whose memory was taken back from `slot`.
    pub(crate) fn reclaim(&self, items: u32, slot: Slot) {
        let items = u64::from(items);
        self.reclaimed.add(items);
        self.expired_unfetched
            .add(if slot.fetched() { 0 } else { items });
    }
}

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
