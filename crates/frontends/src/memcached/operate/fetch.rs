//! Fetches and touches.

use sublet_store::{Absence, Item, Lookup, Reading};
use sublet_types::Expiry;

use super::super::caller::Caller;
use super::super::events::{Event, FetchStatus};
use super::super::map::Key;
use super::rewrite::rewrite;

/// Fetches an item and counts it as get does.
pub(in crate::memcached) fn read<R>(
    caller: Caller<'_>,
    key: &Key<'_>,
    reading: Reading,
    visit: impl FnOnce(&Item<'_>) -> R,
) -> Option<R> {
    let mut size = 0;
    let (worker, tenant, now) = caller.tenancy.acting();
    let looked = worker.read(tenant, key.bytes(), now, reading, |item| {
        size = item.value().len();
        visit(item)
    });
    let (answer, found) = match looked {
        Lookup::Hit(answer) => (Some(answer), Ok(size)),
        Lookup::Miss(why) => (None, Err(why)),
    };
    count_fetched(caller, key, found);
    answer
}

/// What a fetch found: the length of a value, or why there is none.
pub(in crate::memcached) type Found = Result<usize, Absence>;

/// Counts a fetch.
pub(in crate::memcached) fn count_fetched(caller: Caller<'_>, key: &Key<'_>, found: Found) {
    let counters = caller.counters();
    counters.cmd_get.bump();
    match found {
        Ok(_) => counters.get_hits.bump(),
        Err(_) => counters.get_misses.bump(),
    }
    note_fetch(caller, key, found);
}

/// Counts a touch.
pub(in crate::memcached) fn count_touched(caller: Caller<'_>, key: &Key<'_>, found: Found) {
    let counters = caller.counters();
    counters.cmd_touch.bump();
    match found {
        Ok(_) => counters.touch_hits.bump(),
        Err(_) => counters.touch_misses.bump(),
    }
    note_fetch(caller, key, found);
}

fn note_fetch(caller: Caller<'_>, key: &Key<'_>, found: Found) {
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
    caller.instance.observed(caller.peer, || Event::Fetched {
        key: key.bytes(),
        status,
        size: found.unwrap_or(0),
    });
}

/// Gives an item another end and shows it (touch, gat). `visit` may run more than once; only its last run counts.
pub(in crate::memcached) fn touch<R>(
    caller: Caller<'_>,
    key: &Key<'_>,
    expiry: Expiry,
    mut visit: impl FnMut(&Item<'_>) -> R,
) -> Option<R> {
    let (worker, tenant, now) = caller.tenancy.acting();
    let done = worker.update(tenant, key.bytes(), now, |entry| {
        let Some(item) = entry.current() else {
            entry.note_use();
            return Err(entry.absence());
        };
        let (answer, size) = (visit(item), item.value().len());
        let same = item.expiry() == expiry;
        entry.note_use();
        if !same {
            rewrite(entry, |new| new.expiry = expiry);
        }
        Ok((answer, size))
    });
    // An item that is stored again is as large as it was; no memory for that is a miss.
    let (answer, found) = match done.unwrap_or(Err(Absence::Unknown)) {
        Ok((answer, size)) => (Some(answer), Ok(size)),
        Err(why) => (None, Err(why)),
    };
    count_touched(caller, key, found);
    answer
}
