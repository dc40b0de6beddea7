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
use crate::memcached::outcome::{After, Gate, Next, Ran, Shows};
use crate::memcached::turn::Turn;
use crate::memcached::verbs::{Direction, Mode};
use crate::memcached::wire::words::Words;

/// The shortest command, bytes.
const COMMAND_MIN: usize = 2;

/// Runs one request: its line (without its end) and what follows it.
pub(in crate::memcached) fn run(
    turn: Turn<'_>,
    gate: Gate,
    line: &[u8],
    after: After<'_>,
    out: &mut Vec<u8>,
) -> Ran {
    if gate == Gate::Shut {
        return password::run(turn, line, after, out);
    }
    let mut words = Words::of(line);
    let command = words.next().unwrap_or_default();
    if command.len() < COMMAND_MIN {
        return say(out, BAD_FORMAT);
    }
    let mark = out.len();
    let ran = match command {
        b"get" => return get::begin(turn, Shows::Value, words, line, out),
        b"gets" => return get::begin(turn, Shows::ValueAndCas, words, line, out),
        b"mg" => return meta::mg::run(turn, words, out),
        b"ms" => return meta::ms::run(turn, words, after, out),
        b"set" => store::run(turn, Mode::Set, words, after, out),
        _ => match told(turn, command, words, line, out) {
            Some(ran) => return ran,
            None => changing(turn, command, words, line, after, out),
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
    turn: Turn<'_>,
    command: &[u8],
    words: Words<'_>,
    line: &[u8],
    out: &mut Vec<u8>,
) -> Option<Ran> {
    Some(match command {
        b"md" => meta::md::run(turn, words, out),
        b"ma" => meta::ma::run(turn, words, out),
        b"mn" => say(out, b"MN\r\n"),
        b"me" => meta::me::run(turn, words, out),
        b"gat" => get::begin_touching(turn, Shows::Value, words, line, out),
        b"gats" => get::begin_touching(turn, Shows::ValueAndCas, words, line, out),
        b"stats" => stats::run(turn, words, out),
        b"version" => admin::version(out),
        b"watch" => admin::watch(turn, words, out),
        b"quit" => Ran::Stop(Next::Close),
        _ => return None,
    })
}

/// Commands that say nothing, whatever it would be, where `noreply` is the last word of their line. Nothing where the line
/// is not enough to know what it asks: that is told in any case.
fn changing(
    turn: Turn<'_>,
    command: &[u8],
    words: Words<'_>,
    line: &[u8],
    after: After<'_>,
    out: &mut Vec<u8>,
) -> Option<Ran> {
    Some(match command {
        b"add" => return store::run(turn, Mode::Add, words, after, out),
        b"replace" => return store::run(turn, Mode::Replace, words, after, out),
        b"append" => return store::run(turn, Mode::Append, words, after, out),
        b"prepend" => return store::run(turn, Mode::Prepend, words, after, out),
        b"cas" => return store::run(turn, Mode::Cas, words, after, out),
        b"delete" => return change::delete(turn, words, out),
        b"incr" => return change::count(turn, Direction::Up, words, out),
        b"decr" => return change::count(turn, Direction::Down, words, out),
        b"touch" => return change::touch(turn, words, out),
        b"flush_all" => admin::flush_all(turn, words, out),
        b"verbosity" => admin::verbosity(turn, words, out),
        b"cache_memlimit" => admin::cache_memlimit(turn, words, out),
        b"shutdown" => admin::shutdown(turn, words, out),
        b"refresh_certs" => admin::refresh_certs(turn, out),
        b"slabs" => crawler::slabs(words, out),
        b"lru" => crawler::lru(words, out),
        b"lru_crawler" => crawler::lru_crawler(turn, words, out),
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
