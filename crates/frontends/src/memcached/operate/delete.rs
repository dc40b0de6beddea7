//! Deletes.

use super::super::caller::Caller;
use super::super::events::{Command, Event};
use super::super::map::Key;
use super::super::verbs::Deleted;
use super::compare::{Compared, compare};

/// Deletes an item.
pub(in crate::memcached) fn delete(
    caller: Caller<'_>,
    key: &Key<'_>,
    compared: Option<u64>,
    command: Command,
) -> Deleted {
    let cas_kept = caller.instance.settings.cas;
    let mut size = 0;
    let (worker, tenant, now) = caller.tenancy.acting();
    let deleted = worker.update(tenant, key.bytes(), now, |entry| {
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
    count_deleted(caller, key, deleted, size, command);
    deleted
}

/// Counts a delete.
pub(in crate::memcached) fn count_deleted(
    caller: Caller<'_>,
    key: &Key<'_>,
    deleted: Deleted,
    size: usize,
    command: Command,
) {
    match deleted {
        Deleted::Done => caller.counters().delete_hits.bump(),
        Deleted::NotFound | Deleted::Exists => caller.counters().delete_misses.bump(),
    }
    let key = key.bytes();
    caller.instance.observed(caller.peer, || Event::Deleted {
        key,
        deleted,
        size,
        command,
    });
}
