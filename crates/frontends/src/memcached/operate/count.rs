//! Increments and decrements.

use sublet_store::{Entry, Marks, NewCas, NewItem, Value};
use sublet_types::Expiry;

use super::super::caller::Caller;
use super::super::events::Event;
use super::super::map::Key;
use super::super::numbers;
use super::super::verbs::{Direction, Mode};
use super::compare::{Compared, compare};

/// An increment or decrement.
#[derive(Clone, Debug)]
pub(in crate::memcached) struct Delta<'a> {
    pub(in crate::memcached) key: Key<'a>,
    pub(in crate::memcached) direction: Direction,
    pub(in crate::memcached) by: u64,
    pub(in crate::memcached) compare: Option<u64>,
    /// What a missing item becomes.
    pub(in crate::memcached) seed: Option<Seed>,
    /// Another end for the item.
    pub(in crate::memcached) expiry: Option<Expiry>,
    pub(in crate::memcached) cas: NewCas,
    pub(in crate::memcached) binary_key: bool,
}

/// A number to begin with.
#[derive(Clone, Copy, Debug)]
pub(in crate::memcached) struct Seed {
    pub(in crate::memcached) number: u64,
    pub(in crate::memcached) expiry: Expiry,
}

/// What became of an increment or decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) enum Counted {
    /// The number now.
    To {
        number: u64,
        cas: u64,
        /// The item's end until now.
        old_expiry: Expiry,
    },
    /// Begun with its seed.
    Seeded { number: u64, cas: u64 },
    /// No item.
    Missing,
    /// The cas unique was out of date.
    Exists,
    /// The value is no number.
    NotANumber,
    /// No memory.
    NoMemory,
}

/// The most bytes of a value that can be a number: 20 digits with white space around them.
const NUMBER_BYTES_MAX: usize = 64;

/// Increments or decrements.
pub(in crate::memcached) fn count(caller: Caller<'_>, delta: &Delta<'_>) -> Counted {
    let cas_kept = caller.instance.settings.cas;
    let (worker, tenant, now) = caller.tenancy.acting();
    let counted = worker
        .update(tenant, delta.key.bytes(), now, |entry| {
            step(entry, delta, cas_kept)
        })
        .unwrap_or(Counted::NoMemory);
    let counters = caller.counters();
    let (hits, misses) = match delta.direction {
        Direction::Up => (&counters.incr_hits, &counters.incr_misses),
        Direction::Down => (&counters.decr_hits, &counters.decr_misses),
    };
    match counted {
        Counted::To { .. } => hits.bump(),
        Counted::Missing => misses.bump(),
        Counted::Seeded { .. } => {
            counters.total_items.bump();
            note_begun(caller, delta);
        }
        _ => {}
    }
    counted
}

fn note_begun(caller: Caller<'_>, delta: &Delta<'_>) {
    let Some(Seed { number, expiry }) = delta.seed else {
        return;
    };
    caller.instance.observed(caller.peer, || Event::Written {
        key: delta.key.bytes(),
        mode: Mode::Add,
        ttl: numbers::ttl(caller.tenancy.now(), expiry),
        size: itoa::Buffer::new().format(number).len(),
    });
}

fn step(entry: &mut Entry<'_>, delta: &Delta<'_>, cas_kept: bool) -> Counted {
    let Some(item) = entry.current() else {
        return seed(entry, delta);
    };
    let stale = |cas: u64| compare(item, cas, cas_kept) != Compared::Same;
    if delta.compare.is_some_and(|cas| cas != 0 && stale(cas)) {
        return Counted::Exists;
    }
    let Some(old) = number(item.value()) else {
        return Counted::NotANumber;
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
    Counted::To {
        number,
        cas,
        old_expiry,
    }
}

fn seed(entry: &mut Entry<'_>, delta: &Delta<'_>) -> Counted {
    let Some(Seed { number, expiry }) = delta.seed else {
        return Counted::Missing;
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
    Counted::Seeded { number, cas }
}

fn number(value: &Value<'_>) -> Option<u64> {
    if value.len() > NUMBER_BYTES_MAX {
        return None;
    }
    match value {
        Value::Whole(text) => numbers::loose_unsigned(text),
        Value::Chunks(pieces) => numbers::loose_unsigned(&pieces.concat()),
    }
}
