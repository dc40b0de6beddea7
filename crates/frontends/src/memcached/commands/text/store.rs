//! set, add, replace, append, prepend, cas.

use sublet_store::NewCas;

use super::super::reply::{BAD_BLOCK, BAD_FORMAT, NO_MEMORY, TOO_LARGE, say};
use crate::memcached::caller::Caller;
use crate::memcached::map::Key;
use crate::memcached::operate::Store;
use crate::memcached::outcome::{After, Ran};
use crate::memcached::verbs::{Mode, Older, Stored};
use crate::memcached::wire::block::{Block, VALUE_MAX, block, block_len};
use crate::memcached::wire::words::Words;
use crate::memcached::{numbers, operate};

/// A storage line: what it asks, and the length of the block behind it.
struct Line<'a> {
    /// Nothing where it is refused although its length is good.
    store: Option<Store<'a>>,
    len: usize,
}

/// Answers a storage command; nothing where the length of its block is not known.
pub(super) fn run(
    caller: Caller<'_>,
    mode: Mode,
    words: Words<'_>,
    after: After<'_>,
    out: &mut Vec<u8>,
) -> Option<Ran> {
    let line = parse(caller, mode, words)?;
    let body = block_len(line.len);
    let Some(store) = line.store else {
        say(out, BAD_FORMAT);
        return Some(Ran::Swallow { body });
    };
    let refused = |why, line: &[u8], out: &mut Vec<u8>| {
        operate::refuse(caller, &store, why);
        say(out, line);
        Some(Ran::Swallow { body })
    };
    if caller.too_large(store.key.bytes().len(), store.flags, line.len) {
        return refused(Stored::TooLarge, TOO_LARGE, out);
    }
    let After::Input(after) = after else {
        return refused(Stored::NoMemory, NO_MEMORY, out);
    };
    let reply = match block(after, line.len) {
        Block::Awaited => return Some(Ran::Awaits { body }),
        Block::Bad => BAD_BLOCK,
        Block::Value(value) => reply(operate::store(caller, &store, value)),
    };
    say(out, reply);
    Some(Ran::Done { after: body })
}

fn reply(stored: Stored) -> &'static [u8] {
    match stored {
        Stored::Done { .. } => b"STORED\r\n",
        Stored::Unmet => b"NOT_STORED\r\n",
        Stored::Exists => b"EXISTS\r\n",
        Stored::NotFound => b"NOT_FOUND\r\n",
        Stored::TooLarge => TOO_LARGE,
        Stored::NoMemory => NO_MEMORY,
    }
}

/// `key flags exptime bytes [unique]`; nothing where the length is not known.
fn parse<'a>(caller: Caller<'_>, mode: Mode, mut words: Words<'a>) -> Option<Line<'a>> {
    let (key, flags, exptime) = (words.next()?, words.next()?, words.next()?);
    let len = usize::try_from(numbers::signed_32(words.next()?)?).ok()?;
    let mut store = || {
        let compare = match mode {
            Mode::Cas => Some(numbers::unsigned(words.next()?)?),
            _ => None,
        };
        Some(Store {
            key: Key::new(key)?,
            mode,
            flags: numbers::loose_unsigned_32(flags)?,
            expiry: caller.expiry(numbers::loose_signed_32(exptime)?.into()),
            compare,
            older: Older::Fails,
            vivify: None,
            cas: NewCas::Fresh,
            binary_key: false,
        })
    };
    (len <= VALUE_MAX).then(|| Line {
        store: store(),
        len,
    })
}
