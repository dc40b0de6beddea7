//! delete, incr, decr, touch.

use sublet_store::NewCas;

use super::super::map::Key;
use super::super::observe::Command;
use super::super::operate::{Counted, Deleted, Delta, Direction};
use super::super::session::Ran;
use super::super::{numbers, operate};
use super::words::Words;
use super::{BAD_FORMAT, NO_MEMORY, NOT_A_NUMBER, Turn, answer, say};

const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";

/// Words after delete's key: a time, which has no meaning any more, `noreply`, and one to spare.
const DELETE_WORDS_MAX: usize = 3;

/// Answers delete.
pub(super) fn delete(turn: Turn<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    let Some(key) = words.next().and_then(Key::new) else {
        return say(out, BAD_FORMAT);
    };
    if words.count() > DELETE_WORDS_MAX {
        return say(out, BAD_FORMAT);
    }
    let reply = match operate::delete(turn, &key, None, Command::Delete) {
        Deleted::Done => b"DELETED\r\n".as_slice(),
        Deleted::NotFound | Deleted::Exists => NOT_FOUND,
    };
    answer(out, &words, reply)
}

/// Answers incr and decr.
pub(super) fn count(
    turn: Turn<'_>,
    direction: Direction,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> Ran {
    let (Some(key), Some(by)) = (words.next().and_then(Key::new), words.next()) else {
        return say(out, BAD_FORMAT);
    };
    let Some(by) = numbers::unsigned(by) else {
        let reply = b"CLIENT_ERROR invalid numeric delta argument\r\n";
        return answer(out, &words, reply);
    };
    let delta = Delta {
        key,
        direction,
        by,
        compare: None,
        seed: None,
        expiry: None,
        cas: NewCas::Fresh,
        binary_key: false,
    };
    let reply = match operate::count(turn, &delta) {
        Counted::To { number, .. } | Counted::Seeded { number, .. } => {
            if !words.ask_silence() {
                numbers::write(out, number);
                out.extend_from_slice(b"\r\n");
            }
            return Ran::Done { after: 0 };
        }
        Counted::Missing | Counted::Exists => NOT_FOUND,
        Counted::NotANumber => NOT_A_NUMBER,
        Counted::NoMemory => NO_MEMORY,
    };
    answer(out, &words, reply)
}

/// Answers touch.
pub(super) fn touch(turn: Turn<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    let (Some(key), Some(exptime)) = (words.next().and_then(Key::new), words.next()) else {
        return say(out, BAD_FORMAT);
    };
    let Some(exptime) = numbers::signed_32(exptime) else {
        return answer(out, &words, b"CLIENT_ERROR invalid exptime argument\r\n");
    };
    let expiry = turn.expiry(exptime.into());
    let reply = match operate::touch(turn, &key, expiry, |_| ()) {
        Some(()) => b"TOUCHED\r\n".as_slice(),
        None => NOT_FOUND,
    };
    answer(out, &words, reply)
}
