//! A guest's memory stays the host's to swap, also where this process locks all that it maps.

#![allow(unsafe_code)]

use std::io;

use vm_memory::MmapRegion;

/// Takes a fresh mapping's lock off, if it has one.
pub(super) fn unlock(region: &MmapRegion<()>) -> io::Result<()> {
    // SAFETY: the whole of a mapping that is there as long as `region`; locks change no content.
    unsafe { rustix::mm::munlock(region.as_ptr().cast(), region.size()) }?;
    Ok(())
}
