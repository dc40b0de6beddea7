//! Spill files: where persistent pages go that memory has no place for.
//!
//! A pool has a file of its own in the tenant's spill folder: preallocated, so that a page that was accepted
//! always finds its place; for the daemon's eyes only; locked, so that no second daemon takes it; and gone
//! with its pool, for nobody else can make sense of it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sublet_frontends::ring::Spills;
use sublet_store::Spill;
use sublet_types::{Bytes, PAGE_BYTES};

use crate::headroom;
use crate::observe::Seldom;
use crate::ofd::{self, Hold};
use crate::reserve::reserve;

/// A tenant's folder for spill files.
#[derive(Debug)]
pub struct SpillFolder {
    folder: PathBuf,
    /// Bytes of each file.
    size: Bytes,
}

/// Files that this process made, in any folder.
static MADE: AtomicU64 = AtomicU64::new(0);

impl SpillFolder {
    /// A folder whose files have `size` each. Files that a daemon left behind which is no more are removed.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or written to.
    pub fn open(folder: &Path, size: Bytes) -> io::Result<SpillFolder> {
        fs::create_dir_all(folder)?;
        let system = rustix::fs::statvfs(folder)?;
        let free = Bytes(system.f_bavail * system.f_frsize);
        if free < size {
            tracing::warn!(folder = %folder.display(), %free, spill_size = %size, "no persistent pool can be made: its spill file has no room");
        }
        for left in fs::read_dir(folder)? {
            remove_if_left(&left?.path());
        }
        Ok(SpillFolder {
            folder: folder.to_owned(),
            size,
        })
    }
}

const SUFFIX: &str = "spill";

fn remove_if_left(path: &Path) {
    if path.extension().is_none_or(|suffix| suffix != SUFFIX) {
        return;
    }
    let opened = File::options().read(true).write(true).open(path);
    let is_unused = opened.and_then(|file| lock(&file)).unwrap_or(false);
    if is_unused && let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "a spill file that nobody uses stays");
    }
}

/// Says whether nobody else uses it. Of the open file, not of the process: two tenants may share a folder.
fn lock(file: &File) -> io::Result<bool> {
    ofd::lock(file, Hold::Alone, 0)
}

impl Spills for SpillFolder {
    fn make(&self) -> io::Result<Arc<dyn Spill>> {
        self.new_file().inspect_err(|error| {
            if let Some(swallowed) = FAILING.may_speak() {
                let (folder, size) = (self.folder.display(), self.size);
                tracing::error!(%folder, spill_size = %size, %error, swallowed, "a spill file cannot be made, so that a program was refused its persistent pool");
            }
        })
    }
}

impl SpillFolder {
    fn new_file(&self) -> io::Result<Arc<dyn Spill>> {
        // Its pool's pages are lost with the daemon.
        headroom::stay_alive();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}.{SUFFIX}", std::process::id());
        let path = self.folder.join(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let spill = SpillFile {
            file,
            path,
            size: self.size,
        };
        if !lock(&spill.file)? {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        reserve(&spill.file, self.size.0)?;
        Ok(Arc::new(spill))
    }
}

/// The spill file of one pool.
#[derive(Debug)]
struct SpillFile {
    file: File,
    path: PathBuf,
    size: Bytes,
}

impl Spill for SpillFile {
    fn slots(&self) -> u32 {
        u32::try_from(self.size.0 / PAGE_BYTES).unwrap_or(u32::MAX)
    }

    fn write(&self, slot: u32, page: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(page, u64::from(slot) * PAGE_BYTES);
        self.told(
            written,
            "a page cannot be written to its spill file and stays in memory",
        )
    }

    fn read(&self, slot: u32, page: &mut [u8]) -> io::Result<()> {
        let read = self.file.read_exact_at(page, u64::from(slot) * PAGE_BYTES);
        self.told(read, "a page cannot be read from its spill file")
    }
}

/// A disk that fails is told of, but not for each page.
static FAILING: Seldom = Seldom::new();

impl SpillFile {
    fn told(&self, done: io::Result<()>, what: &str) -> io::Result<()> {
        if let Err(error) = &done
            && let Some(swallowed) = FAILING.may_speak()
        {
            tracing::error!(path = %self.path.display(), %error, swallowed, "{what}");
        }
        done
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_holds_pages_and_goes_with_its_pool() {
        let folder = tempfile::tempdir().expect("a folder");
        let spills = SpillFolder::open(folder.path(), Bytes::mib(1)).expect("opened");
        let spill = spills.make().expect("made");
        assert_eq!(spill.slots(), 256);
        spill.write(255, &[7; 4096]).expect("written");
        let mut page = [0; 4096];
        spill.read(255, &mut page).expect("read");
        assert_eq!(page, [7; 4096]);
        let files = || fs::read_dir(folder.path()).expect("a folder").flatten();
        let file = files().next().expect("a file");
        let facts = file.metadata().expect("facts");
        assert_eq!(
            (facts.len(), facts.permissions().mode() & 0o777),
            (1 << 20, 0o600)
        );
        drop(spill);
        assert_eq!(files().count(), 0);
    }

    /// Another tenant's file, and another daemon's.
    #[test]
    fn a_file_in_use_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = SpillFolder::open(folder.path(), Bytes::mib(1)).expect("opened");
        let spill = first.make().expect("made");
        SpillFolder::open(folder.path(), Bytes::mib(1)).expect("opened");
        let files = || fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(files(), 1);
        drop(spill);
        assert_eq!(files(), 0);
    }

    #[test]
    fn what_a_dead_daemon_left_is_removed_and_other_files_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("1-0.spill"), b"left").expect("written");
        fs::write(folder.path().join("notes.txt"), b"mine").expect("written");
        SpillFolder::open(folder.path(), Bytes::mib(1)).expect("opened");
        let left: Vec<_> = fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].file_name(), "notes.txt");
    }
}
