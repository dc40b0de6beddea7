//! What all protocols do with items: fetch, store, count, touch, delete. Here it is counted and told to those who watch.

use sublet_store::{Absence, Entry, Item, Lookup, Marks, NewCas, NewItem, Reading, Refused, Value};
use sublet_types::Expiry;

use super::map::Key;
use super::numbers;
use super::observe::{Command, Event, FetchStatus, StoreStatus};
use super::turn::Turn;

/// Fetches an item as get does.
pub(super) fn get<R>(
    turn: Turn<'_>,
    key: &Key<'_>,
    visit: impl FnOnce(&Item<'_>) -> R,
) -> Option<R> {
    read(turn, key, Reading::Use, visit)
}

/// Fetches an item and counts it as get does; says itself whether that is a use.
pub(super) fn read<R>(
    turn: Turn<'_>,
    key: &Key<'_>,
    reading: Reading,
    visit: impl FnOnce(&Item<'_>) -> R,
) -> Option<R> {
    let mut size = 0;
    let looked = turn.tenancy.read(key.bytes(), reading, |item| {
        size = item.value().len();
        visit(item)
    });
    let (answer, status) = match looked {
        Lookup::Hit(answer) => (Some(answer), FetchStatus::Found),
        Lookup::Miss(Absence::Unknown) => (None, FetchStatus::NotFound),
        Lookup::Miss(Absence::Expired) => (None, FetchStatus::Expired),
        Lookup::Miss(Absence::Flushed) => (None, FetchStatus::Flushed),
    };
    count_get(turn, status);
    turn.face.observed(turn.peer, || Event::Fetched {
        key: key.bytes(),
        status,
        size,
    });
    answer
}

fn count_get(turn: Turn<'_>, status: FetchStatus) {
    let counters = turn.counters();
    counters.cmd_get.bump();
    match status {
        FetchStatus::Found => return counters.get_hits.bump(),
        FetchStatus::NotFound => {}
        FetchStatus::Expired => counters.get_expired.bump(),
        FetchStatus::Flushed => counters.get_flushed.bump(),
    }
    counters.get_misses.bump();
}

/// Counts a fetch that was done in an update, where the store does not say why an item is not there.
pub(super) fn count_fetched(turn: Turn<'_>, key: &Key<'_>, found: Option<usize>) {
    let status = match found {
        Some(_) => FetchStatus::Found,
        None => FetchStatus::NotFound,
    };
    count_get(turn, status);
    let size = found.unwrap_or(0);
    turn.face.observed(turn.peer, || Event::Fetched {
        key: key.bytes(),
        status,
        size,
    });
}

/// Counts a touch.
pub(super) fn count_touched(turn: Turn<'_>, key: &Key<'_>, found: Option<usize>) {
    let counters = turn.counters();
    counters.cmd_touch.bump();
    let status = match found {
        Some(_) => {
            counters.touch_hits.bump();
            FetchStatus::Found
        }
        None => {
            counters.touch_misses.bump();
            FetchStatus::NotFound
        }
    };
    let size = found.unwrap_or(0);
    turn.face.observed(turn.peer, || Event::Fetched {
        key: key.bytes(),
        status,
        size,
    });
}

/// Gives an item another end and shows it (touch, gat). `visit` may run more than once; only its last run counts.
pub(super) fn touch<R>(
    turn: Turn<'_>,
    key: &Key<'_>,
    expiry: Expiry,
    mut visit: impl FnMut(&Item<'_>) -> R,
) -> Option<R> {
    let done = turn.tenancy.update(key.bytes(), |entry| {
        let item = entry.current()?;
        let answer = (visit(item), item.value().len());
        rewrite(entry, |new| new.expiry = expiry);
        Some(answer)
    });
    // An item that is stored again is as large as it was; no memory for that is a miss.
    let (answer, size) = done.ok().flatten().unzip();
    count_touched(turn, key, size);
    answer
}

/// Stores the current item again with a change to its head.
pub(super) fn rewrite(entry: &mut Entry<'_>, change: impl FnOnce(&mut NewItem<'_>)) -> u64 {
    let Some(item) = entry.current() else {
        return 0;
    };
    let value = Pieces::of(item.value());
    let mut new = NewItem {
        flags: item.flags(),
        expiry: item.expiry(),
        marks: item.marks(),
        cas: NewCas::Keep,
        value: value.all(),
    };
    change(&mut new);
    entry.store(&new)
}

/// The pieces of a value, kept apart from the item that showed them.
pub(super) enum Pieces<'a> {
    One([&'a [u8]; 1]),
    Many(Vec<&'a [u8]>),
}

impl<'a> Pieces<'a> {
    pub(super) fn of(value: &Value<'a>) -> Pieces<'a> {
        match value {
            Value::Whole(piece) => Pieces::One([piece]),
            Value::Chunks(pieces) => Pieces::Many(pieces.clone()),
        }
    }

    pub(super) fn all(&self) -> &[&'a [u8]] {
        match self {
            Pieces::One(piece) => piece,
            Pieces::Many(pieces) => pieces,
        }
    }
}

/// What a store asks of the item that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing.
    Set,
    /// That there is none.
    Add,
    /// That there is one.
    Replace,
    /// That there is one; the value goes behind its value.
    Append,
    /// That there is one; the value goes before its value.
    Prepend,
    /// That there is one with the cas unique that the client saw.
    Cas,
}

/// A store, but for its value.
#[derive(Clone, Debug)]
pub(super) struct Store<'a> {
    pub(super) key: Key<'a>,
    pub(super) mode: Mode,
    pub(super) flags: u32,
    pub(super) expiry: Expiry,
    /// The cas unique that the client saw; append and prepend check it where it is given.
    pub(super) compare: Option<u64>,
    /// Whether a lower cas unique stores, too, but marks the item stale (meta flag `I`).
    pub(super) older: Older,
    /// Append and prepend to a missing item make one with this end (meta flag `N`).
    pub(super) vivify: Option<Expiry>,
    pub(super) cas: NewCas,
    pub(super) binary_key: bool,
}

/// What becomes of a store whose cas unique is older than the item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Older {
    /// It fails.
    Fails,
    /// It stores a stale item.
    StoresStale,
}

/// What became of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Stored: its cas unique, if that is told, and the length of the value.
    Done { cas: u64, size: usize },
    /// What its mode asks was not met.
    Unmet,
    /// The cas unique was out of date.
    Exists,
    /// There was nothing to compare the cas unique with.
    NotFound,
    /// Too large an item.
    TooLarge,
    /// No memory.
    NoMemory,
}

/// Stores a value.
pub(super) fn store(turn: Turn<'_>, new: &Store<'_>, value: &[u8]) -> Stored {
    let cas_kept = turn.face.settings.cas;
    let decided = turn
        .tenancy
        .update(new.key.bytes(), |entry| decide(entry, new, value, cas_kept));
    turn.counters().cmd_set.bump();
    let stored = match decided {
        Ok(stored) => stored,
        Err(_) if matches!(new.mode, Mode::Append | Mode::Prepend) => Stored::Unmet,
        Err(Refused::TooLarge) => refuse(turn, new, Stored::TooLarge),
        Err(Refused::NoMemory) => refuse(turn, new, Stored::NoMemory),
    };
    count_stored(turn, new, stored, value.len());
    stored
}

/// Counts a store that was refused for its size or for want of memory, and removes the old item, which is out of date now.
pub(super) fn refuse(turn: Turn<'_>, new: &Store<'_>, why: Stored) -> Stored {
    match why {
        Stored::TooLarge => turn.counters().store_too_large.bump(),
        _ => turn.counters().store_no_memory.bump(),
    }
    if new.mode == Mode::Set {
        remove(turn, &new.key);
    }
    why
}

/// Removes an item without counting that.
pub(super) fn remove(turn: Turn<'_>, key: &Key<'_>) {
    // Removing takes no memory, so it cannot be refused.
    let _ = turn.tenancy.update(key.bytes(), |entry| {
        if entry.current().is_some() {
            entry.remove();
        }
    });
}

fn count_stored(turn: Turn<'_>, new: &Store<'_>, stored: Stored, len: usize) {
    let counters = turn.counters();
    if let Stored::Done { .. } = stored {
        counters.total_items.bump();
    }
    match (new.mode, stored) {
        (Mode::Cas, Stored::Done { .. }) => counters.cas_hits.bump(),
        (Mode::Cas, Stored::Exists) => counters.cas_badval.bump(),
        (Mode::Cas, Stored::NotFound) => counters.cas_misses.bump(),
        _ => {}
    }
    turn.face.observed(turn.peer, || Event::Stored {
        key: new.key.bytes(),
        status: StoreStatus::of(stored),
        mode: new.mode,
        ttl: numbers::ttl(turn.tenancy.clock(), new.expiry),
        size: len,
    });
}

fn decide(entry: &mut Entry<'_>, new: &Store<'_>, value: &[u8], cas_kept: bool) -> Stored {
    let Some(item) = entry.current() else {
        return match (new.mode, new.vivify) {
            (Mode::Set | Mode::Add, _) => put(entry, new, new.expiry, value),
            (Mode::Append | Mode::Prepend, Some(expiry)) => put(entry, new, expiry, value),
            (Mode::Cas, _) => Stored::NotFound,
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
            _ => join(entry, new, value),
        },
    }
}

/// A client's cas unique beside an item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    Same,
    Older,
    Newer,
}

