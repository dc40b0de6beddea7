//! Allocates all of a file's blocks at once.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FallocateFlags, fallocate};
use sublet_types::Bytes;

use crate::retry::retry_on_shortage;

/// The unit in which `stat` counts a file's blocks, in bytes.
const STAT_BLOCK: u64 = 512;

/// Allocates blocks for this many bytes of a file, which becomes that large.
///
/// # Errors
///
/// `StorageFull` if the file system does not have as many, before any block is taken. To find that out by taking them
/// would fill the file system for everybody. `Unsupported` if the file system gives no blocks ahead.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    allocate_keeping_free(file, bytes, |_| Bytes::ZERO)
}

/// The same, and a part of the file system stays free for others. `kept` returns how much, for the file system's size.
/// Another process, or another subvolume of the same disks, may take some of that meanwhile. The function finds that
/// out afterwards and makes the file as large as before.
///
/// # Errors
///
/// As [`allocate`].
pub(crate) fn allocate_keeping_free(
    file: &File,
    bytes: u64,
    kept: impl Fn(Bytes) -> Bytes,
) -> io::Result<()> {
    let before = file.metadata()?;
    let missing = bytes.saturating_sub(before.blocks() * STAT_BLOCK);
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
    retry_on_shortage(|| Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?))?;
    let system = rustix::fs::fstatvfs(file)?;
    let left = Bytes(system.f_bavail * system.f_frsize);
    if left >= kept {
        return Ok(());
    }
    file.set_len(before.len())?;
    let what = format!(
        "others took room at the same time: its file system would have {left} free, and {kept} stay free for others"
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process takes 8 MiB between the check of what is free and the allocation.
    #[test]
    fn a_file_is_given_back_if_another_took_its_room_at_the_same_time() {
        let [own, other] = [(); 2].map(|()| tempfile::tempfile_in("/dev/shm").expect("a file"));
        let taken = allocate_keeping_free(&own, 4 << 20, |_| {
            let system = rustix::fs::fstatvfs(&own).expect("a file system");
            let free = system.f_bavail * system.f_frsize;
            allocate(&other, 8 << 20).expect("room");
            Bytes(free - (6 << 20))
        });
        let kind = taken.map_err(|error| error.kind());
        assert_eq!(kind, Err(io::ErrorKind::StorageFull));
        let own = own.metadata().expect("a file");
        assert_eq!((own.len(), own.blocks()), (0, 0));
    }
}
