//! What must not have to come from a disk is locked in memory.
//!
//! The arena and the table of its frames are locked wherever that is allowed. Where pages of swap live here, so is what
//! else the process has, and most of all the index: else the host would swap to make room for swapping. Memory is locked as it
//! is touched, so none is taken for it, and what a guest maps for us stays its own.

use std::io;

use nix::sys::mman::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use sublet_store::Store;

/// Pages are locked when they are touched, and not fetched for it.
const ON_FAULT: MlockAllFlags = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);

/// Whether this process may lock as much memory as it has.
pub fn may_lock() -> bool {
    let is_unlimited = getrlimit(Resource::Memlock).current.is_none();
    let is_trusted =
        || capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    is_unlimited || is_trusted()
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
/// The process may not.
pub fn lock_all() -> io::Result<()> {
    let all = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE;
    Ok(mlockall(all | ON_FAULT)?)
}

/// Locks all of the process, for pages of swap.
pub(crate) fn lock_process() {
    lock(lock_all);
}

/// The same for what the process will have from now on: among what it has may be guests' memory.
pub(crate) fn lock_what_comes() {
    lock(|| Ok(mlockall(MlockAllFlags::MCL_FUTURE | ON_FAULT)?));
}

fn lock(locks: impl FnOnce() -> io::Result<()>) {
    match may_lock() {
        true => tell(locks()),
        false => tracing::warn!(
            "pages of swap cannot be kept off the host's swap; raise `ulimit -l` (LimitMEMLOCK=infinity)"
        ),
    }
}

fn tell(locked: io::Result<()>) {
    if let Err(error) = locked {
        tracing::warn!(%error, "memory is not locked: the host may swap it out");
    }
}
