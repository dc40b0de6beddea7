//! delete, incr, decr, touch.

use sublet_store::NewCas;

use super::super::reply::{BAD_FORMAT, NO_MEMORY, NOT_A_NUMBER, say};
use crate::memcached::caller::Caller;
use crate::memcached::events::Command;
use crate::memcached::map::Key;
use crate::memcached::operate::{Counted, Delta};
use crate::memcached::outcome::Ran;
use crate::memcached::verbs::{Deleted, Direction};
use crate::memcached::wire::words::Words;
use crate::memcached::{numbers, operate};

const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";

/// Words after delete's key: a time, which has no meaning any more, `noreply`, and one to spare. memcached takes any number;
/// libmemcached's test of servers (`memccapable`) does not.
const DELETE_WORDS_MAX: usize = 3;

/// Answers delete; nothing without a key.
pub(super) fn delete(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Option<Ran> {
    let Some(key) = Key::new(words.next()?) else {
        return Some(say(out, BAD_FORMAT));
    };
    if words.count() > DELETE_WORDS_MAX {
        return Some(say(out, BAD_FORMAT));
    }
    let reply = match operate::delete(caller, &key, None, Command::Delete) {
        Deleted::Done => b"DELETED\r\n".as_slice(),
        Deleted::NotFound | Deleted::Exists => NOT_FOUND,
    };
    Some(say(out, reply))
}

/// Answers incr and decr; nothing without a key and a number.
pub(super) fn count(
    caller: Caller<'_>,
    direction: Direction,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> Option<Ran> {
    let (key, by) = (words.next()?, words.next()?);
    let Some(key) = Key::new(key) else {
        return Some(say(out, BAD_FORMAT));
    };
    let Some(by) = numbers::unsigned(by) else {
        let reply = b"CLIENT_ERROR invalid numeric delta argument\r\n";
        return Some(say(out, reply));
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
    let reply: &[u8] = match operate::count(caller, &delta) {
        Counted::To { number, .. } | Counted::Seeded { number, .. } => {
            numbers::write(out, number);
            b"\r\n"
        }
        Counted::Missing | Counted::Exists => NOT_FOUND,
        Counted::NotANumber => NOT_A_NUMBER,
        Counted::NoMemory => NO_MEMORY,
    };
    Some(say(out, reply))
}

/// Answers touch; nothing without a key and a time.
pub(super) fn touch(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Option<Ran> {
    let (key, exptime) = (words.next()?, words.next()?);
    let Some(key) = Key::new(key) else {
        return Some(say(out, BAD_FORMAT));
    };
    let Some(exptime) = numbers::signed_32(exptime) else {
        return Some(say(out, b"CLIENT_ERROR invalid exptime argument\r\n"));
    };
    let expiry = caller.expiry(exptime.into());
    let reply = match operate::touch(caller, &key, expiry, |_| ()) {
        Some(()) => b"TOUCHED\r\n".as_slice(),
        None => NOT_FOUND,
    };
    Some(say(out, reply))
}
