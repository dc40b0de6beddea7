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
use crate::ring::{
    Answers, Batch, BatchError, CallError, Client, ConnectError, Fault, Get, Key, Page, Put,
    Refusal, Rejection, Run, SHAPE, Shape, Ticket,
};

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

/// It was done: a page was stored, or hit.
pub const SUBLET_OK: c_int = 0;
/// A put replaced an older page.
pub const SUBLET_REPLACED: c_int = 1;
/// A get found no page.
pub const SUBLET_MISS: c_int = 2;
/// The connection is over: connect again.
pub const SUBLET_GONE: c_int = -1;
/// Nobody listens at that path.
pub const SUBLET_UNREACHABLE: c_int = -2;
/// The other side speaks no ring of this version.
pub const SUBLET_GARBLED: c_int = -3;
/// A pointer is null, or a number makes no sense.
pub const SUBLET_WRONG: c_int = -4;
/// The batch is full: run it first.
pub const SUBLET_BATCH_FULL: c_int = -5;
/// The daemon let this program not in; the reason's number is taken away from this.
pub const SUBLET_REJECTED: c_int = -20;
/// The daemon refused for now; the reason's number is taken away from this.
pub const SUBLET_REFUSED: c_int = -100;
/// The call makes no sense to the daemon; the fault's number is taken away from this.
pub const SUBLET_FAULTY: c_int = -200;

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

/// The version of the ring that this library speaks.
#[unsafe(no_mangle)]
pub extern "C" fn sublet_version() -> u32 {
    layout::VERSION
}

/// Connects to the ring that listens at `path`. `entries` and `page_slots` are how large it should be, 0 for the
/// usual size; the daemon may grant less. On success `*ring` is to be closed by `sublet_close`.
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
        return SUBLET_WRONG;
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
    let (Some(ring), Some([page])) = (ring, page) else {
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
    let (Some(ring), Some([page])) = (ring, page) else {
        return SUBLET_WRONG;
    };
    ring.client
        .get(key.into(), page)
        .map_or_else(code_of, code_of_get)
}

/// Stores `count` pages at indices that follow each other. Bit n of `*stored` says that page n was stored.
///
/// # Safety
///
/// `ring` must be open, `pages` hold `count` pages, `stored` be a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_put_run(
    ring: *mut SubletRing,
    first: SubletKey,
    count: u32,
    pages: *const c_void,
    stored: *mut u64,
) -> c_int {
    // SAFETY: what the caller promises is what `open` and `pages` ask for.
    let (ring, pages) = unsafe { (open(ring), self::pages(pages, count)) };
    let (Some(ring), Some(pages), false) = (ring, pages, stored.is_null()) else {
        return SUBLET_WRONG;
    };
    let run = ring.client.put_run(first.into(), pages);
    // SAFETY: not null, and a place to write to, as the caller promises.
    unsafe { stored.write(run.map_or(0, |run| run.bits())) };
    run.map_or_else(code_of, code_of_run)
}

/// Fetches `count` pages from indices that follow each other. Bit n of `*hits` says that page n was hit; the
/// others are left alone.
///
/// # Safety
///
/// `ring` must be open, `pages` have room for `count` pages, `hits` be a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_get_run(
    ring: *mut SubletRing,
    first: SubletKey,
    count: u32,
    pages: *mut c_void,
    hits: *mut u64,
) -> c_int {
    // SAFETY: what the caller promises is what `open` and `pages_mut` ask for.
    let (ring, pages) = unsafe { (open(ring), pages_mut(pages, count)) };
    let (Some(ring), Some(pages), false) = (ring, pages, hits.is_null()) else {
        return SUBLET_WRONG;
    };
    let run = ring.client.get_run(first.into(), pages);
    // SAFETY: not null, and a place to write to, as the caller promises.
    unsafe { hits.write(run.map_or(0, |run| run.bits())) };
    run.map_or_else(code_of, code_of_run)
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

/// Begins a batch: requests that travel together. Any other call ends it.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_begin(ring: *mut SubletRing) -> c_int {
    // SAFETY: what the caller promises is what `open` asks for.
    let Some(ring) = (unsafe { open(ring) }) else {
        return SUBLET_WRONG;
    };
    let _ = ring.client.batch();
    ring.gathering = Gathering::Adding(0);
    SUBLET_OK
}

/// Adds a put to the batch. `*page` is where the page is to be written before the batch is run. Returns the
/// request's place in the batch, from 0 on.
///
/// # Safety
///
/// `ring` must be open, `page` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_put(
    ring: *mut SubletRing,
    key: SubletKey,
    page: *mut *mut c_void,
) -> c_int {
    if page.is_null() {
        return SUBLET_WRONG;
    }
    // SAFETY: what the caller promises is what `add` asks for.
    unsafe {
        add(ring, |batch| {
            let (ticket, slot) = batch.put(key.into())?;
            // SAFETY: not null, and a place to write to, as the caller promises.
            page.write(slot.as_mut_ptr().cast());
            Ok(ticket)
        })
    }
}

