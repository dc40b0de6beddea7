//! Locks in memory what must not have to come from a disk.
//!
//! The arena and the table of its frames are locked wherever that is allowed. If pages of swap live here, the rest of
//! the process is locked, too, above all the index. Otherwise the host would swap to make room for swapping. Memory is
//! locked when it is touched, so locking takes no memory. What a guest maps for us stays its own.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use sublet_store::{MappedMemory, Memory, Store};

/// How much more than the limit is asked for, to see whether it binds.
const BEYOND: usize = 2 << 20;

/// Whether all of the process is locked.
static IS_LOCKED: AtomicBool = AtomicBool::new(false);

/// Returns whether this process may lock as much memory as it has. The limit also binds some processes that have the
/// capability to pass it, as in containers. So this tries it, with memory that is never touched.
pub fn may_lock() -> bool {
    let Some(limit) = getrlimit(Resource::Memlock).current else {
        return true;
    };
    let beyond = usize::try_from(limit).ok();
    let beyond = beyond.and_then(|limit| limit.checked_add(BEYOND));
    beyond.is_some_and(|beyond| {
        let reserved = MappedMemory::reserve(beyond, BEYOND);
        reserved.and_then(|memory| memory.lock()).is_ok()
    })
}

/// Locks the store's memory.
pub(crate) fn lock_store(store: &Store) {
    match may_lock() {
        true => warn_if_failed(store.lock_in_memory()),
        false => {
            tracing::debug!(
                limit = memlock_limit(),
                "the daemon may not lock its memory and serves on; the host may swap it out: `sublet doctor` says why"
            );
        }
    }
}

/// Locks what the process has and will have, when it is touched.
///
/// # Errors
///
/// The process may not lock all that it may ever have. Then nothing is locked, because the kernel would refuse what the
/// process maps later.
pub fn lock_all() -> io::Result<()> {
    lock(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
}

/// Locks all of the process, for pages of swap.
pub(crate) fn lock_process() {
    warn_if_failed(lock_all());
}

/// The same for what the process will have from now on. What it has may include guests' memory.
pub(crate) fn lock_future_memory() {
    warn_if_failed(lock(MlockAllFlags::FUTURE));
}

/// Returns whether the kernel takes back nothing that is freed in the middle of the heap.
pub(crate) fn is_process_locked() -> bool {
    IS_LOCKED.load(Ordering::Relaxed)
}

fn lock(what: MlockAllFlags) -> io::Result<()> {
    if !may_lock() {
        return Err(io::Error::other("the limit does not allow so much"));
    }
    // Pages are locked when they are touched, and are not fetched for it.
    mlockall(what | MlockAllFlags::ONFAULT)?;
    IS_LOCKED.store(true, Ordering::Relaxed);
    Ok(())
}

/// How many bytes this process may lock, for a log line; `None` is without a limit.
fn memlock_limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

fn warn_if_failed(locked: io::Result<()>) {
    if let Err(error) = locked {
        tracing::warn!(limit = memlock_limit(), %error, "the daemon cannot lock its memory and serves on; the host may swap it out: raise `ulimit -l` (LimitMEMLOCK=infinity)");
    }
}
