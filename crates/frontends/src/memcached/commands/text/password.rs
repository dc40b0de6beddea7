//! The text protocol's authentication (`-Y`): a set of any key with the block `user password`.

use memchr::memchr;

use super::super::reply::reply_line;
use crate::memcached::caller::Caller;
use crate::memcached::numbers;
use crate::memcached::outcome::{LoopAction, RequestBody, RequestOutcome};
use crate::memcached::passwords::Login;
use crate::memcached::wire::value_block::{ValueBlock, value_block, value_block_len};
use crate::memcached::wire::words::Words;

/// The longest block that is read, in bytes.
const TOKEN_MAX: usize = 16 << 10;

/// A shorter line, not counting its end, can be no login. memcached closes the connection at such a line, also at
/// `quit`.
const LINE_MIN: usize = 5;

const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";

/// Answers any line of a client that has not authenticated.
pub(super) fn run(
    caller: Caller<'_>,
    line: &[u8],
    after: RequestBody<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let mut words = Words::of(line);
    let command = words.next().unwrap_or_default();
    if line.len() < LINE_MIN || command == b"quit" {
        return RequestOutcome::Stop(LoopAction::Close);
    }
    let Some(len) = token_len(command, words) else {
        return reply_line(out, UNAUTHENTICATED);
    };
    if len > TOKEN_MAX {
        // The session does not wait for the announced block. It reads the next line as a request.
        return reply_line(out, b"CLIENT_ERROR auth token too long\r\n");
    }
    let body = value_block_len(len);
    let RequestBody::Input(after) = after else {
        reply_line(out, UNAUTHENTICATED);
        return RequestOutcome::Swallow { body };
    };
    match value_block(after, len) {
        ValueBlock::Awaited => RequestOutcome::Awaits { body },
        ValueBlock::Bad => {
            reply_line(out, b"CLIENT_ERROR bad command line termination\r\n");
            RequestOutcome::Done { body }
        }
        ValueBlock::Value(token) => check_login(caller, token, body, out),
    }
}

fn token_len(command: &[u8], mut words: Words<'_>) -> Option<usize> {
    let len = words.nth(3).and_then(numbers::unsigned_32)?;
    (command == b"set").then_some(len as usize)
}

fn check_login(caller: Caller<'_>, token: &[u8], body: usize, out: &mut Vec<u8>) -> RequestOutcome {
    let Some(space) = memchr(b' ', token) else {
        reply_line(out, b"CLIENT_ERROR bad authentication token format\r\n");
        return RequestOutcome::Done { body };
    };
    caller.counters().auth_cmds.bump();
    let login = Login::of(&token[..space], &token[space + 1..]);
    match caller.instance.authenticate(&login) {
        Some(tenant) => {
            reply_line(out, b"STORED\r\n");
            RequestOutcome::Authenticated { body, tenant }
        }
        None => {
            caller.counters().auth_errors.bump();
            reply_line(out, b"CLIENT_ERROR authentication failure\r\n");
            RequestOutcome::Done { body }
        }
    }
}
