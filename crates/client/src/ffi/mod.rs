//! The page ring for C, and for whatever speaks C; the header is `include/sublet_ring.h`.
//!
//! Every function that can fail returns a number: 0 or more is an outcome, less than 0 says why there is none, and
//! `sublet_text` says it in words. A handle is for one thread at a time.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::slice;

use sublet_types::{ObjectId, PageIndex, SharedName};

use crate::ring::layout::{self, RUN_PAGES_MAX};
use crate::ring::{CallError, Client, Fault, Key, Page, Run, SHAPE, Shape};

mod batch;
mod codes;

pub use batch::*;
pub use codes::*;
use codes::{code_of, code_of_connect, code_of_get, code_of_put, code_of_run, done};

/// Bytes of a page.
pub const SUBLET_PAGE_BYTES: usize = 4096;
/// The most pages of a run.
pub const SUBLET_RUN_PAGES_MAX: u32 = 64;

/// A pool that keeps its pages until they are flushed.
pub const SUBLET_POOL_PERSISTENT: u32 = 1;
/// A pool that everybody shares who may use its name.
pub const SUBLET_POOL_SHARED: u32 = 2;
/// A pool whose pages stay when they are got.
pub const SUBLET_POOL_KEEPING: u32 = 4;

/// How far the batch of a connection has come.
#[derive(Clone, Copy)]
enum Gathering {
    /// There is none.
    None,
    /// Requests are added, which use so many page slots.
    Adding(u32),
    /// It was run, and can be asked for its answers.
    Ran,
}

/// A connection to a tenant's ring.
pub struct SubletRing {
    client: Client,
    gathering: Gathering,
}

/// Which page: pool, object and index.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SubletKey {
    /// The pool's handle.
    pub pool: u64,
    /// The object.
    pub object: u64,
    /// The page in it.
    pub index: u32,
}

impl From<SubletKey> for Key {
    fn from(key: SubletKey) -> Key {
        Key {
            pool: layout::pool_of(key.pool),
            object: ObjectId(key.object),
            index: PageIndex(key.index),
        }
    }
}

/// What became of each page of a run: bit n stands for page n.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SubletRun {
    /// The pages that were stored, or hit.
    pub done: u64,
    /// The pages of a put that replaced older ones.
    pub replaced: u64,
}

impl SubletRun {
    /// Nothing was done where there is no answer.
    fn of(run: &Result<Run, CallError>) -> SubletRun {
        let run = run.unwrap_or_default();
        SubletRun {
            done: run.bits(),
            replaced: run.replaced_bits(),
        }
    }
}

/// The version of the ring that this library speaks.
#[unsafe(no_mangle)]
pub extern "C" fn sublet_version() -> u32 {
    layout::VERSION
}

/// Connects to the ring that listens at `path`. `entries`, a power of two up to 4096, and `page_slots`, up to 65536, are how
/// large it should be, 0 for the usual size; the daemon may grant less. A ring is for one thread at a time, and for the
/// process that connected: in one that is forked from it calls return `SUBLET_FORKED`. On success `*ring` is to
/// be closed by `sublet_close`.
///
/// # Safety
///
/// `path` must be a string that ends in a zero byte, `ring` a place to write to; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_connect(
    path: *const c_char,
    entries: u32,
    page_slots: u32,
    ring: *mut *mut SubletRing,
) -> c_int {
    if path.is_null() || ring.is_null() {
        return SUBLET_WRONG;
    }
    // SAFETY: not null, and ended by a zero byte, as the caller promises.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    let or = |wanted: u32, usual: u32| if wanted == 0 { usual } else { wanted };
    let entries = or(entries, SHAPE.entries());
    let Ok(wish) = Shape::new(entries, or(page_slots, SHAPE.page_slots())) else {
        return SUBLET_SHAPE;
    };
    match Client::connect_with(path, wish) {
        Err(error) => code_of_connect(&error),
        Ok(client) => {
            let gathering = Gathering::None;
            let opened = Box::new(SubletRing { client, gathering });
            // SAFETY: not null, and a place to write to, as the caller promises.
            unsafe { ring.write(Box::into_raw(opened)) };
            SUBLET_OK
        }
    }
}

