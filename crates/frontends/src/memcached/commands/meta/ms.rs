//! ms: every way to store.

use sublet_types::Expiry;

use super::super::reply::{BAD_BLOCK, BAD_FORMAT, NO_MEMORY, TOO_LARGE, say};
use super::reply::{echo, refuse, show};
use crate::memcached::caller::Caller;
use crate::memcached::numbers;
use crate::memcached::operate::{self, Store};
use crate::memcached::outcome::{After, Ran};
use crate::memcached::verbs::{Mode, Older, Stored};
use crate::memcached::wire::block::{Block, VALUE_MAX, block, block_len};
use crate::memcached::wire::flags::{Flags, Malformed};
use crate::memcached::wire::words::Words;

/// Answers ms.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    mut words: Words<'_>,
    after: After<'_>,
    out: &mut Vec<u8>,
) -> Ran {
    let (key, len) = (words.next(), words.next().and_then(numbers::signed_32));
    let len = len
        .and_then(|len| usize::try_from(len).ok())
        .filter(|&len| len <= VALUE_MAX);
    let (Some(key), Some(len)) = (key, len) else {
        return say(out, BAD_FORMAT);
    };
    let body = block_len(len);
    let parsed = Flags::parse(key, words).and_then(|flags| Ok((store(caller, &flags)?, flags)));
    let (store, flags) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => {
            refuse(out, why);
            return Ran::Swallow { body };
        }
    };
    execute(caller, &store, &flags, len, after, out)
}

fn execute(
    caller: Caller<'_>,
    store: &Store<'_>,
    flags: &Flags<'_>,
    len: usize,
    after: After<'_>,
    out: &mut Vec<u8>,
) -> Ran {
    let body = block_len(len);
    let refused = |why, line: &[u8], out: &mut Vec<u8>| {
        operate::refuse(caller, store, why);
        // Whatever the mode, the old value is out of date.
        operate::remove(caller, &store.key);
        say(out, line);
        Ran::Swallow { body }
    };
    if caller.too_large(store.key.bytes().len(), store.flags, len) {
        return refused(Stored::TooLarge, TOO_LARGE, out);
    }
    let After::Input(after) = after else {
        return refused(Stored::NoMemory, NO_MEMORY, out);
    };
    match block(after, len) {
        Block::Awaited => return Ran::Awaits { body },
        Block::Bad => _ = say(out, BAD_BLOCK),
        Block::Value(value) => {
            caller.counters().cmd_meta.bump();
            reply(
                caller,
                flags,
                operate::store(caller, store, value),
                len,
                out,
            );
        }
    }
    Ran::Done { after: body }
}

fn store<'a>(caller: Caller<'_>, flags: &Flags<'a>) -> Result<Store<'a>, Malformed> {
    let mode = match (flags.mode, flags.compare) {
        (None | Some(b'S' | b'R'), Some(_)) => Mode::Cas,
        (None | Some(b'S'), None) => Mode::Set,
        (Some(b'R'), None) => Mode::Replace,
        (Some(b'E'), _) => Mode::Add,
        (Some(b'A'), _) => Mode::Append,
        (Some(b'P'), _) => Mode::Prepend,
        (Some(_), _) => return Err(Malformed::StoreMode),
    };
    Ok(Store {
        key: flags.key.clone(),
        mode,
        flags: flags.client_flags,
        expiry: caller.end_of(flags.expiry).unwrap_or(Expiry::Never),
        compare: flags.compare,
        older: match flags.invalidate {
            true => Older::StoresStale,
            false => Older::Fails,
        },
        vivify: caller.end_of(flags.vivify),
        cas: flags.new_cas(),
        binary_key: flags.binary_key,
    })
}

fn reply(caller: Caller<'_>, flags: &Flags<'_>, stored: Stored, len: usize, out: &mut Vec<u8>) {
    let (code, cas, size) = match stored {
        Stored::Done { .. } if flags.quiet => return,
        Stored::Done { cas, size } => (b"HD", caller.kept_cas(cas), size),
        Stored::Unmet => (b"NS", 0, len),
        Stored::Exists => (b"EX", 0, len),
        Stored::NotFound => (b"NF", 0, len),
        Stored::TooLarge => return out.extend_from_slice(TOO_LARGE),
        Stored::NoMemory => return out.extend_from_slice(NO_MEMORY),
    };
    out.extend_from_slice(code);
    for flag in flags.returned() {
        match flag[0] {
            b'c' => show(out, b'c', cas),
            b's' => show(out, b's', size),
            _ => echo(out, flag, flags.key.bytes(), flags.binary_key),
        }
    }
    out.extend_from_slice(b"\r\n");
}
