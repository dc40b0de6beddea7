//! Items stored again with a change, and items removed.

use sublet_store::{Entry, NewCas, NewItem, Value};

use super::super::caller::Caller;
use super::super::map::Key;

/// Stores the current item again with a change to its head.
pub(in crate::memcached) fn rewrite(
    entry: &mut Entry<'_>,
    change: impl FnOnce(&mut NewItem<'_>),
) -> u64 {
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
pub(in crate::memcached) fn remove(caller: Caller<'_>, key: &Key<'_>) {
    // Removing takes no memory, so it cannot be refused.
    let (worker, tenant, now) = caller.tenancy.acting();
    let _ = worker.update(tenant, key.bytes(), now, |entry| {
        if entry.current().is_some() {
            entry.remove();
        }
    });
}
