//! The text protocol's authentication (`-Y`): a set of any key whose block is `user password`.

use super::super::numbers;
use super::super::session::{After, Ran};
use super::words::Words;
use super::{Turn, block_len, say};

/// The longest block that is read, bytes.
const TOKEN_MAX: usize = 16 << 10;

const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";

/// Answers any line of a client that has not shown who it is.
pub(super) fn run(
    turn: Turn<'_>,
    command: &[u8],
    words: Words<'_>,
    after: After<'_>,
    out: &mut Vec<u8>,
) -> Ran {
    let Some(len) = token_len(command, words) else {
        return say(out, UNAUTHENTICATED);
    };
    let body = block_len(len);
    if len > TOKEN_MAX {
        say(out, b"CLIENT_ERROR auth token too long\r\n");
        return Ran::Swallow { body };
    }
    let After::Input(after) = after else {
        say(out, UNAUTHENTICATED);
        return Ran::Swallow { body };
    };
    match super::block(after, len) {
        super::Block::Awaited => Ran::Awaits { body },
        super::Block::Bad => {
            say(out, b"CLIENT_ERROR bad command line termination\r\n");
            Ran::Done { after: body }
        }
        super::Block::Value(token) => check(turn, token, body, out),
    }
}

fn token_len(command: &[u8], mut words: Words<'_>) -> Option<usize> {
    let len = words.nth(3)?;
    let len = numbers::unsigned(len)?;
    (command == b"set").then_some(usize::try_from(len).ok()?.min(super::store::VALUE_MAX))
}

fn check(turn: Turn<'_>, token: &[u8], after: usize, out: &mut Vec<u8>) -> Ran {
    let mut words = Words::of(token);
    let (Some(user), Some(password)) = (words.next(), words.next()) else {
        say(out, b"CLIENT_ERROR bad authentication token format\r\n");
        return Ran::Done { after };
    };
    turn.counters().auth_cmds.bump();
    match turn.face.admit(user, password) {
        Some(tenant) => {
            say(out, b"STORED\r\n");
            Ran::Admit { after, tenant }
        }
        None => {
            turn.counters().auth_errors.bump();
            say(out, b"CLIENT_ERROR authentication failure\r\n");
            Ran::Done { after }
        }
    }
}
