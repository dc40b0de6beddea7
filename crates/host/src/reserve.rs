//! Having all of a file's blocks given to it at once.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FallocateFlags, fallocate};
use sublet_types::Bytes;

use crate::patience::through_lacks;

/// Bytes of what `stat` counts a file in.
const STAT_BLOCK: u64 = 512;

/// Has so many bytes' blocks given to a file, which becomes as large.
///
/// # Errors
///
/// `StorageFull` where its file system has not as many, before any is taken: to find that out by taking them would fill it
/// for everybody. `Unsupported` where it gives none ahead.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    reserve_beside(file, bytes, |_| Bytes::ZERO)
}

/// The same, where some of the file system stays free for others: `kept` says how much, of how many bytes it has.
///
/// # Errors
///
/// As [`reserve`].
pub(crate) fn reserve_beside(
    file: &File,
    bytes: u64,
    kept: impl Fn(Bytes) -> Bytes,
) -> io::Result<()> {
    let missing = bytes.saturating_sub(file.metadata()?.blocks() * STAT_BLOCK);
    let system = rustix::fs::fstatvfs(file)?;
    let free = Bytes(system.f_bavail * system.f_frsize);
    let kept = kept(Bytes(system.f_blocks * system.f_frsize));
    if Bytes(missing) + kept > free {
        let missing = Bytes(missing);
        let beside = match kept {
            Bytes::ZERO => String::new(),
            kept => format!(", of which {kept} stay free for others"),
        };
        let what = format!("it needs {missing} more, and its file system has {free} free{beside}");
        return Err(io::Error::new(io::ErrorKind::StorageFull, what));
    }
    through_lacks(|| Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?))
}
