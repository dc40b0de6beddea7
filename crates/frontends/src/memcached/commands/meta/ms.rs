//! ms: all kinds of stores.

use sublet_types::Expiry;

use super::super::reply::{BAD_BLOCK, BAD_FORMAT, NO_MEMORY, TOO_LARGE, reply_line};
use super::reply::{echo, refuse, write_flag};
use crate::memcached::caller::Caller;
use crate::memcached::numbers;
use crate::memcached::operate::{self, StoreRequest};
use crate::memcached::outcome::{RequestBody, RequestOutcome};
use crate::memcached::verbs::{OlderCas, StoreMode, StoreOutcome};
use crate::memcached::wire::flags::{MalformedRequest, MetaFlags};
use crate::memcached::wire::value_block::{VALUE_MAX, ValueBlock, value_block, value_block_len};
use crate::memcached::wire::words::Words;

/// Runs ms.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    mut words: Words<'_>,
    after: RequestBody<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let (key, len) = (words.next(), words.next().and_then(numbers::signed_32));
    let len = len
        .and_then(|len| usize::try_from(len).ok())
        .filter(|&len| len <= VALUE_MAX);
    let (Some(key), Some(len)) = (key, len) else {
        return reply_line(out, BAD_FORMAT);
    };
    let body = value_block_len(len);
    let parsed = MetaFlags::parse(key, words).and_then(|flags| Ok((store(caller, &flags)?, flags)));
    let (store, flags) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => {
            refuse(out, why);
            return RequestOutcome::Swallow { body };
        }
    };
    execute(caller, &store, &flags, len, after, out)
}

fn execute(
    caller: Caller<'_>,
    store: &StoreRequest<'_>,
    flags: &MetaFlags<'_>,
    len: usize,
    after: RequestBody<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let body = value_block_len(len);
    let refused = |why, line: &[u8], out: &mut Vec<u8>| {
        operate::refuse(caller, store, why);
        // The old value is out of date, whatever the mode.
        operate::remove(caller, &store.key);
        reply_line(out, line);
        RequestOutcome::Swallow { body }
    };
    if caller.too_large(store.key.bytes().len(), store.flags, len) {
        return refused(StoreOutcome::TooLarge, TOO_LARGE, out);
    }
    let RequestBody::Input(after) = after else {
        return refused(StoreOutcome::NoMemory, NO_MEMORY, out);
    };
    match value_block(after, len) {
        ValueBlock::Awaited => return RequestOutcome::Awaits { body },
        ValueBlock::Bad => _ = reply_line(out, BAD_BLOCK),
        ValueBlock::Value(value) => {
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
    RequestOutcome::Done { body }
}

fn store<'a>(
    caller: Caller<'_>,
    flags: &MetaFlags<'a>,
) -> Result<StoreRequest<'a>, MalformedRequest> {
    let mode = match (flags.mode, flags.compare) {
        (None | Some(b'S' | b'R'), Some(_)) => StoreMode::Cas,
        (None | Some(b'S'), None) => StoreMode::Set,
        (Some(b'R'), None) => StoreMode::Replace,
        (Some(b'E'), _) => StoreMode::Add,
        (Some(b'A'), _) => StoreMode::Append,
        (Some(b'P'), _) => StoreMode::Prepend,
        (Some(_), _) => return Err(MalformedRequest::StoreMode),
    };
    Ok(StoreRequest {
        key: flags.key.clone(),
        mode,
        flags: flags.client_flags,
        expiry: caller
            .optional_expiry(flags.expiry)
            .unwrap_or(Expiry::Never),
        compare: flags.compare,
        older_cas: match flags.invalidate {
            true => OlderCas::StoresStale,
            false => OlderCas::Fails,
        },
        vivify: caller.optional_expiry(flags.vivify),
        cas: flags.new_cas(),
        binary_key: flags.binary_key,
    })
}

fn reply(
    caller: Caller<'_>,
    flags: &MetaFlags<'_>,
    stored: StoreOutcome,
    len: usize,
    out: &mut Vec<u8>,
) {
    let (code, cas, size) = match stored {
        StoreOutcome::Done { .. } if flags.quiet => return,
        StoreOutcome::Done { cas, size } => (b"HD", caller.stored_cas(cas), size),
        StoreOutcome::ConditionUnmet => (b"NS", 0, len),
        StoreOutcome::Exists => (b"EX", 0, len),
        StoreOutcome::NotFound => (b"NF", 0, len),
        StoreOutcome::TooLarge => return out.extend_from_slice(TOO_LARGE),
        StoreOutcome::NoMemory => return out.extend_from_slice(NO_MEMORY),
    };
    out.extend_from_slice(code);
    for flag in flags.in_request_order() {
        match flag[0] {
            b'c' => write_flag(out, b'c', cas),
            b's' => write_flag(out, b's', size),
            _ => echo(out, flag, flags.key.bytes(), flags.key_form()),
        }
    }
    out.extend_from_slice(b"\r\n");
}
