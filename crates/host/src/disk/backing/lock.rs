//! The locks by which QEMU and others see that an image is in use: bytes of the file, locked for the open file.
//!
//! Byte 100 + n is locked by whoever has permission n, byte 200 + n by whoever does not share it. All locks are
//! shared ones; who takes them asks afterwards whether anybody holds the opposite.

use std::fs::File;
use std::io;

use crate::ofd::{Hold, is_anothers, lock};

const HAS: i64 = 100;
const SHARES_NOT: i64 = 200;

const CONSISTENT_READ: i64 = 0;
const WRITE: i64 = 1;
const RESIZE: i64 = 3;

/// Locks an image for reading, or for writing too. Says whether nobody else is in the way.
pub(super) fn take(file: &File, read_only: bool) -> io::Result<bool> {
    if !hold(file, read_only)? {
        return Ok(false);
    }
    let (has, shares_not) = wanted(read_only);
    let denied = has.iter().map(|n| SHARES_NOT + n);
    for byte in denied.chain(shares_not.iter().map(|n| HAS + n)) {
        if is_anothers(file, byte)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Locks an image that is ours already, for another open file of it.
pub(super) fn hold(file: &File, read_only: bool) -> io::Result<bool> {
    let (has, shares_not) = wanted(read_only);
    let bytes = has.iter().map(|n| HAS + n);
    for byte in bytes.chain(shares_not.iter().map(|n| SHARES_NOT + n)) {
        if !lock(file, Hold::Shared, byte)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The permissions that are needed, and those that nobody else may have.
fn wanted(read_only: bool) -> (&'static [i64], &'static [i64]) {
    match read_only {
        true => (&[CONSISTENT_READ], &[WRITE, RESIZE]),
        false => (&[CONSISTENT_READ, WRITE, RESIZE], &[WRITE, RESIZE]),
    }
}
