//! Batches of requests, for C.

use std::ffi::{c_int, c_void};

use sublet_types::ObjectId;

use crate::ring::layout;
use crate::ring::{Answers, Batch, BatchError, Ticket};

use super::codes::{
    SUBLET_OK, SUBLET_WRONG, code_of, code_of_batch, code_of_get, code_of_put, code_of_run,
};
use super::{BatchState, SubletKey, SubletRing, SubletRun, open};

/// Begins a batch of requests that are sent together. Any other call ends the batch.
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
    if let Err(error) = ring.client.check() {
        return code_of(error);
    }
    let _ = ring.client.batch();
    ring.batch_state = BatchState::Adding(0);
    SUBLET_OK
}

/// Adds a put to the batch. Write the page to `*page` before you run the batch. Returns the request's place in the
/// batch, counted from 0.
///
/// # Safety
///
/// `ring` must be open, and `page` a place to write to.
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
            // SAFETY: it is not null and a place to write to, as the caller promises.
            page.write(slot.as_mut_ptr().cast());
            Ok(ticket)
        })
    }
}

/// Adds a get to the batch. Returns the request's place in the batch.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_get(ring: *mut SubletRing, key: SubletKey) -> c_int {
    // SAFETY: what the caller promises is what `add` asks for.
    unsafe { add(ring, |batch| batch.get(key.into())) }
}

/// Adds a put of `count` pages at consecutive indices to the batch. Write the pages to `*pages`, one behind the other,
/// before you run the batch. Returns the request's place in the batch.
///
/// # Safety
///
/// `ring` must be open, and `pages` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_put_run(
    ring: *mut SubletRing,
    first: SubletKey,
    count: u32,
    pages: *mut *mut c_void,
) -> c_int {
    if pages.is_null() {
        return SUBLET_WRONG;
    }
    // SAFETY: what the caller promises is what `add` asks for.
    unsafe {
        add(ring, |batch| {
            let (ticket, slots) = batch.put_run(first.into(), count)?;
            // SAFETY: it is not null and a place to write to, as the caller promises.
            pages.write(slots.as_mut_ptr().cast());
            Ok(ticket)
        })
    }
}

/// Adds a get of `count` pages at consecutive indices to the batch. Returns the request's place in the batch.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_get_run(
    ring: *mut SubletRing,
    first: SubletKey,
    count: u32,
) -> c_int {
    // SAFETY: what the caller promises is what `add` asks for.
    unsafe { add(ring, |batch| batch.get_run(first.into(), count)) }
}

/// Adds a flush of a page to the batch. Returns the request's place in the batch.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_flush_page(ring: *mut SubletRing, key: SubletKey) -> c_int {
    // SAFETY: what the caller promises is what `add` asks for.
    unsafe { add(ring, |batch| batch.flush_page(key.into())) }
}

/// Adds a flush of `count` pages at consecutive indices to the batch. Returns the request's place in the batch.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_flush_run(
    ring: *mut SubletRing,
    first: SubletKey,
    count: u32,
) -> c_int {
    // SAFETY: what the caller promises is what `add` asks for.
    unsafe { add(ring, |batch| batch.flush_run(first.into(), count)) }
}

/// Adds a flush of all pages of an object to the batch. Returns the request's place in the batch.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_flush_object(
    ring: *mut SubletRing,
    pool: u64,
    object: u64,
) -> c_int {
    let pool = layout::pool_of(pool);
    // SAFETY: what the caller promises is what `add` asks for.
    unsafe { add(ring, |batch| batch.flush_object(pool, ObjectId(object))) }
}

/// Returns how many requests the batch holds. The batch must have begun and not have run yet.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_len(ring: *mut SubletRing) -> c_int {
    // SAFETY: the caller promises that it is null or open.
    let Some(ring) = (unsafe { ring.as_mut() }) else {
        return SUBLET_WRONG;
    };
    let BatchState::Adding(slots_used) = ring.batch_state else {
        return SUBLET_WRONG;
    };
    let batch = Batch::resume(&mut ring.client, slots_used);
    c_int::try_from(batch.len()).unwrap_or(SUBLET_WRONG)
}

/// Runs the batch, and waits until all of it is answered.
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
    let BatchState::Adding(slots_used) = ring.batch_state else {
        return SUBLET_WRONG;
    };
    ring.batch_state = BatchState::Ran;
    match Batch::resume(&mut ring.client, slots_used).run() {
        Ok(_) => SUBLET_OK,
        Err(error) => code_of(error),
    }
}

/// Returns the outcome of the request at `place` in the last batch. For a run of pages it is the outcome of the first
/// page.
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

/// Returns the outcome of the run of pages at `place` in the last batch, page by page, as `sublet_put_run` and
/// `sublet_get_run` do.
///
/// # Safety
///
/// `ring` must be open, and `run` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_outcome_of_run(
    ring: *mut SubletRing,
    place: u32,
    run: *mut SubletRun,
) -> c_int {
    // SAFETY: the caller promises that it is null or open.
    let answers = unsafe { answers(ring) };
    let (Some(answers), false) = (answers, run.is_null()) else {
        return SUBLET_WRONG;
    };
    let came_to = answers.run(Ticket::at(place as usize));
    // SAFETY: it is not null and a place to write to, as the caller promises.
    unsafe { run.write(SubletRun::of(&came_to)) };
    came_to.map_or_else(code_of, code_of_run)
}

/// Returns the page of the get at `place` in the last batch, or null if it did not hit. The page stays until the next
/// call that asks the daemon for something or begins a batch.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_page(ring: *mut SubletRing, place: u32) -> *const c_void {
    // SAFETY: the caller promises what that function asks for.
    unsafe { sublet_batch_page_of_run(ring, place, 0) }
}

/// Returns page `n` of the run of gets at `place` in the last batch, or null if it did not hit. The page stays as long
/// as that of `sublet_batch_page`.
///
/// # Safety
///
/// `ring` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sublet_batch_page_of_run(
    ring: *mut SubletRing,
    place: u32,
    n: u32,
) -> *const c_void {
    // SAFETY: the caller promises that it is null or open.
    let answers = unsafe { answers(ring) };
    let (ticket, n) = (Ticket::at(place as usize), n as usize);
    let page = answers
        .as_ref()
        .and_then(|answers| answers.page_of_run(ticket, n));
    page.map_or(std::ptr::null(), |page| page.as_ptr().cast())
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
    let BatchState::Adding(slots_used) = ring.batch_state else {
        return SUBLET_WRONG;
    };
    let mut batch = Batch::resume(&mut ring.client, slots_used);
    let added = add(&mut batch);
    ring.batch_state = BatchState::Adding(batch.slots_used());
    match added {
        Ok(ticket) => c_int::try_from(ticket.place()).unwrap_or(SUBLET_WRONG),
        Err(error) => code_of_batch(error),
    }
}

/// # Safety
///
/// As for [`open`].
unsafe fn answers<'a>(ring: *mut SubletRing) -> Option<Answers<'a>> {
    // SAFETY: as the caller of this function promises.
    let ring = unsafe { ring.as_mut() }?;
    match ring.batch_state {
        BatchState::Ran => Some(Answers::of(&mut ring.client)),
        BatchState::None | BatchState::Adding(_) => None,
    }
}
