//! get, gets, gat, gats: replies with the values of one or many keys.

use sublet_store::{Item, ReadKind};
use sublet_types::Expiry;

use super::super::reply::{BAD_FORMAT, reply_line};
use super::prefetch;
use crate::memcached::caller::Caller;
use crate::memcached::map::{KEY_MAX, Key};
use crate::memcached::numbers;
use crate::memcached::operate::{read, touch};
use crate::memcached::outcome::{GetFields, PendingGet, REPLY_HIGH_WATER, RequestOutcome};
use crate::memcached::wire::words::Words;

/// The most keys that are answered before other connections get a turn. It is needed because misses add nothing to the
/// reply.
const KEYS_AT_ONCE: usize = 1024;

const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// Runs a get of the keys that are left in `words`.
pub(super) fn begin(
    caller: Caller<'_>,
    get: PendingGet,
    words: Words<'_>,
    line: &[u8],
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let keys = words.rest();
    let mut check = words;
    let short = keys.len() <= KEY_MAX || words.clone().all(|key| key.len() <= KEY_MAX);
    if check.next().is_none() || !short {
        return reply_line(out, BAD_FORMAT);
    }
    match run(caller, get, keys, out) {
        None => RequestOutcome::Done { body: 0 },
        Some(done) => RequestOutcome::Get(get, line.len() - keys.len() + done),
    }
}

/// Runs gat and gats.
pub(super) fn begin_touching(
    caller: Caller<'_>,
    fields: GetFields,
    mut words: Words<'_>,
    line: &[u8],
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let Some(exptime) = words.next() else {
        return reply_line(out, BAD_FORMAT);
    };
    let Some(exptime) = numbers::signed_32(exptime) else {
        return reply_line(out, BAD_EXPTIME);
    };
    let touch = Some(caller.expiry(exptime.into()));
    begin(caller, PendingGet { fields, touch }, words, line, out)
}

/// Answers `keys`. If they are too many or the replies too long, it stops and returns how many bytes of the keys are
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
        if count % prefetch::PREFETCH_MAX == 0 {
            prefetch::for_keys(caller, words);
        }
        let Some(key) = words.next().and_then(Key::new) else {
            break;
        };
        match pending.touch {
            None => {
                _ = read(caller, &key, ReadKind::Use, |item| {
                    show(caller, pending.fields, item, out)
                })
            }
            Some(expiry) => get_and_touch(caller, pending.fields, &key, expiry, out),
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
    fields: GetFields,
    key: &Key<'_>,
    expiry: Expiry,
    out: &mut Vec<u8>,
) {
    let mark = out.len();
    let found = touch(caller, key, expiry, |item| {
        out.truncate(mark);
        show(caller, fields, item, out);
    });
    if found.is_none() {
        out.truncate(mark);
    }
}

/// The most bytes of a reply besides its key and value.
const REPLY_HEAD_MAX: usize = 64;

fn show(caller: Caller<'_>, fields: GetFields, item: &Item<'_>, out: &mut Vec<u8>) {
    let (key, value) = (item.key(), item.value());
    out.reserve(REPLY_HEAD_MAX + key.len() + value.len());
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    numbers::write(out, item.flags());
    out.push(b' ');
    numbers::write(out, value.len());
    if fields == GetFields::ValueAndCas {
        out.push(b' ');
        numbers::write(out, caller.item_cas(item));
    }
    out.extend_from_slice(b"\r\n");
    value.copy_to(out);
    out.extend_from_slice(b"\r\n");
}
