//! set, add, replace, append, prepend, cas.

use sublet_store::NewCas;

use super::super::reply::{BAD_BLOCK, BAD_FORMAT, NO_MEMORY, TOO_LARGE, reply_line};
use crate::memcached::caller::Caller;
use crate::memcached::map::Key;
use crate::memcached::operate::StoreRequest;
use crate::memcached::outcome::{RequestBody, RequestOutcome};
use crate::memcached::verbs::{OlderCas, StoreMode, StoreOutcome};
use crate::memcached::wire::value_block::{VALUE_MAX, ValueBlock, value_block, value_block_len};
use crate::memcached::wire::words::Words;
use crate::memcached::{numbers, operate};

/// The line of a storage command: the store, and the length of the block behind it.
struct StorageLine<'a> {
    /// `None` if the store is refused although its length is valid.
    store: Option<StoreRequest<'a>>,
    len: usize,
}

/// Runs a storage command. Returns `None` if the length of its block is unknown.
pub(super) fn run(
    caller: Caller<'_>,
    mode: StoreMode,
    words: Words<'_>,
    after: RequestBody<'_>,
    out: &mut Vec<u8>,
) -> Option<RequestOutcome> {
    let line = parse(caller, mode, words)?;
    let body = value_block_len(line.len);
    let Some(store) = line.store else {
        reply_line(out, BAD_FORMAT);
        return Some(RequestOutcome::Swallow { body });
    };
    let refused = |why, line: &[u8], out: &mut Vec<u8>| {
        operate::refuse(caller, &store, why);
        reply_line(out, line);
        Some(RequestOutcome::Swallow { body })
    };
    if caller.too_large(store.key.bytes().len(), store.flags, line.len) {
        return refused(StoreOutcome::TooLarge, TOO_LARGE, out);
    }
    let RequestBody::Input(after) = after else {
        return refused(StoreOutcome::NoMemory, NO_MEMORY, out);
    };
    let reply = match value_block(after, line.len) {
        ValueBlock::Awaited => return Some(RequestOutcome::Awaits { body }),
        ValueBlock::Bad => BAD_BLOCK,
        ValueBlock::Value(value) => reply(operate::store(caller, &store, value)),
    };
    reply_line(out, reply);
    Some(RequestOutcome::Done { body })
}

fn reply(stored: StoreOutcome) -> &'static [u8] {
    match stored {
        StoreOutcome::Done { .. } => b"STORED\r\n",
        StoreOutcome::ConditionUnmet => b"NOT_STORED\r\n",
        StoreOutcome::Exists => b"EXISTS\r\n",
        StoreOutcome::NotFound => b"NOT_FOUND\r\n",
        StoreOutcome::TooLarge => TOO_LARGE,
        StoreOutcome::NoMemory => NO_MEMORY,
    }
}

/// Parses `key flags exptime bytes [unique]`. Returns `None` if the length is unknown.
fn parse<'a>(caller: Caller<'_>, mode: StoreMode, mut words: Words<'a>) -> Option<StorageLine<'a>> {
    let (key, flags, exptime) = (words.next()?, words.next()?, words.next()?);
    let len = usize::try_from(numbers::signed_32(words.next()?)?).ok()?;
    let mut store = || {
        let compare = match mode {
            StoreMode::Cas => Some(numbers::unsigned(words.next()?)?),
            _ => None,
        };
        Some(StoreRequest {
            key: Key::new(key)?,
            mode,
            flags: numbers::loose_unsigned_32(flags)?,
            expiry: caller.expiry(numbers::loose_signed_32(exptime)?.into()),
            compare,
            older_cas: OlderCas::Fails,
            vivify: None,
            cas: NewCas::Fresh,
            binary_key: false,
        })
    };
    (len <= VALUE_MAX).then(|| StorageLine {
        store: store(),
        len,
    })
}
