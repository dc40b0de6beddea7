//! Every way to store.

use sublet_store::{Entry, Marks, NewCas, NewItem, Refused};
use sublet_types::Expiry;

use super::super::caller::Caller;
use super::super::events::{Event, StoreStatus};
use super::super::map::Key;
use super::super::numbers;
use super::super::verbs::{Mode, Older, Stored};
use super::compare::{Compared, compare};
use super::rewrite::{Pieces, remove};

/// A store, but for its value.
#[derive(Clone, Debug)]
pub(in crate::memcached) struct Store<'a> {
    pub(in crate::memcached) key: Key<'a>,
    pub(in crate::memcached) mode: Mode,
    pub(in crate::memcached) flags: u32,
    pub(in crate::memcached) expiry: Expiry,
    /// The cas unique that the client saw; append and prepend check it where it is given.
    pub(in crate::memcached) compare: Option<u64>,
    /// Whether a lower cas unique stores, too, but marks the item stale (meta flag `I`).
    pub(in crate::memcached) older: Older,
    /// Append and prepend to a missing item make one with this end (meta flag `N`).
    pub(in crate::memcached) vivify: Option<Expiry>,
    pub(in crate::memcached) cas: NewCas,
    pub(in crate::memcached) binary_key: bool,
}

impl Store<'_> {
    /// When an item that this makes ceases to be.
    fn expiry_of_new(&self) -> Expiry {
        match self.mode {
            Mode::Append | Mode::Prepend => self.vivify.unwrap_or(self.expiry),
            _ => self.expiry,
        }
    }
}

/// Stores a value.
pub(in crate::memcached) fn store(caller: Caller<'_>, new: &Store<'_>, value: &[u8]) -> Stored {
    let watched = caller.instance.watchers.any();
    let mut old = None;
    let (worker, tenant, now) = caller.tenancy.acting();
    let decided = worker.update(tenant, new.key.bytes(), now, |entry| {
        if watched {
            old = entry.current().map(|item| item.value().len());
        }
        decide(caller, entry, new, value)
    });
    let key = new.key.bytes();
    caller
        .instance
        .observed(caller.peer, || Event::Sought { key, size: old });
    caller.counters().cmd_set.bump();
    let stored = match decided {
        Ok(stored) => stored,
        Err(_) if matches!(new.mode, Mode::Append | Mode::Prepend) => Stored::Unmet,
        Err(Refused::TooLarge) => return refuse(caller, new, Stored::TooLarge),
        Err(Refused::NoMemory) => return refuse(caller, new, Stored::NoMemory),
    };
    count_stored(caller, new, stored, value.len());
    stored
}

/// Counts and tells of a store that was refused for its size or for want of memory, and removes the old item, which is out of date now.
pub(in crate::memcached) fn refuse(caller: Caller<'_>, new: &Store<'_>, why: Stored) -> Stored {
    match why {
        Stored::TooLarge => caller.counters().store_too_large.bump(),
        _ => caller.counters().store_no_memory.bump(),
    }
    caller.instance.observed(caller.peer, || Event::Stored {
        key: new.key.bytes(),
        status: StoreStatus::of(why),
        mode: new.mode,
        ttl: 0,
        size: 0,
    });
    if new.mode == Mode::Set {
        remove(caller, &new.key);
    }
    why
}

fn count_stored(caller: Caller<'_>, new: &Store<'_>, stored: Stored, len: usize) {
    let counters = caller.counters();
    if let Stored::Done { .. } = stored {
        counters.total_items.bump();
    }
    match (new.mode, stored) {
        (Mode::Cas, Stored::Done { .. }) => counters.cas_hits.bump(),
        (Mode::Cas, Stored::Exists) => counters.cas_badval.bump(),
        (Mode::Cas, Stored::NotFound) => counters.cas_misses.bump(),
        _ => {}
    }
    caller.instance.observed(caller.peer, || Event::Stored {
        key: new.key.bytes(),
        status: StoreStatus::of(stored),
        mode: new.mode,
        ttl: numbers::ttl(caller.tenancy.now(), new.expiry_of_new()),
        size: len,
    });
}

fn decide(caller: Caller<'_>, entry: &mut Entry<'_>, new: &Store<'_>, value: &[u8]) -> Stored {
    let cas_kept = caller.instance.settings.cas;
    let Some(item) = entry.current() else {
        return match new.mode {
            Mode::Set | Mode::Add => put(entry, new, new.expiry, value),
            Mode::Append | Mode::Prepend if new.vivify.is_some() => {
                put(entry, new, new.expiry_of_new(), value)
            }
            Mode::Cas => Stored::NotFound,
            _ => Stored::Unmet,
        };
    };
    match new.mode {
        Mode::Set | Mode::Replace => put(entry, new, new.expiry, value),
        Mode::Add => Stored::Unmet,
        Mode::Cas => match new.compare.map(|cas| compare(item, cas, cas_kept)) {
            Some(Compared::Same) => put(entry, new, new.expiry, value),
            Some(Compared::Older) if new.older == Older::StoresStale => {
                put_stale(entry, new, value)
            }
            _ => Stored::Exists,
        },
        Mode::Append | Mode::Prepend => match new.compare.filter(|&cas| cas != 0) {
            Some(cas) if compare(item, cas, cas_kept) != Compared::Same => Stored::Exists,
            _ => join(caller, entry, new, value),
        },
    }
}

fn put(entry: &mut Entry<'_>, new: &Store<'_>, expiry: Expiry, value: &[u8]) -> Stored {
    let marks = Marks {
        binary_key: new.binary_key,
        ..Marks::default()
    };
    write(entry, new, expiry, marks, value)
}

/// Stores under the old item's end, stale as it should be; whoever was told to refresh it stays the one.
fn put_stale(entry: &mut Entry<'_>, new: &Store<'_>, value: &[u8]) -> Stored {
    let Some(item) = entry.current() else {
        return Stored::NotFound;
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
    new: &Store<'_>,
    expiry: Expiry,
    marks: Marks,
    value: &[u8],
) -> Stored {
    let cas = entry.store(&NewItem {
        flags: new.flags,
        expiry,
        marks,
        cas: new.cas,
        value: &[value],
    });
    Stored::Done {
        cas,
        size: value.len(),
    }
}

fn join(caller: Caller<'_>, entry: &mut Entry<'_>, new: &Store<'_>, value: &[u8]) -> Stored {
    let Some(item) = entry.current() else {
        return Stored::Unmet;
    };
    let old = Pieces::of(item.value());
    let mut pieces = Vec::with_capacity(old.all().len() + 1);
    if new.mode == Mode::Prepend {
        pieces.push(value);
    }
    pieces.extend_from_slice(old.all());
    if new.mode == Mode::Append {
        pieces.push(value);
    }
    let (flags, expiry) = (item.flags(), item.expiry());
    let size = pieces.iter().map(|piece| piece.len()).sum();
    if caller.too_large(new.key.bytes().len(), flags, size) {
        return Stored::Unmet;
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
    Stored::Done { cas, size }
}
