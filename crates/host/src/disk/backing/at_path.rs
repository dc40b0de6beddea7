//! Where a backing was found, and whether it is there still.

use std::fs::Metadata;
#[cfg(test)]
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A path, and the file or device that it led to when that was opened.
#[derive(Clone, Debug)]
pub(in crate::disk) struct AtPath {
    pub(super) path: PathBuf,
    pub(super) identity: [u64; 2],
}

/// What became of a path that leads to its backing no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::disk) enum Astray {
    #[error(
        "its backing was deleted or moved away: it is served from the open file, which no later start finds"
    )]
    Gone,
    #[error(
        "another file is at its backing's path: it is served from the one that was opened, which no later start finds"
    )]
    Replaced,
}

impl AtPath {
    /// A path, with what it leads to now.
    #[cfg(test)]
    pub(in crate::disk) fn of(path: &Path) -> io::Result<AtPath> {
        Ok(AtPath {
            path: path.to_owned(),
            identity: identity(&std::fs::metadata(path)?),
        })
    }

    pub(in crate::disk) fn path(&self) -> &Path {
        &self.path
    }

    /// What became of it. Asks the path's file system, which may hang.
    pub(in crate::disk) fn look(&self) -> Option<Astray> {
        match std::fs::metadata(&self.path) {
            Ok(facts) => (identity(&facts) != self.identity).then_some(Astray::Replaced),
            Err(error) => {
                let gone = [ErrorKind::NotFound, ErrorKind::NotADirectory];
                gone.contains(&error.kind()).then_some(Astray::Gone)
            }
        }
    }
}

/// Which file or device it is, among those that are there now.
pub(super) fn identity(facts: &Metadata) -> [u64; 2] {
    match facts.file_type().is_block_device() {
        true => [u64::MAX, facts.rdev()],
        false => [facts.dev(), facts.ino()],
    }
}
