//! The numbers that functions return.

use std::ffi::{c_char, c_int};
use std::io::ErrorKind;

use crate::ring::{
    BatchError, CallError, ConnectError, Fault, GetOutcome, PutOutcome, Refusal, Rejection,
    RunOutcome,
};

/// Success: a page was stored, or hit.
pub const SUBLET_OK: c_int = 0;
/// A put replaced an older page.
pub const SUBLET_REPLACED: c_int = 1;
/// A get found no page.
pub const SUBLET_MISS: c_int = 2;
/// The connection is closed: connect again.
pub const SUBLET_GONE: c_int = -1;
/// Nobody listens at that path.
pub const SUBLET_UNREACHABLE: c_int = -2;
/// The other side speaks no ring of this version.
pub const SUBLET_GARBLED: c_int = -3;
/// A pointer is null, or a number makes no sense.
pub const SUBLET_WRONG: c_int = -4;
/// The batch holds as many requests as the ring has entries: run it first.
pub const SUBLET_BATCH_FULL: c_int = -5;
/// The batch holds as many pages as the ring has page slots: run it first.
pub const SUBLET_BATCH_PAGES_FULL: c_int = -6;
/// This user may not open the socket, or pass the folders on the way to it.
pub const SUBLET_FORBIDDEN: c_int = -7;
/// The shape is impossible: a ring has a power of two of entries, 4096 at most, and 1 to 65536 page slots.
pub const SUBLET_SHAPE: c_int = -8;
/// Another process connected, and this one was forked from it: connect here, too.
pub const SUBLET_FORKED: c_int = -9;
/// The daemon rejected this program. The reason's number is subtracted from this:
///
/// - 1: another version
/// - 2: the user may not connect
/// - 3: all connections are taken
/// - 4: no memory or descriptor left
/// - 5: no greeting
pub const SUBLET_REJECTED: c_int = -20;
/// The daemon refused for now. The reason's number is subtracted from this:
///
/// - 1: no memory now
/// - 2: the tenant is at its target
/// - 3: the tenant is frozen
/// - 4: the shared pool is not for it
/// - 5: persistent pools need `spill`
/// - 6: too many pools
/// - 7: the disk of a persistent pool failed
/// - 8: its file is full
/// - 9: the daemon ended the pool
/// - 10: it serves the tenant no more
pub const SUBLET_REFUSED: c_int = -100;
/// The call makes no sense to the daemon. The fault's number is subtracted from this:
///
/// - 64: no such verb
/// - 65: no such pool
/// - 66: no such page slots
/// - 67: no run of 1 to 64 pages
/// - 68: no such flag
/// - 69: shared and persistent
/// - 70: a shared pool needs a name and only such a pool has one
/// - 71: what must be zero is not
pub const SUBLET_FAULTY: c_int = -200;

/// Writes the meaning of a number to `text`, in words that end in a zero byte. Writes no more than `bytes`. Returns how
/// many bytes the whole text takes.
///
/// # Safety
///
/// `text` must have room for `bytes`, or be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_text(code: c_int, text: *mut c_char, bytes: usize) -> usize {
    let words = words_of(code);
    if !text.is_null() && bytes > 0 {
        let count = words.len().min(bytes - 1);
        // SAFETY: it is not null and has room for `bytes`, which is more than `count`, as the caller promises.
        unsafe {
            text.cast::<u8>().copy_from(words.as_ptr(), count);
            text.add(count).write(0);
        }
    }
    words.len() + 1
}

pub(super) fn done(call: Result<(), CallError>) -> c_int {
    call.map_or_else(code_of, |()| SUBLET_OK)
}

pub(super) fn code_of_put(put: PutOutcome) -> c_int {
    match put {
        PutOutcome::Stored => SUBLET_OK,
        PutOutcome::Replaced => SUBLET_REPLACED,
        PutOutcome::Refused(refusal) => code_of(refusal.into()),
    }
}

pub(super) fn code_of_get(get: GetOutcome) -> c_int {
    match get {
        GetOutcome::Hit => SUBLET_OK,
        GetOutcome::Miss => SUBLET_MISS,
        GetOutcome::Refused(refusal) => code_of(refusal.into()),
    }
}

pub(super) fn code_of_run(run: RunOutcome) -> c_int {
    run.refusal()
        .map_or(SUBLET_OK, |refusal| code_of(refusal.into()))
}

pub(super) fn code_of(error: CallError) -> c_int {
    match error {
        CallError::Gone(_) => SUBLET_GONE,
        CallError::Refused(refusal) => SUBLET_REFUSED - refusal as c_int,
        CallError::Faulty(fault) => SUBLET_FAULTY - fault as c_int,
        CallError::Forked => SUBLET_FORKED,
        CallError::Garbled => SUBLET_GARBLED,
    }
}

pub(super) fn code_of_batch(error: BatchError) -> c_int {
    match error {
        BatchError::Entries => SUBLET_BATCH_FULL,
        BatchError::PageSlots => SUBLET_BATCH_PAGES_FULL,
        BatchError::Forked => SUBLET_FORKED,
        BatchError::Run => code_of(Fault::Run.into()),
    }
}

pub(super) fn code_of_connect(error: &ConnectError) -> c_int {
    match error {
        ConnectError::Unreachable { source, .. } => match source.kind() {
            ErrorKind::PermissionDenied => SUBLET_FORBIDDEN,
            _ => SUBLET_UNREACHABLE,
        },
        ConnectError::Rejected(rejection) => SUBLET_REJECTED - *rejection as c_int,
        ConnectError::Garbled(_) | ConnectError::NoRing(_) => SUBLET_GARBLED,
    }
}

pub(super) fn words_of(code: c_int) -> String {
    let number = |base: c_int| u16::try_from(base - code).ok();
    let rejection = u32::try_from(SUBLET_REJECTED - code).ok();
    let words = match code {
        SUBLET_OK => "done",
        SUBLET_REPLACED => "done, in place of an older page",
        SUBLET_MISS => "the page is not there",
        SUBLET_GONE => "the connection is over: connect again",
        SUBLET_UNREACHABLE => "no daemon listens for rings there",
        SUBLET_FORBIDDEN => {
            "this user may not open the ring's socket, or pass the folders on the way to it: add its uid to `allow_uids` in the daemon's config"
        }
        SUBLET_SHAPE => {
            "a ring has a power of two of entries, 4096 at most, and 1 to 65536 page slots"
        }
        SUBLET_FORKED => {
            "another process opened this ring and forked this one: connect in this process, too"
        }
        SUBLET_GARBLED => "what answers there is no ring of this version",
        SUBLET_WRONG => "a pointer is null, a number makes no sense, or there is no such batch",
        SUBLET_BATCH_FULL => {
            "the batch holds as many requests as the ring has entries: run it first"
        }
        SUBLET_BATCH_PAGES_FULL => {
            "the batch holds as many pages as the ring has page slots: run it first"
        }
        _ => "",
    };
    let known = (!words.is_empty()).then(|| words.to_owned());
    known
        .or_else(|| Some(Rejection::of(rejection?)?.to_string()))
        .or_else(|| Some(Refusal::of(number(SUBLET_REFUSED)?)?.to_string()))
        .or_else(|| Some(Fault::of(number(SUBLET_FAULTY)?)?.to_string()))
        .unwrap_or_else(|| "a number of another version".to_owned())
}
