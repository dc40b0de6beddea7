//! All kinds of stores.

use sublet_store::{Entry, ItemRefused, Marks, NewCas, NewItem};
use sublet_types::Expiry;

use super::super::caller::Caller;
use super::super::map::Key;
use super::super::numbers;
use super::super::verbs::{OlderCas, StoreMode, StoreOutcome};
use super::super::watch_event::{StoreStatus, WatchEvent};
use super::compare::{CasOrdering, compare_cas};
use super::rewrite::{ValuePieces, remove};

/// A store without its value.
#[derive(Clone, Debug)]
pub(in crate::memcached) struct StoreRequest<'a> {
    pub(in crate::memcached) key: Key<'a>,
    pub(in crate::memcached) mode: StoreMode,
    pub(in crate::memcached) flags: u32,
    pub(in crate::memcached) expiry: Expiry,
    /// The cas unique that the client saw. Append and prepend check it if the client gives it.
    pub(in crate::memcached) compare: Option<u64>,
    /// Whether a lower cas unique also stores, and marks the item stale (meta flag `I`).
    pub(in crate::memcached) older_cas: OlderCas,
    /// The expiry of the item that append and prepend create if none is there (meta flag `N`).
    pub(in crate::memcached) vivify: Option<Expiry>,
    pub(in crate::memcached) cas: NewCas,
    pub(in crate::memcached) binary_key: bool,
}

impl StoreRequest<'_> {
    /// Returns when an item that this store creates expires.
    fn expiry_of_new(&self) -> Expiry {
        match self.mode {
            StoreMode::Append | StoreMode::Prepend => self.vivify.unwrap_or(self.expiry),
            _ => self.expiry,
        }
    }
}

/// Stores a value.
pub(in crate::memcached) fn store(
    caller: Caller<'_>,
    new: &StoreRequest<'_>,
    value: &[u8],
) -> StoreOutcome {
    let watched = caller.instance.watchers.any();
    let mut old = None;
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let decided = worker.update(tenant, new.key.bytes(), now, |entry| {
        if watched {
            old = entry.current().map(|item| item.value().len());
        }
        decide(caller, entry, new, value)
    });
    let key = new.key.bytes();
    caller
        .instance
        .emit(caller.peer, || WatchEvent::StoreLookup { key, size: old });
    caller.counters().cmd_set.bump();
    let stored = match decided {
        Ok(stored) => stored,
        Err(_) if matches!(new.mode, StoreMode::Append | StoreMode::Prepend) => {
            StoreOutcome::ConditionUnmet
        }
        Err(ItemRefused::TooLarge) => return refuse(caller, new, StoreOutcome::TooLarge),
        Err(ItemRefused::NoMemory) => return refuse(caller, new, StoreOutcome::NoMemory),
    };
    count_stored(caller, new, stored, value.len());
    stored
}

/// Counts and reports a store that was refused for its size or for want of memory. A refused `set` also removes the old
/// item, which is out of date now.
pub(in crate::memcached) fn refuse(
    caller: Caller<'_>,
    new: &StoreRequest<'_>,
    why: StoreOutcome,
) -> StoreOutcome {
    match why {
        StoreOutcome::TooLarge => caller.counters().store_too_large.bump(),
        _ => caller.counters().store_no_memory.bump(),
    }
    caller.instance.emit(caller.peer, || WatchEvent::Stored {
        key: new.key.bytes(),
        status: StoreStatus::of(why),
        mode: new.mode,
        ttl: 0,
        size: 0,
    });
    if new.mode == StoreMode::Set {
        remove(caller, &new.key);
    }
    why
}

fn count_stored(caller: Caller<'_>, new: &StoreRequest<'_>, stored: StoreOutcome, len: usize) {
    let counters = caller.counters();
    if let StoreOutcome::Done { .. } = stored {
        counters.total_items.bump();
    }
    match (new.mode, stored) {
        (StoreMode::Cas, StoreOutcome::Done { .. }) => counters.cas_hits.bump(),
        (StoreMode::Cas, StoreOutcome::Exists) => counters.cas_badval.bump(),
        (StoreMode::Cas, StoreOutcome::NotFound) => counters.cas_misses.bump(),
        _ => {}
    }
    caller.instance.emit(caller.peer, || WatchEvent::Stored {
        key: new.key.bytes(),
        status: StoreStatus::of(stored),
        mode: new.mode,
        ttl: numbers::ttl(caller.tenancy.now(), new.expiry_of_new()),
        size: len,
    });
}

