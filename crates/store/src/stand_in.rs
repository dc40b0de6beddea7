//! A map behind a lock with the store's interface: stands where the arena will.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sublet_types::{Bytes, Expiry, Second, TenantId, TenantName, TenantSettings};

use crate::api::*;

struct Kept {
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    marks: Marks,
    cas: u64,
    fetched: bool,
    last_access: Second,
}

/// The store, shared by all threads.
pub struct Store {
    settings: StoreSettings,
    limit: AtomicU64,
    cas: AtomicU64,
    tenants: Mutex<Vec<TenantSettings>>,
    items: Mutex<HashMap<(TenantId, Vec<u8>), Kept>>,
}

impl Store {
    /// A store with nothing in it.
    pub fn new(settings: StoreSettings) -> std::io::Result<Arc<Store>> {
        Ok(Arc::new(Store {
            limit: AtomicU64::new(settings.limit.0),
            settings,
            cas: AtomicU64::new(1),
            tenants: Mutex::default(),
            items: Mutex::default(),
        }))
    }

    /// A handle for one thread.
    pub fn worker(self: &Arc<Self>) -> Result<Worker, TooManyWorkers> {
        Ok(Worker {
            store: Arc::clone(self),
        })
    }

    /// Adds a tenant.
    pub fn add_tenant(&self, settings: TenantSettings) -> Result<TenantId, TenantError> {
        let mut tenants = self.tenants.lock();
        tenants.push(settings);
        Ok(TenantId(tenants.len() as u16 - 1))
    }

    /// The tenant of that name.
    pub fn tenant(&self, name: &TenantName) -> Option<TenantId> {
        let place = self.tenants.lock().iter().position(|t| t.name == *name)?;
        Some(TenantId(place as u16))
    }

    /// Changes weight, floor and ceiling.
    pub fn set_tenant(&self, id: TenantId, settings: TenantSettings) -> Result<(), TenantError> {
        self.tenants.lock()[id.0 as usize] = settings;
        Ok(())
    }

    /// Every tenant, now.
    pub fn tenants(&self) -> Vec<TenantFigures> {
        let items = self.items.lock();
        let figures = |(n, settings): (usize, &TenantSettings)| {
            let mine = items.iter().filter(|((t, _), _)| t.0 as usize == n);
            let used = mine
                .clone()
                .map(|((_, k), kept)| (k.len() + kept.value.len()) as u64)
                .sum();
            TenantFigures {
                id: TenantId(n as u16),
                settings: settings.clone(),
                held: Bytes(used),
                used: Bytes(used),
                items: mine.count() as u64,
                evictions: 0,
                evicted_unfetched: 0,
                reclaimed: 0,
                expired_unfetched: 0,
                fairness: 0.0,
            }
        };
        self.tenants
            .lock()
            .iter()
            .enumerate()
            .map(figures)
            .collect()
    }

    /// One tenant, now. Its number is one that [`add_tenant`](Store::add_tenant) gave.
    pub fn tenant_figures(&self, id: TenantId) -> TenantFigures {
        self.tenants().swap_remove(id.0.into())
    }

    /// The whole store, now.
    pub fn figures(&self) -> StoreFigures {
        let used = self.tenants().iter().map(|t| t.used).sum();
        StoreFigures {
            limit: Bytes(self.limit.load(Ordering::Relaxed)),
            held: used,
            used,
            items: self.items.lock().len() as u64,
            ..StoreFigures::default()
        }
    }

    /// Says how much the arena may hold from now on. Gives nothing back by itself: see `release`.
    pub fn set_limit(&self, limit: Bytes) {
        self.limit.store(limit.0, Ordering::Relaxed);
    }

    /// Asks the kernel for memory ahead of use: one block a call, at most 64 MiB ahead. Says whether
    /// there is more to do. For a thread of its own, so that no set waits for the kernel.
    pub fn populate(&self) -> bool {
        false
    }
}

/// One thread's handle on the store.
pub struct Worker {
    store: Arc<Store>,
}

