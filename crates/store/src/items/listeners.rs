//! Who hears of evicted items by name. While nobody listens, an eviction costs one load more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use sublet_types::{Expiry, Second};

use super::chunk_names::Names;
use super::record::{Record, Role};
use super::slot::Slot;

/// Evicted items that wait for one listener; more are missed, and counted.
pub const LISTENER_WAITING_MAX: usize = 1024;

/// An item that was evicted to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key.
    pub key: Box<[u8]>,
    /// Length of its value, bytes.
    pub value_len: u64,
    /// When it would have ceased to be.
    pub expiry: Expiry,
    /// Whether a read ever counted as a use.
    pub fetched: bool,
    /// When it was last used or stored.
    pub last_access: Second,
}

impl Evicted {
    pub(super) fn of(slot: Slot, record: &Record<'_>, last_access: Second) -> Evicted {
        let whole = record.value.len() as u64;
        let value_len = match record.fields.role {
            Role::Large => Names::read(record.value).map_or(whole, |names| names.total),
            Role::Plain | Role::Chunk => whole,
        };
        Evicted {
            key: record.fields.key.into(),
            value_len,
            expiry: record.fields.expiry,
            fetched: slot.fetched(),
            last_access,
        }
    }
}

/// Those who listen to one tenant's evictions.
#[derive(Default)]
pub(crate) struct EvictionListeners {
    count: AtomicUsize,
    listeners: Mutex<Vec<Arc<Mutex<Heard>>>>,
}

#[derive(Default)]
struct Heard {
    waiting: VecDeque<Evicted>,
    missed: u64,
}

impl EvictionListeners {
    /// Whether anybody listens.
    pub(super) fn listens(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    #[cold]
    pub(super) fn tell(&self, evicted: &Evicted) {
        for listener in self.listeners.lock().iter() {
            let mut heard = listener.lock();
            if heard.waiting.len() < LISTENER_WAITING_MAX {
                heard.waiting.push_back(evicted.clone());
            } else {
                heard.missed += 1;
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Mutex<Heard>>>)) {
        let mut listeners = self.listeners.lock();
        change(&mut listeners);
        self.count.store(listeners.len(), Ordering::Relaxed);
    }
}

/// Hears of a tenant's evictions, for as long as it lives.
pub struct EvictionListener {
    listeners: Arc<EvictionListeners>,
    heard: Arc<Mutex<Heard>>,
}

impl EvictionListener {
    pub(super) fn open(listeners: &Arc<EvictionListeners>) -> EvictionListener {
        let heard = Arc::default();
        listeners.change(|listeners| listeners.push(Arc::clone(&heard)));
        EvictionListener {
            listeners: Arc::clone(listeners),
            heard,
        }
    }

    /// Takes what was heard since the last time, and how many evictions were missed after it.
    pub fn take(&self) -> (VecDeque<Evicted>, u64) {
        let mut heard = self.heard.lock();
        let missed = std::mem::take(&mut heard.missed);
        (std::mem::take(&mut heard.waiting), missed)
    }
}

impl Drop for EvictionListener {
    fn drop(&mut self) {
        let others = |listener: &Arc<Mutex<Heard>>| !Arc::ptr_eq(listener, &self.heard);
        self.listeners.change(|listeners| listeners.retain(others));
    }
}
