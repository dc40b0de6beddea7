//! The claim to a state folder: two daemons that wrote there would undo each other's changes, and lose each other's notes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::keep_error::KeepError;

/// How long who wants a claim waits for somebody who is laying it: since he began.
const LAYING_MAX: Duration = Duration::from_secs(2);

/// A claim to the state folder, if there is one: laid when a daemon starts, and held for as long as it lives. Where that
/// did not succeed, each write tries it again. Who reads only needs none.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    folder: Option<PathBuf>,
    laid: Arc<Laid>,
}

/// How far a claim is. No file is touched while this is locked, for its file system may hang.
#[derive(Debug, Default)]
struct Laid {
    lock: Mutex<Lock>,
    news: Condvar,
}

#[derive(Debug, Default)]
enum Lock {
    #[default]
    Free,
    /// Somebody lays it since then.
    Laying(Instant),
    Had {
        _file: File,
    },
}

impl Claim {
    /// A claim to be laid.
    pub fn to(folder: Option<PathBuf>) -> Claim {
        Claim {
            folder,
            laid: Arc::default(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The number of the process whose claim is in the way, as far as that is written there.
    pub(crate) fn signature(&self) -> Option<u32> {
        let signed = fs::read_to_string(self.folder()?.join(LOCK)).ok()?;
        signed.trim().parse().ok()
    }

    /// The lock by which the folder is claimed, as the kernel names it.
    pub(crate) fn lock_file(&self) -> Option<PathBuf> {
        let folder = fs::canonicalize(self.folder()?).ok()?;
        Some(folder.join(LOCK))
    }

    /// Whether the folder does not answer: who lays the claim waits for it.
    pub(crate) fn is_silent(&self) -> bool {
        match *self.laid.lock.lock() {
            Lock::Laying(since) => since.elapsed() >= LAYING_MAX,
            Lock::Free | Lock::Had { .. } => false,
        }
    }

    /// Lays the claim, if that was not done; says to what. One does that at a time.
    ///
    /// # Errors
    ///
    /// There is no folder, another daemon has it, or the system refuses. Somebody lays it already, and the folder does not
    /// answer.
    pub fn lay(&self) -> Result<&Path, KeepError> {
        let folder = self.folder().ok_or(KeepError::NoFolder)?;
        if self.laid.is_had_or_begun(folder)? {
            return Ok(folder);
        }
        let (lock, laid) = match take(folder) {
            Ok(file) => (Lock::Had { _file: file }, Ok(folder)),
            Err(error) => (Lock::Free, Err(error)),
        };
        *self.laid.lock.lock() = lock;
        self.laid.news.notify_all();
        laid
    }
}

impl Laid {
    /// Whether it is laid. Where it is not, who asks lays it.
    fn is_had_or_begun(&self, folder: &Path) -> Result<bool, KeepError> {
        let mut lock = self.lock.lock();
        while let Lock::Laying(since) = *lock {
            let late = self.news.wait_until(&mut lock, since + LAYING_MAX);
            if late.timed_out() && matches!(*lock, Lock::Laying(_)) {
                return Err(KeepError::Silent(folder.to_owned()));
            }
        }
        let is_had = matches!(*lock, Lock::Had { .. });
        if !is_had {
            *lock = Lock::Laying(Instant::now());
        }
        Ok(is_had)
    }
}

/// Takes the lock of a folder.
fn take(folder: &Path) -> Result<File, KeepError> {
    let path = folder.join(LOCK);
    let failed = |source| KeepError::Write {
        path: path.clone(),
        source,
    };
    let file = open_lock(folder, &path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            sign(&file);
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => Err(KeepError::Shared(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

const LOCK: &str = "live.lock";

/// Says whose it is, for whoever finds it. There may be no room for that.
fn sign(file: &File) {
    let signed = file
        .set_len(0)
        .and_then(|()| file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0));
    if let Err(error) = signed {
        tracing::debug!(%error, "the lock of the state folder does not say whose it is");
    }
}

/// Opens the lock of a state folder; makes both where they are not there.
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
            .map(|()| Claim::to(Some(folder.path().to_owned())))
            .into();
        assert_eq!(one.lay().expect("free"), folder.path());
        one.clone().lay().expect("the same one's");
        assert_eq!(other.signature(), Some(std::process::id()));
        assert!(matches!(other.lay(), Err(KeepError::Shared(_))));
        drop(one);
        other.lay().expect("free again");
        assert!(matches!(Claim::default().lay(), Err(KeepError::NoFolder)));
    }

    #[test]
    fn who_finds_that_a_claim_is_being_laid_waits_a_moment_only() {
        let claim = Claim::to(Some("/a folder that hangs".into()));
        *claim.laid.lock.lock() = Lock::Laying(Instant::now());
        for _ in 0..2 {
            assert!(matches!(claim.lay(), Err(KeepError::Silent(_))));
            assert!(claim.is_silent());
        }
    }
}
