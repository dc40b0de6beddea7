//! memcached's text protocol: a line, for stores a block behind it, and reply lines.

mod admin;
pub(in crate::memcached) mod ahead;
mod change;
mod crawler;
pub(in crate::memcached) mod get;
mod password;
mod stats;
mod store;

use super::meta;
use super::reply::{BAD_FORMAT, ERROR, say};
use crate::memcached::caller::Caller;
use crate::memcached::outcome::{After, Gate, Next, PendingGet, Ran, Shows};
use crate::memcached::verbs::{Direction, Mode};
use crate::memcached::wire::words::Words;

/// The shortest command, bytes.
const COMMAND_MIN: usize = 2;

/// Runs one request: its line (without its end) and what follows it.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    gate: Gate,
    line: &[u8],
    after: After<'_>,
    out: &mut Vec<u8>,
) -> Ran {
    if gate == Gate::Shut {
        return password::run(caller, line, after, out);
    }
    let mut words = Words::of(line);
    let command = words.next().unwrap_or_default();
    if command.len() < COMMAND_MIN {
        return say(out, BAD_FORMAT);
    }
    let mark = out.len();
    let ran = match command {
        b"get" => return get::begin(caller, PendingGet::VALUES, words, line, out),
        b"gets" => return get::begin(caller, PendingGet::VALUES_AND_CAS, words, line, out),
        b"mg" => return meta::mg::run(caller, words, out),
        b"ms" => return meta::ms::run(caller, words, after, out),
        b"set" => store::run(caller, Mode::Set, words, after, out),
        _ => match told(caller, command, words, line, out) {
            Some(ran) => return ran,
            None => changing(caller, command, words, line, after, out),
        },
    };
    let Some(ran) = ran else {
        return say(out, BAD_FORMAT);
    };
    if Words::of(line).ask_silence() {
        out.truncate(mark);
    }
    ran
}

/// Commands that have no `noreply`: what they say is always told. Nothing for the others.
fn told(
    caller: Caller<'_>,
    command: &[u8],
    words: Words<'_>,
    line: &[u8],
    out: &mut Vec<u8>,
) -> Option<Ran> {
    Some(match command {
        b"md" => meta::md::run(caller, words, out),
        b"ma" => meta::ma::run(caller, words, out),
        b"mn" => say(out, b"MN\r\n"),
        b"me" => meta::me::run(caller, words, out),
        b"gat" => get::begin_touching(caller, Shows::Value, words, line, out),
        b"gats" => get::begin_touching(caller, Shows::ValueAndCas, words, line, out),
        b"stats" => stats::run(caller, words, out),
        b"version" => admin::version(out),
        b"watch" => admin::watch(caller, words, out),
        b"quit" => Ran::Stop(Next::Close),
        _ => return None,
    })
}

/// Commands that say nothing, whatever it would be, where `noreply` is the last word of their line. Nothing where the line
/// is not enough to know what it asks: that is told in any case.
fn changing(
    caller: Caller<'_>,
    command: &[u8],
    words: Words<'_>,
    line: &[u8],
    after: After<'_>,
    out: &mut Vec<u8>,
) -> Option<Ran> {
    Some(match command {
        b"add" => return store::run(caller, Mode::Add, words, after, out),
        b"replace" => return store::run(caller, Mode::Replace, words, after, out),
        b"append" => return store::run(caller, Mode::Append, words, after, out),
        b"prepend" => return store::run(caller, Mode::Prepend, words, after, out),
        b"cas" => return store::run(caller, Mode::Cas, words, after, out),
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

/// A command that nobody knows. A browser or a scanner that speaks HTTP is hung up on.
fn unknown(line: &[u8], out: &mut Vec<u8>) -> Ran {
    match Words::of(line).last() {
        Some(word) if word.starts_with(b"HTTP/") => Ran::Break,
        _ => say(out, ERROR),
    }
}
