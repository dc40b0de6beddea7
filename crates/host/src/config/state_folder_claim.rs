//! The claim to a state folder. Two daemons that wrote there would undo each other's changes and lose each other's
//! notes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::persist_error::PersistError;

/// How long a thread that wants a claim waits for another thread that is acquiring it, counted from the other's begin.
const LAYING_MAX: Duration = Duration::from_secs(2);

/// A claim to the state folder, if there is a folder. The daemon acquires it at the start and holds it as long as it
/// lives. If that failed, each write tries again. Readers need no claim.
#[derive(Clone, Debug, Default)]
pub struct StateFolderClaim {
    folder: Option<PathBuf>,
    laid: Arc<ClaimLock>,
}

/// The state of a claim. No file is touched while this is locked, because its file system may hang.
#[derive(Debug, Default)]
struct ClaimLock {
    lock: Mutex<ClaimState>,
    news: Condvar,
}

#[derive(Debug, Default)]
enum ClaimState {
    #[default]
    Free,
    /// A thread has been acquiring it since then.
    Acquiring(Instant),
    Held {
        _file: File,
    },
}

impl StateFolderClaim {
    /// A claim that is not acquired yet.
    pub fn for_folder(folder: Option<PathBuf>) -> StateFolderClaim {
        StateFolderClaim {
            folder,
            laid: Arc::default(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The number of the process whose claim is in the way, if the lock file says it.
    pub(crate) fn holder_pid(&self) -> Option<u32> {
        let signed = fs::read_to_string(self.folder()?.join(LOCK)).ok()?;
        signed.trim().parse().ok()
    }

    /// The lock by which the folder is claimed, as the kernel names it.
    pub(crate) fn lock_file(&self) -> Option<PathBuf> {
        let folder = fs::canonicalize(self.folder()?).ok()?;
        Some(folder.join(LOCK))
    }

    /// Returns whether the folder does not answer, so that the thread that acquires the claim waits for it.
    pub(crate) fn is_unresponsive(&self) -> bool {
        match *self.laid.lock.lock() {
            ClaimState::Acquiring(since) => since.elapsed() >= LAYING_MAX,
            ClaimState::Free | ClaimState::Held { .. } => false,
        }
    }

    /// Acquires the claim, if that was not done, and returns the folder. One thread at a time does that.
    ///
    /// # Errors
    ///
    /// There is no folder, another daemon has it, or the system refuses. Or another thread is acquiring it already, and
    /// the folder does not answer.
    pub fn acquire(&self) -> Result<&Path, PersistError> {
        let folder = self.folder().ok_or(PersistError::NoFolder)?;
        if self.laid.is_held_or_begin(folder)? {
            return Ok(folder);
        }
        let (lock, laid) = match lock_folder(folder) {
            Ok(file) => (ClaimState::Held { _file: file }, Ok(folder)),
            Err(error) => (ClaimState::Free, Err(error)),
        };
        *self.laid.lock.lock() = lock;
        self.laid.news.notify_all();
        laid
    }
}

impl ClaimLock {
    /// Returns whether the claim is held. If not, the caller is the one to acquire it.
    fn is_held_or_begin(&self, folder: &Path) -> Result<bool, PersistError> {
        let mut lock = self.lock.lock();
        while let ClaimState::Acquiring(since) = *lock {
            let late = self.news.wait_until(&mut lock, since + LAYING_MAX);
            if late.timed_out() && matches!(*lock, ClaimState::Acquiring(_)) {
                return Err(PersistError::Unresponsive(folder.to_owned()));
            }
        }
        let is_had = matches!(*lock, ClaimState::Held { .. });
        if !is_had {
            *lock = ClaimState::Acquiring(Instant::now());
        }
        Ok(is_had)
    }
}

/// Takes the lock of a folder.
fn lock_folder(folder: &Path) -> Result<File, PersistError> {
    let path = folder.join(LOCK);
    let failed = |source| PersistError::Write {
        path: path.clone(),
        source,
    };
    let file = open_lock(folder, &path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            write_pid(&file, &path);
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => Err(PersistError::Shared(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

const LOCK: &str = "live.lock";

/// Writes the daemon's process number into the file. There may be no space for that.
fn write_pid(file: &File, path: &Path) {
    let signed = file
        .set_len(0)
        .and_then(|()| file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0));
    if let Err(error) = signed {
        tracing::debug!(path = %path.display(), pid = std::process::id(), %error, "the daemon cannot write its pid into the lock of the state folder; a second daemon there will not name this one");
    }
}

/// Opens the lock of a state folder. Makes both if they are not there.
fn open_lock(folder: &Path, path: &Path) -> io::Result<File> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_daemons() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = [(); 2]
            .map(|()| StateFolderClaim::for_folder(Some(folder.path().to_owned())))
            .into();
        assert_eq!(one.acquire().expect("free"), folder.path());
        one.clone().acquire().expect("the same one's");
        assert_eq!(other.holder_pid(), Some(std::process::id()));
        assert!(matches!(other.acquire(), Err(PersistError::Shared(_))));
        drop(one);
        other.acquire().expect("free again");
        assert!(matches!(
            StateFolderClaim::default().acquire(),
            Err(PersistError::NoFolder)
        ));
    }

    #[test]
    fn who_finds_that_a_claim_is_being_laid_waits_a_moment_only() {
        let claim = StateFolderClaim::for_folder(Some("/a folder that hangs".into()));
        *claim.laid.lock.lock() = ClaimState::Acquiring(Instant::now());
        for _ in 0..2 {
            assert!(matches!(
                claim.acquire(),
                Err(PersistError::Unresponsive(_))
            ));
            assert!(claim.is_unresponsive());
        }
    }
}
