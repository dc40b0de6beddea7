//! The claim to a state folder: two daemons that wrote there would undo each other's changes, and lose each other's notes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::KeepError;

/// A claim to the state folder, if there is one: laid when a daemon starts, and held for as long as it lives. Where that
/// did not succeed, each write tries it again. Who reads only needs none.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    folder: Option<PathBuf>,
    lock: Arc<Mutex<Option<File>>>,
}

impl Claim {
    /// A claim to be laid.
    pub fn to(folder: Option<PathBuf>) -> Claim {
        Claim {
            folder,
            lock: Arc::default(),
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

    /// Lays the claim, if that was not done; says to what.
    ///
    /// # Errors
    ///
    /// There is no folder, another daemon has it, or the system refuses.
    pub fn lay(&self) -> Result<&Path, KeepError> {
        let folder = self.folder().ok_or(KeepError::NoFolder)?;
        let mut lock = self.lock.lock();
        if lock.is_some() {
            return Ok(folder);
        }
        let path = folder.join(LOCK);
        let failed = |source| KeepError::Write {
            path: path.clone(),
            source,
        };
        let file = open_lock(folder, &path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                sign(&file);
                *lock = Some(file);
                Ok(folder)
            }
            Err(TryLockError::WouldBlock) => Err(KeepError::Shared(folder.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
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
}
