//! get, gets, gat, gats: values of one or many keys.

use sublet_store::{Item, Reading};
use sublet_types::Expiry;

use super::super::reply::{BAD_FORMAT, say};
use super::ahead;
use crate::memcached::caller::Caller;
use crate::memcached::map::{KEY_MAX, Key};
use crate::memcached::numbers;
use crate::memcached::operate::{read, touch};
use crate::memcached::outcome::{PendingGet, REPLY_HIGH_WATER, Ran, Shows};
use crate::memcached::wire::words::Words;

/// Keys that are answered before others get a turn: misses fill no reply.
const KEYS_AT_ONCE: usize = 1024;

const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// Answers a get of the keys that `words` has left.
pub(super) fn begin(
    caller: Caller<'_>,
    get: PendingGet,
    words: Words<'_>,
    line: &[u8],
    out: &mut Vec<u8>,
) -> Ran {
    let keys = words.rest();
    let mut check = words;
    let short = keys.len() <= KEY_MAX || words.clone().all(|key| key.len() <= KEY_MAX);
    if check.next().is_none() || !short {
        return say(out, BAD_FORMAT);
    }
    match run(caller, get, keys, out) {
        None => Ran::Done { after: 0 },
        Some(done) => Ran::Get(get, line.len() - keys.len() + done),
    }
}

/// Answers gat and gats.
pub(super) fn begin_touching(
    caller: Caller<'_>,
    shows: Shows,
    mut words: Words<'_>,
    line: &[u8],
    out: &mut Vec<u8>,
) -> Ran {
    let Some(exptime) = words.next() else {
        return say(out, BAD_FORMAT);
    };
    let Some(exptime) = numbers::signed_32(exptime) else {
        return say(out, BAD_EXPTIME);
    };
    let touch = Some(caller.expiry(exptime.into()));
    begin(caller, PendingGet { shows, touch }, words, line, out)
}

/// Answers `keys`. Where they are too many or the replies too long, it stops and says how many bytes of the keys are
/// done.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    pending: PendingGet,
    keys: &[u8],
    out: &mut Vec<u8>,
) -> Option<usize> {
    let mut words = Words::of(keys);
    for count in 0.. {
        if count == KEYS_AT_ONCE {
            return Some(keys.len() - words.rest().len());
        }
        if count % ahead::LOOK == 0 {
            ahead::words(caller, words);
        }
        let Some(key) = words.next().and_then(Key::new) else {
            break;
        };
        match pending.touch {
            None => {
                _ = read(caller, &key, Reading::Use, |item| {
                    show(caller, pending.shows, item, out)
                })
            }
            Some(expiry) => get_and_touch(caller, pending.shows, &key, expiry, out),
        }
        if out.len() > REPLY_HIGH_WATER {
            return Some(keys.len() - words.rest().len());
        }
    }
    out.extend_from_slice(b"END\r\n");
    None
}

fn get_and_touch(
    caller: Caller<'_>,
    shows: Shows,
    key: &Key<'_>,
    expiry: Expiry,
    out: &mut Vec<u8>,
) {
    let mark = out.len();
    let found = touch(caller, key, expiry, |item| {
        out.truncate(mark);
        show(caller, shows, item, out);
    });
    if found.is_none() {
        out.truncate(mark);
    }
}

/// Bytes of a reply besides its key and value, at most.
const REPLY_HEAD_MAX: usize = 64;

fn show(caller: Caller<'_>, shows: Shows, item: &Item<'_>, out: &mut Vec<u8>) {
    let (key, value) = (item.key(), item.value());
    out.reserve(REPLY_HEAD_MAX + key.len() + value.len());
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    numbers::write(out, item.flags());
    out.push(b' ');
    numbers::write(out, value.len());
    if shows == Shows::ValueAndCas {
        out.push(b' ');
        numbers::write(out, caller.cas_of(item));
    }
    out.extend_from_slice(b"\r\n");
    value.copy_to(out);
    out.extend_from_slice(b"\r\n");
}
