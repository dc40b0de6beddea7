//! Counts what happened to a tenant's items since the start.

use std::sync::atomic::{AtomicU64, Ordering};

use super::slot::Slot;

/// A tenant's counters, which only the engine changes.
#[derive(Debug, Default)]
pub(crate) struct ItemTally {
    /// Items evicted to make room.
    pub(crate) evictions: AtomicCounter,
    /// Of these, evicted for an item that their own tenant stored.
    pub(crate) displaced: AtomicCounter,
    /// Of all evicted items, those that were never hit.
    pub(crate) evicted_unfetched: AtomicCounter,
    /// Expired and flushed items whose memory was taken back.
    pub(crate) reclaimed: AtomicCounter,
    /// Of these, those that were never hit.
    pub(crate) expired_unfetched: AtomicCounter,
}

impl ItemTally {
    /// Resets the counters, because another tenant is counted now.
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

    /// Counts this many expired or flushed items whose memory was reclaimed from `slot`.
    pub(crate) fn reclaim(&self, items: u32, slot: Slot) {
        let items = u64::from(items);
        self.reclaimed.add(items);
        self.expired_unfetched
            .add(if slot.is_fetched() { 0 } else { items });
    }
}

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct AtomicCounter(AtomicU64);

impl AtomicCounter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
