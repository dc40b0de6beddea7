//! The page ring for C, and for every language that can call C. The header is `include/sublet_ring.h`.
//!
//! Every function that can fail returns a number. 0 or more is an outcome. Less than 0 says why there is none.
//! `sublet_text` turns the number into words. Use a handle on one thread at a time.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::slice;

use sublet_types::{ObjectId, PageIndex, SharedName};

use crate::ring::layout::{self, RUN_PAGES_MAX};
use crate::ring::{CallError, Client, DEFAULT_SHAPE, Fault, Key, Page, RunOutcome, Shape};

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
/// A pool that is shared by everybody who may use its name.
pub const SUBLET_POOL_SHARED: u32 = 2;
/// A pool whose pages stay when they are fetched.
pub const SUBLET_POOL_KEEPING: u32 = 4;

/// How far the batch of a connection has come.
#[derive(Clone, Copy)]
enum BatchState {
    /// There is no batch.
    None,
    /// Requests are being added. So far they use this many page slots.
    Adding(u32),
    /// The batch has run, and its answers are there.
    Ran,
}

/// A connection to a tenant's ring.
pub struct SubletRing {
    client: Client,
    batch_state: BatchState,
}

/// The name of a page: pool, object and index.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SubletKey {
    /// The pool's handle.
    pub pool: u64,
    /// The object.
    pub object: u64,
    /// The page in the object.
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

/// The outcome of each page of a run: bit n stands for page n.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SubletRun {
    /// The pages that were stored, or hit.
    pub done: u64,
    /// The pages of a put that replaced older ones.
    pub replaced: u64,
}

impl SubletRun {
    /// The outcome of a run. If there is no answer, no page is done.
    fn of(run: &Result<RunOutcome, CallError>) -> SubletRun {
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

/// Connects to the ring that listens at `path`. `entries`, a power of two up to 4096, and `page_slots`, up to 65536,
/// say how large the ring should be. 0 means the usual size. The daemon may grant less. Use a ring on one thread at a
/// time, and only in the process that connected. In a process that is forked from it, calls return `SUBLET_FORKED`. On
/// success, close `*ring` by `sublet_close`.
///
/// # Safety
///
/// `path` must be a string that ends in a zero byte, and `ring` a place to write to. Either may be null.
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
    // SAFETY: it is not null and ends in a zero byte, as the caller promises.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    let or = |wanted: u32, usual: u32| if wanted == 0 { usual } else { wanted };
    let entries = or(entries, DEFAULT_SHAPE.entries());
    let Ok(wish) = Shape::new(entries, or(page_slots, DEFAULT_SHAPE.page_slots())) else {
        return SUBLET_SHAPE;
    };
    match Client::connect_with(path, wish) {
        Err(error) => code_of_connect(&error),
        Ok(client) => {
            let batch_state = BatchState::None;
            let opened = Box::new(SubletRing {
                client,
                batch_state,
            });
            // SAFETY: it is not null and a place to write to, as the caller promises.
            unsafe { ring.write(Box::into_raw(opened)) };
            SUBLET_OK
        }
    }
}

/// Closes a connection. `ring` may be null.
///
/// # Safety
///
/// `ring` must come from `sublet_connect`. Do not use it afterwards, nor any page of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_close(ring: *mut SubletRing) {
    if !ring.is_null() {
        // SAFETY: it came from `Box::into_raw`, and the caller gives it up.
        drop(unsafe { Box::from_raw(ring) });
    }
}

/// Returns the size of the ring: how many requests and how many pages a batch may hold. The call does not end a batch.
///
/// # Safety
///
/// `ring` must be open. `entries` and `page_slots` must be places to write to.
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
    // SAFETY: they are not null and places to write to, as the caller promises.
    unsafe {
        entries.write(shape.entries());
        page_slots.write(shape.page_slots());
    }
    SUBLET_OK
}