/// Ends a connection. Null is fine.
///
/// # Safety
///
/// `ring` must come from `sublet_connect` and is not to be used any more, nor any page of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_close(ring: *mut SubletRing) {
    if !ring.is_null() {
        // SAFETY: it came from `Box::into_raw`, and the caller gives it up.
        drop(unsafe { Box::from_raw(ring) });
    }
}

/// How large the ring is: how many requests a batch may hold, and how many pages. That does not end a batch.
///
/// # Safety
///
/// `ring` must be open, `entries` and `page_slots` places to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_shape(
    ring: *const SubletRing,
    entries: *mut u32,
    page_slots: *mut u32,
) -> c_int {
    // SAFETY: the caller promises that it is null or open.
    let ring = unsafe { ring.as_ref() };
    let (Some(ring), false, false) = (ring, entries.is_null(), page_slots.is_null()) else {
        return SUBLET_WRONG;
    };
    let shape = ring.client.shape();
    // SAFETY: not null, and places to write to, as the caller promises.
    unsafe {
        entries.write(shape.entries());
        page_slots.write(shape.page_slots());
    }
    SUBLET_OK
}

/// Makes a pool, or joins the shared one of that name: 16 bytes of a UUID, or null for a pool that ends with the
/// connection. `flags` are those named `SUBLET_POOL_`.
///
/// # Safety
///
/// `ring` must be open, `shared_name` null or 16 bytes, `pool` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_create_pool(
    ring: *mut SubletRing,
    flags: u32,
    shared_name: *const u8,
    pool: *mut u64,
) -> c_int {
    // SAFETY: what the caller promises is what `open` asks for.
    let ring = unsafe { open(ring) };
    let flags = u16::try_from(flags).ok().and_then(layout::flags_of);
    let (Some(ring), Some(flags), false) = (ring, flags, pool.is_null()) else {
        return SUBLET_WRONG;
    };
    let shared = (!shared_name.is_null()).then(|| {
        // SAFETY: not null, and 16 bytes, as the caller promises; bytes need no alignment.
        let name = unsafe { shared_name.cast::<[u8; 16]>().read() };
        SharedName(u128::from_be_bytes(name))
    });
    match ring.client.create_pool(flags, shared) {
        Err(error) => code_of(error),
        Ok(made) => {
            // SAFETY: not null, and a place to write to, as the caller promises.
            unsafe { pool.write(layout::handle_of(made)) };
            SUBLET_OK
        }
    }
}

/// Forgets a pool and all its pages.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_destroy_pool(ring: *mut SubletRing, pool: u64) -> c_int {
    // SAFETY: what the caller promises is what `open` asks for.
    let Some(ring) = (unsafe { open(ring) }) else {
        return SUBLET_WRONG;
    };
    done(ring.client.destroy_pool(layout::pool_of(pool)))
}

/// Stores a page of `SUBLET_PAGE_BYTES`.
///
/// # Safety
///
/// `ring` must be open, `page` a page to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_put(
    ring: *mut SubletRing,
    key: SubletKey,
    page: *const c_void,
) -> c_int {
    // SAFETY: what the caller promises is what `open` and `pages` ask for.
    let (ring, page) = unsafe { (open(ring), pages(page, 1)) };
    let (Some(ring), Ok([page])) = (ring, page) else {
        return SUBLET_WRONG;
    };
    ring.client
        .put(key.into(), page)
        .map_or_else(code_of, code_of_put)
}

/// Fetches a page of `SUBLET_PAGE_BYTES`; on anything but `SUBLET_OK` it is left alone.
///
/// # Safety
///
/// `ring` must be open, `page` a page to write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_get(
    ring: *mut SubletRing,
    key: SubletKey,
    page: *mut c_void,
) -> c_int {
    // SAFETY: what the caller promises is what `open` and `pages_mut` ask for.
    let (ring, page) = unsafe { (open(ring), pages_mut(page, 1)) };
    let (Some(ring), Ok([page])) = (ring, page) else {
        return SUBLET_WRONG;
    };
    ring.client
        .get(key.into(), page)
        .map_or_else(code_of, code_of_get)
}