impl Worker {
    /// The store this worker works on.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Runs `work` with all blocks held still: many reads in it pay for the pin once.
    /// Must not wait for anything.
    pub fn pinned<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Looks an item up.
    pub fn read<R>(
        &self,
        tenant: TenantId,
        key: &[u8],
        now: Second,
        reading: Reading,
        visit: impl FnOnce(&Item<'_>) -> R,
    ) -> Lookup<R> {
        let mut items = self.store.items.lock();
        let Some(kept) = items.get_mut(&(tenant, key.to_vec())) else {
            return Lookup::Miss(Absence::Unknown);
        };
        if kept.expiry.is_past(now) {
            items.remove(&(tenant, key.to_vec()));
            return Lookup::Miss(Absence::Expired);
        }
        let answer = visit(&item(key, kept, &|| kept.cas));
        if reading == Reading::Use {
            kept.fetched = true;
            kept.last_access = now;
        }
        Lookup::Hit(answer)
    }

    /// Looks at an item and changes it, with nobody in between. `decide` may run more than once;
    /// only its last run counts.
    pub fn update<R>(
        &self,
        tenant: TenantId,
        key: &[u8],
        now: Second,
        mut decide: impl FnMut(&mut Entry<'_>) -> R,
    ) -> Result<R, Refused> {
        let mut items = self.store.items.lock();
        let place = (tenant, key.to_vec());
        let old = items.get(&place).filter(|kept| !kept.expiry.is_past(now));
        let cas = old.map_or(0, |kept| kept.cas);
        let tell = || cas;
        let mut entry = Entry {
            current: old.map(|kept| item(key, kept, &tell)),
            store: &self.store,
            change: Change::None,
            now,
        };
        let answer = decide(&mut entry);
        match entry.change {
            Change::None => {}
            Change::Remove => {
                items.remove(&place);
            }
            Change::Refuse(why) => return Err(why),
            Change::Store(kept) => {
                items.insert(place, kept);
            }
        }
        Ok(answer)
    }

    /// Hides everything the tenant stored so far.
    pub fn flush(&self, tenant: TenantId) {
        self.store.items.lock().retain(|(t, _), _| *t != tenant);
    }

    /// Visits a part of a tenant's items, in no order; returns where to go on, or nothing at the end.
    /// Start with 0. An item may be seen twice or not at all where others write meanwhile.
    pub fn scan(
        &self,
        tenant: TenantId,
        cursor: u64,
        now: Second,
        mut visit: impl FnMut(&Item<'_>),
    ) -> Option<u64> {
        let _ = cursor;
        for ((t, key), kept) in self.store.items.lock().iter() {
            if *t == tenant && !kept.expiry.is_past(now) {
                visit(&item(key, kept, &|| kept.cas));
            }
        }
        None
    }

    /// Gives memory back to the kernel. Returns after the last block has left.
    pub fn release(&self, release: Release, now: Second) -> Released {
        let _ = (release, now);
        Released::default()
    }

    /// The chores of a second: expired blocks, the index's size, heat. Takes at most a millisecond.
    pub fn upkeep(&self, now: Second) {
        let _ = now;
    }
}

fn item<'a>(key: &'a [u8], kept: &'a Kept, cas: &'a dyn Fn() -> u64) -> Item<'a> {
    Item {
        key,
        value: Value::Whole(&kept.value),
        flags: kept.flags,
        expiry: kept.expiry,
        marks: kept.marks,
        cas,
        fetched: kept.fetched,
        last_access: kept.last_access,
    }
}

enum Change {
    None,
    Remove,
    Store(Kept),
    Refuse(Refused),
}

/// A key's place, held by one `update`.
pub struct Entry<'a> {
    current: Option<Item<'a>>,
    store: &'a Store,
    change: Change,
    now: Second,
}

impl<'a> Entry<'a> {
    /// The item that is there, if any.
    pub fn current(&self) -> Option<&Item<'a>> {
        self.current.as_ref()
    }

    /// Stores `new` in its place; returns its cas unique (0 unless `new.cas` says that it is told,
    /// kept or given).
    pub fn store(&mut self, new: &NewItem<'_>) -> u64 {
        let value = new.value.concat();
        if value.len() as u64 > self.store.settings.item_max.0 {
            self.change = Change::Refuse(Refused::TooLarge);
            return 0;
        }
        let cas = match new.cas {
            NewCas::Fresh | NewCas::Told => self.store.cas.fetch_add(1, Ordering::Relaxed),
            NewCas::Keep => self.current.as_ref().map_or(0, Item::cas),
            NewCas::Is(cas) => cas,
        };
        self.change = Change::Store(Kept {
            value,
            flags: new.flags,
            expiry: new.expiry,
            marks: new.marks,
            cas,
            fetched: new.cas == NewCas::Keep && self.current.as_ref().is_some_and(Item::fetched),
            last_access: self.now,
        });
        cas
    }

    /// Removes the item.
    pub fn remove(&mut self) {
        self.change = Change::Remove;
    }
}
