//! The text protocol's authentication (`-Y`): a set of any key whose block is `user password`.

use memchr::memchr;

use super::super::reply::say;
use crate::memcached::caller::Caller;
use crate::memcached::numbers;
use crate::memcached::outcome::{After, Next, Ran};
use crate::memcached::passwords::Login;
use crate::memcached::wire::block::{Block, block, block_len};
use crate::memcached::wire::words::Words;

/// The longest block that is read, bytes.
const TOKEN_MAX: usize = 16 << 10;

/// A shorter line can be no login, its end apart. memcached hangs up on such, `quit` among them.
const LINE_MIN: usize = 5;

const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";

/// Answers any line of a client that has not shown who it is.
pub(super) fn run(caller: Caller<'_>, line: &[u8], after: After<'_>, out: &mut Vec<u8>) -> Ran {
    let mut words = Words::of(line);
    let command = words.next().unwrap_or_default();
    if line.len() < LINE_MIN || command == b"quit" {
        return Ran::Stop(Next::Close);
    }
    let Some(len) = token_len(command, words) else {
        return say(out, UNAUTHENTICATED);
    };
    if len > TOKEN_MAX {
        // What was announced is not waited for: the next line is read as one.
        return say(out, b"CLIENT_ERROR auth token too long\r\n");
    }
    let body = block_len(len);
    let After::Input(after) = after else {
        say(out, UNAUTHENTICATED);
        return Ran::Swallow { body };
    };
    match block(after, len) {
        Block::Awaited => Ran::Awaits { body },
        Block::Bad => {
            say(out, b"CLIENT_ERROR bad command line termination\r\n");
            Ran::Done { after: body }
        }
        Block::Value(token) => check(caller, token, body, out),
    }
}

fn token_len(command: &[u8], mut words: Words<'_>) -> Option<usize> {
    let len = words.nth(3).and_then(numbers::unsigned_32)?;
    (command == b"set").then_some(len as usize)
}

fn check(caller: Caller<'_>, token: &[u8], after: usize, out: &mut Vec<u8>) -> Ran {
    let Some(space) = memchr(b' ', token) else {
        say(out, b"CLIENT_ERROR bad authentication token format\r\n");
        return Ran::Done { after };
    };
    caller.counters().auth_cmds.bump();
    let login = Login::of(&token[..space], &token[space + 1..]);
    match caller.instance.admit(&login) {
        Some(tenant) => {
            say(out, b"STORED\r\n");
            Ran::Admit { after, tenant }
        }
        None => {
            caller.counters().auth_errors.bump();
            say(out, b"CLIENT_ERROR authentication failure\r\n");
            Ran::Done { after }
        }
    }
}
