//! Deletes.

use super::super::caller::Caller;
use super::super::map::Key;
use super::super::verbs::DeleteOutcome;
use super::super::watch_event::{DeleteCommand, WatchEvent};
use super::compare::{CasOrdering, compare_cas};

/// Deletes an item.
pub(in crate::memcached) fn delete(
    caller: Caller<'_>,
    key: &Key<'_>,
    compared: Option<u64>,
    command: DeleteCommand,
) -> DeleteOutcome {
    let mut size = 0;
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let deleted = worker.update(tenant, key.bytes(), now, |entry| {
        let Some(item) = entry.current() else {
            return DeleteOutcome::NotFound;
        };
        if compared.is_some_and(|cas| compare_cas(caller, item, cas) != CasOrdering::Same) {
            return DeleteOutcome::Exists;
        }
        size = item.value().len();
        entry.remove();
        DeleteOutcome::Done
    });
    // Removing takes no memory, so it cannot be refused.
    let deleted = deleted.unwrap_or(DeleteOutcome::NotFound);
    count_deleted(caller, key, deleted, size, command);
    deleted
}

/// Counts a delete.
pub(in crate::memcached) fn count_deleted(
    caller: Caller<'_>,
    key: &Key<'_>,
    deleted: DeleteOutcome,
    size: usize,
    command: DeleteCommand,
) {
    match deleted {
        DeleteOutcome::Done => caller.counters().delete_hits.bump(),
        DeleteOutcome::NotFound | DeleteOutcome::Exists => caller.counters().delete_misses.bump(),
    }
    let key = key.bytes();
    caller.instance.emit(caller.peer, || WatchEvent::Deleted {
        key,
        deleted,
        size,
        command,
    });
}
