//! Why a backing cannot be used.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use sublet_types::{Bytes, DiskName};

use crate::stuck::Stuck;

/// Why a backing cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BackingError {
    /// It cannot be opened or measured.
    #[error("cannot open the backing {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is none, and none can be made.
    #[error("cannot make the backing {path}: {source}{}", limit(.source))]
    Make {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The daemon may not.
    #[error(
        "cannot open the backing {path}: {source}; the daemon runs as uid {uid}, which has to read it and, unless it is `--read-only`, to write it (docs/disks.md: \"Under systemd\")"
    )]
    Denied {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// Who the daemon is.
        uid: u32,
    },
    /// It is neither a file nor a block device.
    #[error("the backing {0} is neither a file nor a block device")]
    Kind(PathBuf),
    /// It is an image in a format of its own.
    #[error(
        "the backing {path} is a {format} image; only raw ones can be served: `qemu-img convert -O raw {path} …` makes one"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// What it is.
        format: &'static str,
    },
    /// Somebody else uses it.
    #[error(
        "the backing {0} is in use by another process (QEMU, or another sublet): stop that first, or give both `--read-only`"
    )]
    InUse(PathBuf),
    /// A daemon uses it that was killed and cannot end.
    #[error("the backing {path} is in use: {stuck}")]
    Stuck {
        /// The file.
        path: PathBuf,
        /// Who has it.
        stuck: Stuck,
    },
    /// Another disk of this daemon has it.
    #[error(
        "the backing {path} is that of disk {disk} already: two disks share a backing only if both are `--read-only`"
    )]
    Shared {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        disk: DiskName,
    },
    /// Its size is none that a disk has.
    #[error("the backing {path} has {bytes} bytes; a disk has at least one page of 4096")]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It has another size than was said.
    #[error(
        "the backing {path} has {has} ({} bytes), and the size that was said is {said} ({} bytes): leave the size away to serve all of it, or give both the same",
        has.0, said.0
    )]
    OtherSize {
        /// The file.
        path: PathBuf,
        /// What it has.
        has: Bytes,
        /// What was said.
        said: Bytes,
    },
}

/// Which limit a file would be larger than, as far as it is the process's.
fn limit(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            "; the process may be under a limit (RLIMIT_FSIZE: `ulimit -f`, as a service LimitFSIZE=)"
        }
        _ => "",
    }
}

impl BackingError {
    /// Why making one failed.
    pub(crate) fn making(path: &Path, source: io::Error) -> BackingError {
        match BackingError::opening(path, source) {
            BackingError::Open { path, source } => BackingError::Make { path, source },
            denied => denied,
        }
    }

    /// Why opening one failed.
    pub(super) fn opening(path: &Path, source: io::Error) -> BackingError {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                let uid = geteuid().as_raw();
                BackingError::Denied { path, source, uid }
            }
            _ => BackingError::Open { path, source },
        }
    }
}
