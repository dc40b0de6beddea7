//! Fetches and touches.

use sublet_store::{Absence, Item, Lookup, ReadKind};
use sublet_types::Expiry;

use super::super::caller::Caller;
use super::super::map::Key;
use super::super::watch_event::{FetchStatus, WatchEvent};
use super::rewrite::rewrite;

/// Fetches an item and counts it as get does.
pub(in crate::memcached) fn read<R>(
    caller: Caller<'_>,
    key: &Key<'_>,
    reading: ReadKind,
    visit: impl FnOnce(&Item<'_>) -> R,
) -> Option<R> {
    let mut size = 0;
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let lookup = worker.read(tenant, key.bytes(), now, reading, |item| {
        size = item.value().len();
        visit(item)
    });
    let (answer, found) = match lookup {
        Lookup::Hit(answer) => (Some(answer), Ok(size)),
        Lookup::Miss(why) => (None, Err(why)),
    };
    count_fetched(caller, key, found);
    answer
}

/// The result of a fetch: the length of the value, or why there is none.
pub(in crate::memcached) type FetchResult = Result<usize, Absence>;

/// Counts a fetch.
pub(in crate::memcached) fn count_fetched(caller: Caller<'_>, key: &Key<'_>, found: FetchResult) {
    let counters = caller.counters();
    counters.cmd_get.bump();
    match found {
        Ok(_) => counters.get_hits.bump(),
        Err(_) => counters.get_misses.bump(),
    }
    emit_fetched(caller, key, found);
}

/// Counts a touch.
pub(in crate::memcached) fn count_touched(caller: Caller<'_>, key: &Key<'_>, found: FetchResult) {
    let counters = caller.counters();
    counters.cmd_touch.bump();
    match found {
        Ok(_) => counters.touch_hits.bump(),
        Err(_) => counters.touch_misses.bump(),
    }
    emit_fetched(caller, key, found);
}

fn emit_fetched(caller: Caller<'_>, key: &Key<'_>, found: FetchResult) {
    let status = match found {
        Ok(_) => FetchStatus::Found,
        Err(Absence::Unknown) => FetchStatus::NotFound,
        Err(Absence::Expired) => FetchStatus::Expired,
        Err(Absence::Flushed) => FetchStatus::Flushed,
    };
    match status {
        FetchStatus::Found | FetchStatus::NotFound => {}
        FetchStatus::Expired => caller.counters().get_expired.bump(),
        FetchStatus::Flushed => caller.counters().get_flushed.bump(),
    }
    caller.instance.emit(caller.peer, || WatchEvent::Fetched {
        key: key.bytes(),
        status,
        size: found.unwrap_or(0),
    });
}

/// Gives an item another expiry and shows it (touch, gat). `visit` may run more than once, and only its last run
/// counts.
pub(in crate::memcached) fn touch<R>(
    caller: Caller<'_>,
    key: &Key<'_>,
    expiry: Expiry,
    mut visit: impl FnMut(&Item<'_>) -> R,
) -> Option<R> {
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let done = worker.update(tenant, key.bytes(), now, |entry| {
        let Some(item) = entry.current() else {
            entry.record_use();
            return Err(entry.absence());
        };
        let (answer, size) = (visit(item), item.value().len());
        let same = item.expiry() == expiry;
        entry.record_use();
        if !same {
            rewrite(entry, |new| new.expiry = expiry);
        }
        Ok((answer, size))
    });
    // An item that is stored again is as large as it was. A lack of memory for it counts as a miss.
    let (answer, found) = match done.unwrap_or(Err(Absence::Unknown)) {
        Ok((answer, size)) => (Some(answer), Ok(size)),
        Err(why) => (None, Err(why)),
    };
    count_touched(caller, key, found);
    answer
}
