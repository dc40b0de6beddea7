//! A folder of a bench's own, in memory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sublet_types::Bytes;

/// A folder's name begins so; a process and a time follow.
const FOLDER: &str = "sublet-bench-files-";

/// How it begins until it is locked: nobody clears such a folder away.
const UNLOCKED: &str = "sublet-bench-unlocked-";

/// A folder in memory, for sockets and backings; it goes with its owner.
pub(super) struct Folder {
    path: PathBuf,
    /// Locked for as long as the owner lives, in whichever namespace its number counts.
    _lock: File,
}

impl Folder {
    pub(super) fn new() -> io::Result<Folder> {
        let shared = Path::new("/dev/shm");
        let root = match shared.is_dir() {
            true => shared.to_owned(),
            false => std::env::temp_dir(),
        };
        clear_away(&root);
        Folder::new_in(&root)
    }

    fn new_in(root: &Path) -> io::Result<Folder> {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let nanos = since.map_or(0, |since| since.as_nanos());
        let owner = format!("{}-{nanos}", std::process::id());
        let unlocked = root.join(format!("{UNLOCKED}{owner}"));
        fs::create_dir(&unlocked)?;
        let lock = File::open(&unlocked)?;
        lock.lock()?;
        let path = root.join(format!("{FOLDER}{owner}"));
        fs::rename(&unlocked, &path)?;
        Ok(Folder { path, _lock: lock })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file that is one hole.
    pub(super) fn sparse(&self, name: &str, size: Bytes) -> io::Result<PathBuf> {
        let path = self.join(name);
        File::create(&path)?.set_len(size.0)?;
        Ok(path)
    }

    /// A file of random bytes, so that nothing in it is a hole.
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

/// Removes folders of benches that were killed: they would fill the memory.
fn clear_away(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_folder) && is_left(&entry.path()) {
            // Another bench may be at it too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a bench calls a folder so.
fn is_folder(name: &str) -> bool {
    let owner = name.strip_prefix(FOLDER).and_then(|o| o.split_once('-'));
    let is_number = |part: &str| part.parse::<u128>().is_ok();
    owner.is_some_and(|(process, nanos)| is_number(process) && is_number(nanos))
}

/// Whether nobody has its lock.
fn is_left(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|folder| folder.try_lock().is_ok())
}

impl Drop for Folder {
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
        let alive = Folder::new_in(root.path())?;
        // Its process lives, or another of the same number elsewhere: what counts is the lock.
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
