//! memcached's text protocol. A request is a line, followed by a block in a store. Replies are lines and blocks.

mod admin;
mod change;
mod crawler;
pub(in crate::memcached) mod get;
mod password;
pub(in crate::memcached) mod prefetch;
mod stats;
mod store;

use super::meta;
use super::reply::{BAD_FORMAT, ERROR, reply_line};
use crate::memcached::caller::Caller;
use crate::memcached::outcome::{
    AuthGate, GetFields, LoopAction, PendingGet, RequestBody, RequestOutcome,
};
use crate::memcached::verbs::{Direction, StoreMode};
use crate::memcached::wire::words::Words;

/// The shortest command, in bytes.
const COMMAND_MIN: usize = 2;

/// Runs one request. `line` is its line without the end, and `after` is what follows it.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    gate: AuthGate,
    line: &[u8],
    after: RequestBody<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    if gate == AuthGate::Shut {
        return password::run(caller, line, after, out);
    }
    let mut words = Words::of(line);
    let command = words.next().unwrap_or_default();
    if command.len() < COMMAND_MIN {
        return reply_line(out, BAD_FORMAT);
    }
    let mark = out.len();
    let outcome = match command {
        b"get" => return get::begin(caller, PendingGet::VALUES, words, line, out),
        b"gets" => return get::begin(caller, PendingGet::VALUES_AND_CAS, words, line, out),
        b"mg" => return meta::mg::run(caller, words, out),
        b"ms" => return meta::ms::run(caller, words, after, out),
        b"set" => store::run(caller, StoreMode::Set, words, after, out),
        _ => match run_without_noreply(caller, command, words, line, out) {
            Some(outcome) => return outcome,
            None => run_with_noreply(caller, command, words, line, after, out),
        },
    };
    let Some(outcome) = outcome else {
        return reply_line(out, BAD_FORMAT);
    };
    if Words::of(line).ends_with_noreply() {
        out.truncate(mark);
    }
    outcome
}

/// Runs a command that has no `noreply` and so always gets a reply. Returns `None` for other commands.
fn run_without_noreply(
    caller: Caller<'_>,
    command: &[u8],
    words: Words<'_>,
    line: &[u8],
    out: &mut Vec<u8>,
) -> Option<RequestOutcome> {
    Some(match command {
        b"md" => meta::md::run(caller, words, out),
        b"ma" => meta::ma::run(caller, words, out),
        b"mn" => reply_line(out, b"MN\r\n"),
        b"me" => meta::me::run(caller, words, out),
        b"gat" => get::begin_touching(caller, GetFields::Value, words, line, out),
        b"gats" => get::begin_touching(caller, GetFields::ValueAndCas, words, line, out),
        b"stats" => stats::run(caller, words, out),
        b"version" => admin::version(out),
        b"watch" => admin::watch(caller, words, out),
        b"quit" => RequestOutcome::Stop(LoopAction::Close),
        _ => return None,
    })
}

/// Runs a command that gets no reply of any kind if `noreply` is the last word of its line. Returns `None` if the line
/// lacks what the command needs. The reply to that is always sent.
fn run_with_noreply(
    caller: Caller<'_>,
    command: &[u8],
    words: Words<'_>,
    line: &[u8],
    after: RequestBody<'_>,
    out: &mut Vec<u8>,
) -> Option<RequestOutcome> {
    Some(match command {
        b"add" => return store::run(caller, StoreMode::Add, words, after, out),
        b"replace" => return store::run(caller, StoreMode::Replace, words, after, out),
        b"append" => return store::run(caller, StoreMode::Append, words, after, out),
        b"prepend" => return store::run(caller, StoreMode::Prepend, words, after, out),
        b"cas" => return store::run(caller, StoreMode::Cas, words, after, out),
        b"delete" => return change::delete(caller, words, out),
        b"incr" => return change::count(caller, Direction::Up, words, out),
        b"decr" => return change::count(caller, Direction::Down, words, out),
        b"touch" => return change::touch(caller, words, out),
        b"flush_all" => admin::flush_all(caller, words, out),
        b"verbosity" => admin::verbosity(caller, words, out),
        b"cache_memlimit" => admin::cache_memlimit(caller, words, out),
        b"shutdown" => admin::shutdown(caller, words, out),
        b"refresh_certs" => admin::refresh_certs(caller, out),
        b"slabs" => crawler::slabs(words, out),
        b"lru" => crawler::lru(words, out),
        b"lru_crawler" => crawler::lru_crawler(caller, words, out),
        _ => unknown(line, out),
    })
}

/// Replies to an unknown command. If it looks like HTTP of a browser or a scanner, the connection is closed.
fn unknown(line: &[u8], out: &mut Vec<u8>) -> RequestOutcome {
    match Words::of(line).last() {
        Some(word) if word.starts_with(b"HTTP/") => RequestOutcome::ProtocolError,
        _ => reply_line(out, ERROR),
    }
}
