//! delete, incr, decr, touch.

use sublet_store::NewCas;

use super::super::reply::{BAD_FORMAT, NO_MEMORY, NOT_A_NUMBER, reply_line};
use crate::memcached::caller::Caller;
use crate::memcached::map::Key;
use crate::memcached::operate::{CountOutcome, Delta};
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::verbs::{DeleteOutcome, Direction};
use crate::memcached::watch_event::DeleteCommand;
use crate::memcached::wire::words::Words;
use crate::memcached::{numbers, operate};

const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";

/// The most words after delete's key: a time without meaning, `noreply`, and one to spare. memcached accepts any
/// number. libmemcached's test of servers (`memccapable`) does not.
const DELETE_WORDS_MAX: usize = 3;

/// Runs delete. Returns `None` if the line has no key.
pub(super) fn delete(
    caller: Caller<'_>,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> Option<RequestOutcome> {
    let Some(key) = Key::new(words.next()?) else {
        return Some(reply_line(out, BAD_FORMAT));
    };
    if words.count() > DELETE_WORDS_MAX {
        return Some(reply_line(out, BAD_FORMAT));
    }
    let reply = match operate::delete(caller, &key, None, DeleteCommand::Delete) {
        DeleteOutcome::Done => b"DELETED\r\n".as_slice(),
        DeleteOutcome::NotFound | DeleteOutcome::Exists => NOT_FOUND,
    };
    Some(reply_line(out, reply))
}

/// Runs incr and decr. Returns `None` if the line has no key and number.
pub(super) fn count(
    caller: Caller<'_>,
    direction: Direction,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> Option<RequestOutcome> {
    let (key, by) = (words.next()?, words.next()?);
    let Some(key) = Key::new(key) else {
        return Some(reply_line(out, BAD_FORMAT));
    };
    let Some(by) = numbers::unsigned(by) else {
        let reply = b"CLIENT_ERROR invalid numeric delta argument\r\n";
        return Some(reply_line(out, reply));
    };
    let delta = Delta {
        key,
        direction,
        by,
        compare: None,
        initial: None,
        expiry: None,
        cas: NewCas::Fresh,
        binary_key: false,
    };
    let reply: &[u8] = match operate::count(caller, &delta) {
        CountOutcome::Changed { number, .. } | CountOutcome::Created { number, .. } => {
            numbers::write(out, number);
            b"\r\n"
        }
        CountOutcome::Missing | CountOutcome::Exists => NOT_FOUND,
        CountOutcome::NotANumber => NOT_A_NUMBER,
        CountOutcome::NoMemory => NO_MEMORY,
    };
    Some(reply_line(out, reply))
}

/// Runs touch. Returns `None` if the line has no key and time.
pub(super) fn touch(
    caller: Caller<'_>,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> Option<RequestOutcome> {
    let (key, exptime) = (words.next()?, words.next()?);
    let Some(key) = Key::new(key) else {
        return Some(reply_line(out, BAD_FORMAT));
    };
    let Some(exptime) = numbers::signed_32(exptime) else {
        return Some(reply_line(
            out,
            b"CLIENT_ERROR invalid exptime argument\r\n",
        ));
    };
    let expiry = caller.expiry(exptime.into());
    let reply = match operate::touch(caller, &key, expiry, |_| ()) {
        Some(()) => b"TOUCHED\r\n".as_slice(),
        None => NOT_FOUND,
    };
    Some(reply_line(out, reply))
}
