//! Fetches and touches.

use sublet_store::{Absence, Item, Lookup, Reading};
use sublet_types::Expiry;

use super::super::map::Key;
use super::super::observe::{Event, FetchStatus};
use super::super::turn::Turn;
use super::rewrite;

/// Fetches an item as get does.
pub(in crate::memcached) fn get<R>(
    turn: Turn<'_>,
    key: &Key<'_>,
    visit: impl FnOnce(&Item<'_>) -> R,
) -> Option<R> {
    read(turn, key, Reading::Use, visit)
}

/// Fetches an item and counts it as get does; says itself whether that is a use.
pub(in crate::memcached) fn read<R>(
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
pub(in crate::memcached) fn count_fetched(turn: Turn<'_>, key: &Key<'_>, found: Option<usize>) {
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
pub(in crate::memcached) fn count_touched(turn: Turn<'_>, key: &Key<'_>, found: Option<usize>) {
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
pub(in crate::memcached) fn touch<R>(
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
    if size.is_some() {
        // A use, which eviction hears of; a miss by now is nobody's loss.
        let _ = turn.tenancy.read(key.bytes(), Reading::Use, |_| ());
    }
    count_touched(turn, key, size);
    answer
}
