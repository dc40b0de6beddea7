//! Who hears of evicted items by name. While nobody listens, an eviction costs one load more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use sublet_types::{Expiry, Second};

use super::chunk_names::Names;
use super::record::{Record, Role};
use super::slot::Slot;

/// Evicted items that wait for one ear; more are missed, and counted.
pub const AUDIENCE_WAITING_MAX: usize = 1024;

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
pub(crate) struct Audience {
    count: AtomicUsize,
    ears: Mutex<Vec<Arc<Mutex<Heard>>>>,
}

#[derive(Default)]
struct Heard {
    waiting: VecDeque<Evicted>,
    missed: u64,
}

impl Audience {
    /// Whether anybody listens.
    pub(super) fn listens(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    #[cold]
    pub(super) fn tell(&self, evicted: &Evicted) {
        for ear in self.ears.lock().iter() {
            let mut heard = ear.lock();
            if heard.waiting.len() < AUDIENCE_WAITING_MAX {
                heard.waiting.push_back(evicted.clone());
            } else {
                heard.missed += 1;
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Mutex<Heard>>>)) {
        let mut ears = self.ears.lock();
        change(&mut ears);
        self.count.store(ears.len(), Ordering::Relaxed);
    }
}

/// Hears of a tenant's evictions, for as long as it lives.
pub struct Ear {
    audience: Arc<Audience>,
    heard: Arc<Mutex<Heard>>,
}

impl Ear {
    pub(super) fn open(audience: &Arc<Audience>) -> Ear {
        let heard = Arc::default();
        audience.change(|ears| ears.push(Arc::clone(&heard)));
        Ear {
            audience: Arc::clone(audience),
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

impl Drop for Ear {
    fn drop(&mut self) {
        let others = |ear: &Arc<Mutex<Heard>>| !Arc::ptr_eq(ear, &self.heard);
        self.audience.change(|ears| ears.retain(others));
    }
}
