//! What all protocols do with items: fetch, store, count, touch, delete. Here it is counted and told to those who watch.

mod count;
mod delete;
mod fetch;
mod store;

use sublet_store::{Entry, Item, NewCas, NewItem, Value};

use super::map::Key;
use super::turn::Turn;

pub(super) use count::{Counted, Delta, Seed, count};
pub(super) use delete::{count_deleted, delete};
pub(super) use fetch::{Found, count_fetched, count_touched, get, read, touch};
pub(super) use store::{Store, refuse, store};

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

/// Removes an item without counting that.
pub(super) fn remove(turn: Turn<'_>, key: &Key<'_>) {
    // Removing takes no memory, so it cannot be refused.
    let _ = turn.tenancy.update(key.bytes(), |entry| {
        if entry.current().is_some() {
            entry.remove();
        }
    });
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