/// Stores `count` pages at indices that follow each other, `SUBLET_RUN_PAGES_MAX` at most. `*run` says which were
/// stored; the number returned says why the first was refused that was.
///
/// # Safety
///
/// `ring` must be open, `pages` hold `count` pages, `run` be a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_put_run(
    ring: *mut SubletRing,
    first: SubletKey,
    count: u32,
    pages: *const c_void,
    run: *mut SubletRun,
) -> c_int {
    // SAFETY: what the caller promises is what `open` and `pages` ask for.
    let (ring, pages) = unsafe { (open(ring), self::pages(pages, count)) };
    let (Some(ring), false) = (ring, run.is_null()) else {
        return SUBLET_WRONG;
    };
    let stored = match pages {
        Ok(pages) => ring.client.put_run(first.into(), pages),
        Err(code) => return code,
    };
    // SAFETY: not null, and a place to write to, as the caller promises.
    unsafe { run.write(SubletRun::of(&stored)) };
    stored.map_or_else(code_of, code_of_run)
}

/// Fetches `count` pages from indices that follow each other, `SUBLET_RUN_PAGES_MAX` at most. `*run` says which were
/// hit; the others are left alone.
///
/// # Safety
///
/// `ring` must be open, `pages` have room for `count` pages, `run` be a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_get_run(
    ring: *mut SubletRing,
    first: SubletKey,
    count: u32,
    pages: *mut c_void,
    run: *mut SubletRun,
) -> c_int {
    // SAFETY: what the caller promises is what `open` and `pages_mut` ask for.
    let (ring, pages) = unsafe { (open(ring), pages_mut(pages, count)) };
    let (Some(ring), false) = (ring, run.is_null()) else {
        return SUBLET_WRONG;
    };
    let hits = match pages {
        Ok(pages) => ring.client.get_run(first.into(), pages),
        Err(code) => return code,
    };
    // SAFETY: not null, and a place to write to, as the caller promises.
    unsafe { run.write(SubletRun::of(&hits)) };
    hits.map_or_else(code_of, code_of_run)
}

/// Forgets a page; that it was not there is fine.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_flush_page(ring: *mut SubletRing, key: SubletKey) -> c_int {
    // SAFETY: what the caller promises is what `open` asks for.
    let Some(ring) = (unsafe { open(ring) }) else {
        return SUBLET_WRONG;
    };
    done(ring.client.flush_page(key.into()))
}

/// Forgets all pages of an object.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_flush_object(
    ring: *mut SubletRing,
    pool: u64,
    object: u64,
) -> c_int {
    // SAFETY: what the caller promises is what `open` asks for.
    let Some(ring) = (unsafe { open(ring) }) else {
        return SUBLET_WRONG;
    };
    let pool = layout::pool_of(pool);
    done(ring.client.flush_object(pool, ObjectId(object)))
}

/// A handle for a call that is no part of a batch.
///
/// # Safety
///
/// `ring` must be null, or come from `sublet_connect` and be used by nobody else until the call is over.
unsafe fn open<'a>(ring: *mut SubletRing) -> Option<&'a mut SubletRing> {
    // SAFETY: as the caller of this function promises.
    let ring = unsafe { ring.as_mut() }?;
    ring.gathering = Gathering::None;
    Some(ring)
}

/// # Safety
///
/// `pages` must be null, or `count` pages that nobody writes to until the call is over.
unsafe fn pages<'a>(pages: *const c_void, count: u32) -> Result<&'a [Page], c_int> {
    check_run(pages, count)?;
    // SAFETY: as the caller of this function promises; bytes need no alignment.
    Ok(unsafe { slice::from_raw_parts(pages.cast(), count as usize) })
}

/// # Safety
///
/// `pages` must be null, or `count` pages that nobody else uses until the call is over.
unsafe fn pages_mut<'a>(pages: *mut c_void, count: u32) -> Result<&'a mut [Page], c_int> {
    check_run(pages, count)?;
    // SAFETY: as the caller of this function promises; bytes need no alignment.
    Ok(unsafe { slice::from_raw_parts_mut(pages.cast(), count as usize) })
}

/// The number to return for pages that cannot be looked at.
fn check_run(pages: *const c_void, count: u32) -> Result<(), c_int> {
    match count {
        _ if pages.is_null() => Err(SUBLET_WRONG),
        1..=RUN_PAGES_MAX => Ok(()),
        _ => Err(code_of(Fault::Run.into())),
    }
}

#[cfg(test)]
mod tests;
