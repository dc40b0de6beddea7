//! What must not have to come from a disk is locked in memory.
//!
//! The arena and the table of its frames are locked wherever that is allowed. Where pages of swap live here, so is what
//! else the process has, and most of all the index: else the host would swap to make room for swapping. Memory is locked as it
//! is touched, so none is taken for it, and what a guest maps for us stays its own.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use sublet_store::{Mapped, Memory, Store};

/// More than the limit by so much is asked for, to see whether it binds.
const BEYOND: usize = 2 << 20;

/// Whether all of the process is locked.
static IS_LOCKED: AtomicBool = AtomicBool::new(false);

/// Whether this process may lock as much memory as it has. A limit binds some of those, too, who have the capability to
/// pass it, as in containers: so it is tried, with memory that is never touched.
pub fn may_lock() -> bool {
    let Some(limit) = getrlimit(Resource::Memlock).current else {
        return true;
    };
    let beyond = usize::try_from(limit).ok();
    let beyond = beyond.and_then(|limit| limit.checked_add(BEYOND));
    beyond.is_some_and(|beyond| {
        let reserved = Mapped::reserve(beyond, BEYOND);
        reserved.and_then(|memory| memory.lock()).is_ok()
    })
}

/// Locks the store's memory.
pub(crate) fn lock_store(store: &Store) {
    match may_lock() {
        true => tell(store.lock_in_memory()),
        false => tracing::debug!("memory is not locked: `sublet doctor` says why"),
    }
}

/// Locks what the process has and will have, when it is touched.
///
/// # Errors
///
/// The process may not lock all that it may ever have. Then nothing is locked: what it maps later would be refused to it.
pub fn lock_all() -> io::Result<()> {
    lock(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
}

/// Locks all of the process, for pages of swap.
pub(crate) fn lock_process() {
    tell(lock_all());
}

/// The same for what the process will have from now on: among what it has may be guests' memory.
pub(crate) fn lock_what_comes() {
    tell(lock(MlockAllFlags::FUTURE));
}

/// Whether the kernel takes nothing back of what is freed in the middle of the heap.
pub(crate) fn is_process_locked() -> bool {
    IS_LOCKED.load(Ordering::Relaxed)
}

fn lock(what: MlockAllFlags) -> io::Result<()> {
    if !may_lock() {
        return Err(io::Error::other("the limit does not allow so much"));
    }
    // Pages are locked when they are touched, and not fetched for it.
    mlockall(what | MlockAllFlags::ONFAULT)?;
    IS_LOCKED.store(true, Ordering::Relaxed);
    Ok(())
}

fn tell(locked: io::Result<()>) {
    if let Err(error) = locked {
        tracing::warn!(%error, "memory is not locked, and the host may swap it out; raise `ulimit -l` (LimitMEMLOCK=infinity)");
    }
}
