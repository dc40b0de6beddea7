//! Keeps a guest's memory swappable, also where this process locks everything that it maps.

#![allow(unsafe_code)]

use std::io;

use vm_memory::MmapRegion;

/// Removes the lock from a fresh mapping, if it has one.
pub(super) fn unlock(region: &MmapRegion<()>) -> io::Result<()> {
    // SAFETY: the range is a whole mapping that exists as long as `region`. Unlocking changes no content.
    unsafe { rustix::mm::munlock(region.as_ptr().cast(), region.size()) }?;
    Ok(())
}
