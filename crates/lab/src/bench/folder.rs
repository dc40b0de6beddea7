//! A separate folder for a bench, in memory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sublet_types::Bytes;

/// A folder's name begins with this. A process id and a time follow.
const FOLDER: &str = "sublet-bench-files-";

/// A folder's name begins with this until it is locked. Nobody clears such a folder away.
const UNLOCKED: &str = "sublet-bench-unlocked-";

/// A folder in memory, for sockets and backings. It is removed when it is dropped.
pub(super) struct ScratchFolder {
    path: PathBuf,
    /// Locked for as long as the owner lives, whatever process namespace it runs in.
    _lock: File,
}

impl ScratchFolder {
    pub(super) fn new() -> io::Result<ScratchFolder> {
        let shared = Path::new("/dev/shm");
        let root = match shared.is_dir() {
            true => shared.to_owned(),
            false => std::env::temp_dir(),
        };
        clear_away(&root);
        ScratchFolder::new_in(&root)
    }

    fn new_in(root: &Path) -> io::Result<ScratchFolder> {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let nanos = since.map_or(0, |since| since.as_nanos());
        let owner = format!("{}-{nanos}", std::process::id());
        let unlocked = root.join(format!("{UNLOCKED}{owner}"));
        fs::create_dir(&unlocked)?;
        let lock = File::open(&unlocked)?;
        lock.lock()?;
        let path = root.join(format!("{FOLDER}{owner}"));
        fs::rename(&unlocked, &path)?;
        Ok(ScratchFolder { path, _lock: lock })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a file that is one hole.
    pub(super) fn sparse(&self, name: &str, size: Bytes) -> io::Result<PathBuf> {
        let path = self.join(name);
        File::create(&path)?.set_len(size.0)?;
        Ok(path)
    }

    /// Makes a file of random bytes, so that nothing in it is a hole.
    pub(super) fn image(&self, name: &str, size: Bytes) -> io::Result<PathBuf> {
        let path = self.join(name);
        let mut file = File::create(&path)?;
        let chunk: Vec<u8> = (0..1 << 20)
            .map(|n: u32| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8)
            .collect();
        for _ in 0..size.0 >> 20 {
            file.write_all(&chunk)?;
        }
        Ok(path)
    }
}

/// Removes folders of benches that were killed, because they would fill the memory.
fn clear_away(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_folder) && is_left(&entry.path()) {
            // Another bench may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether a bench's folder has such a name.
fn is_folder(name: &str) -> bool {
    let owner = name.strip_prefix(FOLDER).and_then(|o| o.split_once('-'));
    let is_number = |part: &str| part.parse::<u128>().is_ok();
    owner.is_some_and(|(process, nanos)| is_number(process) && is_number(nanos))
}

/// Returns whether nobody holds its lock.
fn is_left(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|folder| folder.try_lock().is_ok())
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_nobody_locks_are_cleared_away() -> io::Result<()> {
        let root = tempfile::tempdir()?;
        let place = |name: &str| root.path().join(name);
        let alive = ScratchFolder::new_in(root.path())?;
        // A process of this number lives here, but the owner's number may be from elsewhere: only the lock counts.
        let left = format!("{FOLDER}{}-7", std::process::id());
        let others = [
            "sublet",
            "sublet-bench-files-",
            "sublet-bench-files-4194305",
            "sublet-bench-files-x-7",
            "sublet-bench-unlocked-1-7",
        ];
        for name in others.iter().chain([&left.as_str()]) {
            fs::create_dir(place(name))?;
            fs::write(place(name).join("image"), "x")?;
        }
        clear_away(root.path());
        assert!(!place(&left).exists());
        assert!(alive.path.exists());
        assert!(others.iter().all(|name| place(name).exists()));
        let path = alive.path.clone();
        drop(alive);
        assert!(!path.exists());
        Ok(())
    }
}