/// Compares a client's cas unique with an item's. 0 is none, and so are all where cas uniques are not kept.
pub(super) fn compare(item: &Item<'_>, cas: u64, cas_kept: bool) -> Compared {
    match (cas_kept && cas != 0).then(|| cas.cmp(&item.cas())) {
        Some(std::cmp::Ordering::Equal) => Compared::Same,
        Some(std::cmp::Ordering::Less) => Compared::Older,
        _ => Compared::Newer,
    }
}

fn put(entry: &mut Entry<'_>, new: &Store<'_>, expiry: Expiry, value: &[u8]) -> Stored {
    let marks = Marks {
        binary_key: new.binary_key,
        ..Marks::default()
    };
    let (flags, cas) = (new.flags, new.cas);
    let cas = entry.store(&NewItem {
        flags,
        expiry,
        marks,
        cas,
        value: &[value],
    });
    Stored::Done {
        cas,
        size: value.len(),
    }
}

/// Stores under the old item's end, stale as it should be; whoever was told to refresh it stays the one.
fn put_stale(entry: &mut Entry<'_>, new: &Store<'_>, value: &[u8]) -> Stored {
    let Some(item) = entry.current() else {
        return Stored::NotFound;
    };
    let (expiry, token_sent) = (item.expiry(), item.marks().token_sent);
    let marks = Marks {
        stale: true,
        token_sent,
        binary_key: new.binary_key,
    };
    let (flags, cas) = (new.flags, new.cas);
    let cas = entry.store(&NewItem {
        flags,
        expiry,
        marks,
        cas,
        value: &[value],
    });
    Stored::Done {
        cas,
        size: value.len(),
    }
}

