//! Where a backing was found, and whether it is still there.

use std::fs::Metadata;
#[cfg(test)]
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A path, and the file or device that it led to when the backing was opened.
#[derive(Clone, Debug)]
pub(in crate::disk) struct BackingPath {
    pub(super) path: PathBuf,
    pub(super) identity: [u64; 2],
}

/// Why a path no longer leads to its backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::disk) enum PathMismatch {
    #[error(
        "its backing was deleted or moved away: the daemon serves the open file, which no later start finds"
    )]
    Gone,
    #[error(
        "another file is at its backing's path: the daemon serves the file that it opened, which no later start finds"
    )]
    Replaced,
}

impl BackingPath {
    /// A path, with the file that it leads to now.
    #[cfg(test)]
    pub(in crate::disk) fn of(path: &Path) -> io::Result<BackingPath> {
        Ok(BackingPath {
            path: path.to_owned(),
            identity: identity(&std::fs::metadata(path)?),
        })
    }

    pub(in crate::disk) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what happened to the path, if it no longer leads to its backing. Asks the path's file system, which may
    /// hang.
    pub(in crate::disk) fn check(&self) -> Option<PathMismatch> {
        match std::fs::metadata(&self.path) {
            Ok(facts) => (identity(&facts) != self.identity).then_some(PathMismatch::Replaced),
            Err(error) => {
                let gone = [ErrorKind::NotFound, ErrorKind::NotADirectory];
                gone.contains(&error.kind()).then_some(PathMismatch::Gone)
            }
        }
    }
}

/// Identifies a file or device among those that are there now.
pub(super) fn identity(facts: &Metadata) -> [u64; 2] {
    match facts.file_type().is_block_device() {
        true => [u64::MAX, facts.rdev()],
        false => [facts.dev(), facts.ino()],
    }
}
