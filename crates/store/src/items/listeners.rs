//! Listeners that learn of evicted items by name. Without a listener, an eviction costs one extra load.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use sublet_types::{Expiry, Second};

use super::chunk_names::ChunkNames;
use super::record::{Record, Role};
use super::slot::Slot;

/// The most evicted items that wait for one listener. Further ones are dropped and counted.
pub const LISTENER_WAITING_MAX: usize = 1024;

/// An item that was evicted to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictedItem {
    /// Its key.
    pub key: Box<[u8]>,
    /// Length of its value, bytes.
    pub value_len: u64,
    /// When it would have expired.
    pub expiry: Expiry,
    /// Whether a read ever counted as a use.
    pub fetched: bool,
    /// When it was last used or stored.
    pub last_access: Second,
}

impl EvictedItem {
    pub(super) fn of(slot: Slot, record: &Record<'_>, last_access: Second) -> EvictedItem {
        let whole = record.value.len() as u64;
        let value_len = match record.fields.role {
            Role::Large => ChunkNames::read(record.value).map_or(whole, |names| names.total),
            Role::Plain | Role::Chunk => whole,
        };
        EvictedItem {
            key: record.fields.key.into(),
            value_len,
            expiry: record.fields.expiry,
            fetched: slot.is_fetched(),
            last_access,
        }
    }
}

/// The listeners to one tenant's evictions.
#[derive(Default)]
pub(crate) struct EvictionListeners {
    count: AtomicUsize,
    listeners: Mutex<Vec<Arc<Mutex<EvictionQueue>>>>,
}

#[derive(Default)]
struct EvictionQueue {
    waiting: VecDeque<EvictedItem>,
    missed: u64,
}

impl EvictionListeners {
    /// Returns whether anybody listens.
    pub(super) fn has_listeners(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    #[cold]
    pub(super) fn notify(&self, evicted: &EvictedItem) {
        for listener in self.listeners.lock().iter() {
            let mut heard = listener.lock();
            if heard.waiting.len() < LISTENER_WAITING_MAX {
                heard.waiting.push_back(evicted.clone());
            } else {
                heard.missed += 1;
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Mutex<EvictionQueue>>>)) {
        let mut listeners = self.listeners.lock();
        change(&mut listeners);
        self.count.store(listeners.len(), Ordering::Relaxed);
    }
}

/// Receives a tenant's evictions for as long as it lives.
pub struct EvictionListener {
    listeners: Arc<EvictionListeners>,
    queue: Arc<Mutex<EvictionQueue>>,
}

impl EvictionListener {
    pub(super) fn open(listeners: &Arc<EvictionListeners>) -> EvictionListener {
        let heard = Arc::default();
        listeners.change(|listeners| listeners.push(Arc::clone(&heard)));
        EvictionListener {
            listeners: Arc::clone(listeners),
            queue: heard,
        }
    }

    /// Returns the evictions since the last call, and how many were dropped after them.
    pub fn drain(&self) -> (VecDeque<EvictedItem>, u64) {
        let mut heard = self.queue.lock();
        let missed = std::mem::take(&mut heard.missed);
        (std::mem::take(&mut heard.waiting), missed)
    }
}

impl Drop for EvictionListener {
    fn drop(&mut self) {
        let others = |listener: &Arc<Mutex<EvictionQueue>>| !Arc::ptr_eq(listener, &self.queue);
        self.listeners.change(|listeners| listeners.retain(others));
    }
}