fn join(entry: &mut Entry<'_>, new: &Store<'_>, value: &[u8]) -> Stored {
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
    Stored::Done {
        cas,
        size: pieces.iter().map(|piece| piece.len()).sum(),
    }
}

/// Which way a number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// An increment or decrement.
#[derive(Clone, Debug)]
pub(super) struct Delta<'a> {
    pub(super) key: Key<'a>,
    pub(super) direction: Direction,
    pub(super) by: u64,
    pub(super) compare: Option<u64>,
    /// What a missing item becomes.
    pub(super) seed: Option<Seed>,
    /// Another end for the item.
    pub(super) expiry: Option<Expiry>,
    pub(super) cas: NewCas,
    pub(super) binary_key: bool,
}

/// A number to begin with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed {
    pub(super) number: u64,
    pub(super) expiry: Expiry,
}

/// What became of an increment or decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// The number now.
    To {
        number: u64,
        cas: u64,
        old_expiry: Expiry,
        expiry: Expiry,
    },
    /// Begun with its seed.
    Seeded {
        number: u64,
        cas: u64,
        expiry: Expiry,
    },
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
pub(super) fn count(turn: Turn<'_>, delta: &Delta<'_>) -> Counted {
    let cas_kept = turn.face.settings.cas;
    let counted = turn
        .tenancy
        .update(delta.key.bytes(), |entry| step(entry, delta, cas_kept))
        .unwrap_or(Counted::NoMemory);
    let counters = turn.counters();
    let (hits, misses) = match delta.direction {
        Direction::Up => (&counters.incr_hits, &counters.incr_misses),
        Direction::Down => (&counters.decr_hits, &counters.decr_misses),
    };
    match counted {
        Counted::To { .. } => hits.bump(),
        Counted::Missing => misses.bump(),
        Counted::Seeded { .. } => counters.total_items.bump(),
        _ => {}
    }
    counted
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
        expiry,
    }
}

fn seed(entry: &mut Entry<'_>, delta: &Delta<'_>) -> Counted {
    let Some(Seed { number, expiry }) = delta.seed else {
        return Counted::Missing;
    };
    let expiry = delta.expiry.unwrap_or(expiry);
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
    Counted::Seeded {
        number,
        cas,
        expiry,
    }
}

fn number(value: &Value<'_>) -> Option<u64> {
    if value.len() > NUMBER_BYTES_MAX {
        return None;
    }
    match value {
        Value::Whole(text) => numbers::unsigned(text),
        Value::Chunks(pieces) => numbers::unsigned(&pieces.concat()),
    }
}

/// What became of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deleted {
    Done,
    NotFound,
    Exists,
}

/// Deletes an item.
pub(super) fn delete(
    turn: Turn<'_>,
    key: &Key<'_>,
    compared: Option<u64>,
    command: Command,
) -> Deleted {
    let cas_kept = turn.face.settings.cas;
    let mut size = 0;
    let deleted = turn.tenancy.update(key.bytes(), |entry| {
        let Some(item) = entry.current() else {
            return Deleted::NotFound;
        };
        if compared.is_some_and(|cas| compare(item, cas, cas_kept) != Compared::Same) {
            return Deleted::Exists;
        }
        size = item.value().len();
        entry.remove();
        Deleted::Done
    });
    // Removing takes no memory, so it cannot be refused.
    let deleted = deleted.unwrap_or(Deleted::NotFound);
    count_deleted(turn, key, deleted, size, command);
    deleted
}

/// Counts a delete.
pub(super) fn count_deleted(
    turn: Turn<'_>,
    key: &Key<'_>,
    deleted: Deleted,
    size: usize,
    command: Command,
) {
    match deleted {
        Deleted::Done => turn.counters().delete_hits.bump(),
        Deleted::NotFound | Deleted::Exists => turn.counters().delete_misses.bump(),
    }
    let key = key.bytes();
    turn.face.observed(turn.peer, || Event::Deleted {
        key,
        deleted,
        size,
        command,
    });
}
