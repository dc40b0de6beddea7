//! Storing items again with a change, and removing items.

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
    let value = ValuePieces::of(item.value());
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

/// The pieces of a value, held apart from the item that gave them.
pub(super) enum ValuePieces<'a> {
    One([&'a [u8]; 1]),
    Many(Vec<&'a [u8]>),
}

impl<'a> ValuePieces<'a> {
    pub(super) fn of(value: &Value<'a>) -> ValuePieces<'a> {
        match value {
            Value::Whole(piece) => ValuePieces::One([piece]),
            Value::Chunks(pieces) => ValuePieces::Many(pieces.clone()),
        }
    }

    pub(super) fn all(&self) -> &[&'a [u8]] {
        match self {
            ValuePieces::One(piece) => piece,
            ValuePieces::Many(pieces) => pieces,
        }
    }
}

/// Removes an item without counting it.
pub(in crate::memcached) fn remove(caller: Caller<'_>, key: &Key<'_>) {
    // Removing takes no memory, so it cannot be refused.
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let _ = worker.update(tenant, key.bytes(), now, |entry| {
        if entry.current().is_some() {
            entry.remove();
        }
    });
}
