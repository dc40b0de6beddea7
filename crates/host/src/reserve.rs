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

/// The same, where some of the file system stays free for others: `kept` says how much, of how many bytes it has. What somebody
/// else took of that meanwhile (another process, another subvolume of the same disks) is found afterwards, and the file is
/// as large as before then.
///
/// # Errors
///
/// As [`reserve`].
pub(crate) fn reserve_beside(
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
    through_lacks(|| Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?))?;
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

    /// Another takes 8 MiB between the look at what is free and the taking.
    #[test]
    fn a_file_is_given_back_if_another_took_its_room_at_the_same_time() {
        let [own, other] = [(); 2].map(|()| tempfile::tempfile_in("/dev/shm").expect("a file"));
        let taken = reserve_beside(&own, 4 << 20, |_| {
            let system = rustix::fs::fstatvfs(&own).expect("a file system");
            let free = system.f_bavail * system.f_frsize;
            reserve(&other, 8 << 20).expect("room");
            Bytes(free - (6 << 20))
        });
        let kind = taken.map_err(|error| error.kind());
        assert_eq!(kind, Err(io::ErrorKind::StorageFull));
        let own = own.metadata().expect("a file");
        assert_eq!((own.len(), own.blocks()), (0, 0));
    }
}