fn decide(
    caller: Caller<'_>,
    entry: &mut Entry<'_>,
    new: &StoreRequest<'_>,
    value: &[u8],
) -> StoreOutcome {
    let Some(item) = entry.current() else {
        return match new.mode {
            StoreMode::Set | StoreMode::Add => put(entry, new, new.expiry, value),
            StoreMode::Append | StoreMode::Prepend if new.vivify.is_some() => {
                put(entry, new, new.expiry_of_new(), value)
            }
            StoreMode::Cas => StoreOutcome::NotFound,
            _ => StoreOutcome::ConditionUnmet,
        };
    };
    match new.mode {
        StoreMode::Set | StoreMode::Replace => put(entry, new, new.expiry, value),
        StoreMode::Add => StoreOutcome::ConditionUnmet,
        StoreMode::Cas => match new.compare.map(|cas| compare_cas(caller, item, cas)) {
            Some(CasOrdering::Same) => put(entry, new, new.expiry, value),
            Some(CasOrdering::Older) if new.older_cas == OlderCas::StoresStale => {
                put_stale(entry, new, value)
            }
            _ => StoreOutcome::Exists,
        },
        StoreMode::Append | StoreMode::Prepend => match new.compare.filter(|&cas| cas != 0) {
            Some(cas) if compare_cas(caller, item, cas) != CasOrdering::Same => {
                StoreOutcome::Exists
            }
            _ => join(caller, entry, new, value),
        },
    }
}

fn put(
    entry: &mut Entry<'_>,
    new: &StoreRequest<'_>,
    expiry: Expiry,
    value: &[u8],
) -> StoreOutcome {
    let marks = Marks {
        binary_key: new.binary_key,
        ..Marks::default()
    };
    write(entry, new, expiry, marks, value)
}

/// Stores a stale item with the old item's expiry. If a client was told to refresh the old item, this stays so.
fn put_stale(entry: &mut Entry<'_>, new: &StoreRequest<'_>, value: &[u8]) -> StoreOutcome {
    let Some(item) = entry.current() else {
        return StoreOutcome::NotFound;
    };
    let expiry = item.expiry();
    let marks = Marks {
        stale: true,
        token_sent: item.marks().token_sent,
        binary_key: new.binary_key,
    };
    write(entry, new, expiry, marks, value)
}

fn write(
    entry: &mut Entry<'_>,
    new: &StoreRequest<'_>,
    expiry: Expiry,
    marks: Marks,
    value: &[u8],
) -> StoreOutcome {
    let cas = entry.store(&NewItem {
        flags: new.flags,
        expiry,
        marks,
        cas: new.cas,
        value: &[value],
    });
    StoreOutcome::Done {
        cas,
        size: value.len(),
    }
}

fn join(
    caller: Caller<'_>,
    entry: &mut Entry<'_>,
    new: &StoreRequest<'_>,
    value: &[u8],
) -> StoreOutcome {
    let Some(item) = entry.current() else {
        return StoreOutcome::ConditionUnmet;
    };
    let old = ValuePieces::of(item.value());
    let mut pieces = Vec::with_capacity(old.all().len() + 1);
    if new.mode == StoreMode::Prepend {
        pieces.push(value);
    }
    pieces.extend_from_slice(old.all());
    if new.mode == StoreMode::Append {
        pieces.push(value);
    }
    let (flags, expiry) = (item.flags(), item.expiry());
    let size = pieces.iter().map(|piece| piece.len()).sum();
    if caller.too_large(new.key.bytes().len(), flags, size) {
        return StoreOutcome::ConditionUnmet;
    }
    let marks = Marks {
        binary_key: item.marks().binary_key,
        ..Marks::default()
    };
    let cas = entry.store(&NewItem {
        flags,
        expiry,
        marks,
        cas: new.cas,
        value: &pieces,
    });
    StoreOutcome::Done { cas, size }
}
