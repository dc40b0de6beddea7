//! The locks by which QEMU and others see that an image is in use: bytes of the file, locked for the open file.
//!
//! A process that has permission n locks byte 100 + n. A process that does not share permission n locks byte 200 + n.
//! All locks are shared. A process that takes them then asks whether another process holds the opposite.

use std::fs::File;
use std::io;

use super::BackingAccess;
use crate::ofd::{LockMode, is_locked_by_other, lock};

const HAS: i64 = 100;
const SHARES_NOT: i64 = 200;

const CONSISTENT_READ: i64 = 0;
const WRITE: i64 = 1;
const RESIZE: i64 = 3;

/// Locks an image for reading, or for writing too. Returns whether no other process is in the way.
pub(super) fn acquire(file: &File, access: BackingAccess) -> io::Result<bool> {
    if !relock(file, access)? {
        return Ok(false);
    }
    let (has, shares_not) = permissions(access);
    let denied = has.iter().map(|n| SHARES_NOT + n);
    for byte in denied.chain(shares_not.iter().map(|n| HAS + n)) {
        if is_locked_by_other(file, byte)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Locks an image that is ours already, for another open file of it.
pub(super) fn relock(file: &File, access: BackingAccess) -> io::Result<bool> {
    let (has, shares_not) = permissions(access);
    let bytes = has.iter().map(|n| HAS + n);
    for byte in bytes.chain(shares_not.iter().map(|n| SHARES_NOT + n)) {
        if !lock(file, LockMode::Shared, byte)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The permissions that are needed, and those that nobody else may have.
fn permissions(access: BackingAccess) -> (&'static [i64], &'static [i64]) {
    match access {
        BackingAccess::ReadOnly => (&[CONSISTENT_READ], &[WRITE, RESIZE]),
        BackingAccess::ReadWrite => (&[CONSISTENT_READ, WRITE, RESIZE], &[WRITE, RESIZE]),
    }
}
