//! Increments and decrements.

use sublet_store::{Entry, Marks, NewCas, NewItem, Value};
use sublet_types::Expiry;

use super::super::caller::Caller;
use super::super::map::Key;
use super::super::numbers;
use super::super::verbs::{Direction, StoreMode};
use super::super::watch_event::WatchEvent;
use super::compare::{CasOrdering, compare_cas};

/// An increment or decrement.
#[derive(Clone, Debug)]
pub(in crate::memcached) struct Delta<'a> {
    pub(in crate::memcached) key: Key<'a>,
    pub(in crate::memcached) direction: Direction,
    pub(in crate::memcached) by: u64,
    pub(in crate::memcached) compare: Option<u64>,
    /// The number and expiry of an item that is created if none is there.
    pub(in crate::memcached) initial: Option<InitialNumber>,
    /// The new expiry of the item; `None` if it stays.
    pub(in crate::memcached) expiry: Option<Expiry>,
    pub(in crate::memcached) cas: NewCas,
    pub(in crate::memcached) binary_key: bool,
}

/// The number with which a missing item is created.
#[derive(Clone, Copy, Debug)]
pub(in crate::memcached) struct InitialNumber {
    pub(in crate::memcached) number: u64,
    pub(in crate::memcached) expiry: Expiry,
}

/// The outcome of an increment or decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) enum CountOutcome {
    /// The number after the change.
    Changed {
        number: u64,
        cas: u64,
        /// The expiry of the item before the change.
        old_expiry: Expiry,
    },
    /// The item was created with its initial number.
    Created { number: u64, cas: u64 },
    /// No item is there.
    Missing,
    /// The client's cas unique was out of date.
    Exists,
    /// The value is no number.
    NotANumber,
    /// No memory was left.
    NoMemory,
}

/// The most bytes of a value that can be a number: 20 digits with white space around them.
const NUMBER_BYTES_MAX: usize = 64;

/// Increments or decrements.
pub(in crate::memcached) fn count(caller: Caller<'_>, delta: &Delta<'_>) -> CountOutcome {
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let counted = worker
        .update(tenant, delta.key.bytes(), now, |entry| {
            apply_delta(caller, entry, delta)
        })
        .unwrap_or(CountOutcome::NoMemory);
    let counters = caller.counters();
    let (hits, misses) = match delta.direction {
        Direction::Up => (&counters.incr_hits, &counters.incr_misses),
        Direction::Down => (&counters.decr_hits, &counters.decr_misses),
    };
    match counted {
        CountOutcome::Changed { .. } => hits.bump(),
        CountOutcome::Missing => misses.bump(),
        CountOutcome::Created { .. } => {
            counters.total_items.bump();
            emit_created(caller, delta);
        }
        _ => {}
    }
    counted
}

fn emit_created(caller: Caller<'_>, delta: &Delta<'_>) {
    let Some(InitialNumber { number, expiry }) = delta.initial else {
        return;
    };
    caller.instance.emit(caller.peer, || WatchEvent::Written {
        key: delta.key.bytes(),
        mode: StoreMode::Add,
        ttl: numbers::ttl(caller.tenancy.now(), expiry),
        size: itoa::Buffer::new().format(number).len(),
    });
}

fn apply_delta(caller: Caller<'_>, entry: &mut Entry<'_>, delta: &Delta<'_>) -> CountOutcome {
    let Some(item) = entry.current() else {
        return create(entry, delta);
    };
    let stale = |cas: u64| compare_cas(caller, item, cas) != CasOrdering::Same;
    if delta.compare.is_some_and(|cas| cas != 0 && stale(cas)) {
        return CountOutcome::Exists;
    }
    let Some(old) = parse_number(item.value()) else {
        return CountOutcome::NotANumber;
    };
    let number = match delta.direction {
        Direction::Up => old.wrapping_add(delta.by),
        Direction::Down => old.saturating_sub(delta.by),
    };
    let (old_expiry, flags, marks) = (item.expiry(), item.flags(), item.marks());
    let expiry = delta.expiry.unwrap_or(old_expiry);
    let mut digits = itoa::Buffer::new();
    let value: &[&[u8]] = &[digits.format(number).as_bytes()];
    let cas = entry.store(&NewItem {
        flags,
        expiry,
        marks,
        cas: delta.cas,
        value,
    });
    CountOutcome::Changed {
        number,
        cas,
        old_expiry,
    }
}

fn create(entry: &mut Entry<'_>, delta: &Delta<'_>) -> CountOutcome {
    let Some(InitialNumber { number, expiry }) = delta.initial else {
        return CountOutcome::Missing;
    };
    let marks = Marks {
        binary_key: delta.binary_key,
        ..Marks::default()
    };
    let mut digits = itoa::Buffer::new();
    let value: &[&[u8]] = &[digits.format(number).as_bytes()];
    let cas = entry.store(&NewItem {
        flags: 0,
        expiry,
        marks,
        cas: delta.cas,
        value,
    });
    CountOutcome::Created { number, cas }
}

fn parse_number(value: &Value<'_>) -> Option<u64> {
    if value.len() > NUMBER_BYTES_MAX {
        return None;
    }
    match value {
        Value::Whole(text) => numbers::loose_unsigned(text),
        Value::Chunks(pieces) => numbers::loose_unsigned(&pieces.concat()),
    }
}