/// Makes a pool, or joins the shared pool of that name. `shared_name` is the 16 bytes of a UUID, or null for a pool
/// that ends with the connection. `flags` are those named `SUBLET_POOL_`.
///
/// # Safety
///
/// `ring` must be open, `shared_name` null or 16 bytes, and `pool` a place to write to.
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
        // SAFETY: it is not null and has 16 bytes, as the caller promises. Bytes need no alignment.
        let name = unsafe { shared_name.cast::<[u8; 16]>().read() };
        SharedName(u128::from_be_bytes(name))
    });
    match ring.client.create_pool(flags, shared) {
        Err(error) => code_of(error),
        Ok(made) => {
            // SAFETY: it is not null and a place to write to, as the caller promises.
            unsafe { pool.write(layout::handle_of(made)) };
            SUBLET_OK
        }
    }
}

/// Destroys a pool and all its pages.
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
/// `ring` must be open, and `page` a page to read.
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

/// Fetches a page of `SUBLET_PAGE_BYTES`. Only `SUBLET_OK` changes the page.
///
/// # Safety
///
/// `ring` must be open, and `page` a page to write.
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

/// Stores `count` pages at consecutive indices, `SUBLET_RUN_PAGES_MAX` at most. `*run` says which were stored. The
/// returned number says why the first refused page was refused.
///
/// # Safety
///
/// `ring` must be open, `pages` must hold `count` pages, and `run` must be a place to write to.
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
    // SAFETY: it is not null and a place to write to, as the caller promises.
    unsafe { run.write(SubletRun::of(&stored)) };
    stored.map_or_else(code_of, code_of_run)
}

/// Fetches `count` pages from consecutive indices, `SUBLET_RUN_PAGES_MAX` at most. `*run` says which pages hit. The
/// call does not change the others.
///
/// # Safety
///
/// `ring` must be open, `pages` must have room for `count` pages, and `run` must be a place to write to.
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
    // SAFETY: it is not null and a place to write to, as the caller promises.
    unsafe { run.write(SubletRun::of(&hits)) };
    hits.map_or_else(code_of, code_of_run)
}

/// Flushes a page. It is no error if the page was not there.
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

/// Flushes all pages of an object.
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

/// The handle, for a call that is no part of a batch.
///
/// # Safety
///
/// `ring` must be null, or come from `sublet_connect`. Nobody else may use it until the call is over.
unsafe fn open<'a>(ring: *mut SubletRing) -> Option<&'a mut SubletRing> {
    // SAFETY: as the caller of this function promises.
    let ring = unsafe { ring.as_mut() }?;
    ring.batch_state = BatchState::None;
    Some(ring)
}

/// # Safety
///
/// `pages` must be null, or point to `count` pages that nobody writes to until the call is over.
unsafe fn pages<'a>(pages: *const c_void, count: u32) -> Result<&'a [Page], c_int> {
    check_run(pages, count)?;
    // SAFETY: as the caller of this function promises. Bytes need no alignment.
    Ok(unsafe { slice::from_raw_parts(pages.cast(), count as usize) })
}

/// # Safety
///
/// `pages` must be null, or point to `count` pages that nobody else uses until the call is over.
unsafe fn pages_mut<'a>(pages: *mut c_void, count: u32) -> Result<&'a mut [Page], c_int> {
    check_run(pages, count)?;
    // SAFETY: as the caller of this function promises. Bytes need no alignment.
    Ok(unsafe { slice::from_raw_parts_mut(pages.cast(), count as usize) })
}

/// Checks a run of pages. The error is the number to return.
fn check_run(pages: *const c_void, count: u32) -> Result<(), c_int> {
    match count {
        _ if pages.is_null() => Err(SUBLET_WRONG),
        1..=RUN_PAGES_MAX => Ok(()),
        _ => Err(code_of(Fault::Run.into())),
    }
}

#[cfg(test)]
mod tests;