/// Adds a get to the batch. Returns the request's place in it.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_get(ring: *mut SubletRing, key: SubletKey) -> c_int {
    // SAFETY: what the caller promises is what `add` asks for.
    unsafe { add(ring, |batch| batch.get(key.into())) }
}

/// Adds a flush of a page to the batch. Returns the request's place in it.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_flush_page(ring: *mut SubletRing, key: SubletKey) -> c_int {
    // SAFETY: what the caller promises is what `add` asks for.
    unsafe { add(ring, |batch| batch.flush_page(key.into())) }
}

/// Runs the batch and waits until all of it is answered.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_run(ring: *mut SubletRing) -> c_int {
    // SAFETY: the caller promises that it is null or open.
    let Some(ring) = (unsafe { ring.as_mut() }) else {
        return SUBLET_WRONG;
    };
    let Gathering::Adding(slots_used) = ring.gathering else {
        return SUBLET_WRONG;
    };
    ring.gathering = Gathering::Ran;
    match Batch::resume(&mut ring.client, slots_used).run() {
        Ok(_) => SUBLET_OK,
        Err(error) => code_of(error),
    }
}

/// What the request at `place` of the batch that was run came to.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_outcome(ring: *mut SubletRing, place: u32) -> c_int {
    // SAFETY: the caller promises that it is null or open.
    let answers = unsafe { answers(ring) };
    let Some(answers) = answers else {
        return SUBLET_WRONG;
    };
    let ticket = Ticket::at(place as usize);
    if answers.is_get(ticket) {
        answers.get(ticket).map_or_else(code_of, code_of_get)
    } else {
        answers.put(ticket).map_or_else(code_of, code_of_put)
    }
}

/// The page of the get at `place` of the batch that was run; null unless it was hit. It stays until the next call that
/// asks something of the daemon or begins a batch.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_page(ring: *mut SubletRing, place: u32) -> *const c_void {
    // SAFETY: the caller promises that it is null or open.
    let answers = unsafe { answers(ring) };
    let ticket = Ticket::at(place as usize);
    let page = answers.as_ref().and_then(|answers| answers.page(ticket));
    page.map_or(std::ptr::null(), |page| page.as_ptr().cast())
}

/// Writes what a number means, in words that end in a zero byte, to `text`; no more than `bytes`. Returns how many
/// bytes all of it takes.
///
/// # Safety
///
/// `text` must have room for `bytes`, or be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_text(code: c_int, text: *mut c_char, bytes: usize) -> usize {
    let words = words_of(code);
    if !text.is_null() && bytes > 0 {
        let count = words.len().min(bytes - 1);
        // SAFETY: not null, and room for `bytes`, which is more than `count`, as the caller promises.
        unsafe {
            text.cast::<u8>().copy_from(words.as_ptr(), count);
            text.add(count).write(0);
        }
    }
    words.len() + 1
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
/// As for [`open`].
unsafe fn add(
    ring: *mut SubletRing,
    add: impl FnOnce(&mut Batch<'_>) -> Result<Ticket, BatchError>,
) -> c_int {
    // SAFETY: as the caller of this function promises.
    let Some(ring) = (unsafe { ring.as_mut() }) else {
        return SUBLET_WRONG;
    };
    let Gathering::Adding(slots_used) = ring.gathering else {
        return SUBLET_WRONG;
    };
    let mut batch = Batch::resume(&mut ring.client, slots_used);
    let added = add(&mut batch);
    ring.gathering = Gathering::Adding(batch.slots_used());
    match added {
        Ok(ticket) => c_int::try_from(ticket.place()).unwrap_or(SUBLET_WRONG),
        Err(BatchError::Run) => SUBLET_WRONG,
        Err(BatchError::Entries | BatchError::PageSlots) => SUBLET_BATCH_FULL,
    }
}

/// # Safety
///
/// As for [`open`].
unsafe fn answers<'a>(ring: *mut SubletRing) -> Option<Answers<'a>> {
    // SAFETY: as the caller of this function promises.
    let ring = unsafe { ring.as_mut() }?;
    match ring.gathering {
        Gathering::Ran => Some(Answers::of(&mut ring.client)),
        Gathering::None | Gathering::Adding(_) => None,
    }
}

/// # Safety
///
/// `pages` must be null, or `count` pages that nobody writes to until the call is over.
unsafe fn pages<'a>(pages: *const c_void, count: u32) -> Option<&'a [Page]> {
    let fine = !pages.is_null() && count <= RUN_PAGES_MAX;
    // SAFETY: as the caller of this function promises; bytes need no alignment.
    fine.then(|| unsafe { slice::from_raw_parts(pages.cast(), count as usize) })
}

/// # Safety
///
/// `pages` must be null, or `count` pages that nobody else uses until the call is over.
unsafe fn pages_mut<'a>(pages: *mut c_void, count: u32) -> Option<&'a mut [Page]> {
    let fine = !pages.is_null() && count <= RUN_PAGES_MAX;
    // SAFETY: as the caller of this function promises; bytes need no alignment.
    fine.then(|| unsafe { slice::from_raw_parts_mut(pages.cast(), count as usize) })
}

fn done(call: Result<(), CallError>) -> c_int {
    call.map_or_else(code_of, |()| SUBLET_OK)
}

fn code_of_put(put: Put) -> c_int {
    match put {
        Put::Stored => SUBLET_OK,
        Put::Replaced => SUBLET_REPLACED,
        Put::Refused(refusal) => code_of(refusal.into()),
    }
}

fn code_of_get(get: Get) -> c_int {
    match get {
        Get::Hit => SUBLET_OK,
        Get::Miss => SUBLET_MISS,
        Get::Refused(refusal) => code_of(refusal.into()),
    }
}

fn code_of_run(run: Run) -> c_int {
    run.refusal()
        .map_or(SUBLET_OK, |refusal| code_of(refusal.into()))
}

fn code_of(error: CallError) -> c_int {
    match error {
        CallError::Gone(_) => SUBLET_GONE,
        CallError::Refused(refusal) => SUBLET_REFUSED - refusal as c_int,
        CallError::Faulty(fault) => SUBLET_FAULTY - fault as c_int,
        CallError::Garbled => SUBLET_GARBLED,
    }
}

fn code_of_connect(error: &ConnectError) -> c_int {
    match error {
        ConnectError::Unreachable { .. } => SUBLET_UNREACHABLE,
        ConnectError::Rejected(rejection) => SUBLET_REJECTED - *rejection as c_int,
        ConnectError::Garbled(_) | ConnectError::NoRing(_) => SUBLET_GARBLED,
    }
}

fn words_of(code: c_int) -> String {
    let number = |base: c_int| u16::try_from(base - code).ok();
    let rejection = u32::try_from(SUBLET_REJECTED - code).ok();
    let words = match code {
        SUBLET_OK => "done",
        SUBLET_REPLACED => "done, in place of an older page",
        SUBLET_MISS => "the page is not there",
        SUBLET_GONE => "the connection is over: connect again",
        SUBLET_UNREACHABLE => "no daemon listens for rings there",
        SUBLET_GARBLED => "what answers there is no ring of this version",
        SUBLET_WRONG => "a pointer is null, a number makes no sense, or there is no such batch",
        SUBLET_BATCH_FULL => "the batch is full: run it first",
        _ => "",
    };
    let said = (!words.is_empty()).then(|| words.to_owned());
    said.or_else(|| Some(Rejection::of(rejection?)?.to_string()))
        .or_else(|| Some(Refusal::of(number(SUBLET_REFUSED)?)?.to_string()))
        .or_else(|| Some(Fault::of(number(SUBLET_FAULTY)?)?.to_string()))
        .unwrap_or_else(|| "a number of another version".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn header() -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let config =
            cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("it is there");
        let built = cbindgen::Builder::new()
            .with_src(folder.join("src/ffi.rs"))
            .with_config(config)
            .generate();
        let mut header = Vec::new();
        built.expect("it is C").write(&mut header);
        String::from_utf8(header).expect("it is text")
    }

    /// `SUBLET_WRITE_HEADER=1 cargo test -p sublet-client --features ffi header` writes it anew.
    #[test]
    fn the_header_that_is_committed_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/sublet_ring.h");
        if std::env::var_os("SUBLET_WRITE_HEADER").is_some() {
            std::fs::write(&path, header()).expect("written");
        }
        let committed = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(committed, header(), "write it anew, see above");
    }

    #[test]
    fn every_number_has_its_words() {
        assert_eq!(SUBLET_PAGE_BYTES, layout::SLOT_BYTES);
        assert_eq!(SUBLET_RUN_PAGES_MAX, RUN_PAGES_MAX);
        for refusal in Refusal::ALL {
            assert_eq!(words_of(code_of((*refusal).into())), refusal.to_string());
        }
        for fault in Fault::ALL {
            assert_eq!(words_of(code_of((*fault).into())), fault.to_string());
        }
        let not_allowed = ConnectError::Rejected(Rejection::NotAllowed);
        assert!(words_of(code_of_connect(&not_allowed)).contains("allow_uids"));
        assert_eq!(words_of(c_int::MIN), "a number of another version");
        let mut text = [1; 8];
        // SAFETY: it has room for eight bytes.
        let all = unsafe { sublet_text(SUBLET_MISS, text.as_mut_ptr(), text.len()) };
        assert_eq!((all, text[6], text[7]), (22, b'g' as c_char, 0));
    }

    #[test]
    fn null_is_refused() {
        let key = SubletKey {
            pool: 0,
            object: 0,
            index: 0,
        };
        let (ring, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: null is allowed everywhere.
        unsafe {
            let connected = sublet_connect(std::ptr::null(), 0, 0, std::ptr::null_mut());
            assert_eq!(connected, SUBLET_WRONG);
            assert_eq!(sublet_put(ring, key, nothing), SUBLET_WRONG);
            assert_eq!(sublet_get(ring, key, nothing), SUBLET_WRONG);
            assert_eq!(sublet_batch_get(ring, key), SUBLET_WRONG);
            assert_eq!(sublet_batch_run(ring), SUBLET_WRONG);
            assert!(sublet_batch_page(ring, 0).is_null());
            sublet_close(ring);
        }
    }
}
