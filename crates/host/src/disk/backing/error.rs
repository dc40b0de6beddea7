//! Why a backing cannot be used.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use sublet_types::{Bytes, DiskName};

use crate::stuck::StuckProcess;

/// Why a backing cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BackingError {
    /// The backing cannot be opened or measured.
    #[error("cannot open the backing {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no backing, and none can be made.
    #[error("cannot make the backing {path}: {source}{}", limit(.source))]
    Make {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The daemon may not open the backing.
    #[error(
        "cannot open the backing {path}: {source}; the daemon runs as uid {uid}, which has to read it and, unless it is `--read-only`, to write it (docs/disks.md: \"Under systemd\")"
    )]
    Denied {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// The daemon's user.
        uid: u32,
    },
    /// The backing is neither a file nor a block device.
    #[error("the backing {0} is neither a file nor a block device")]
    Kind(PathBuf),
    /// The backing is an image in a format of its own.
    #[error(
        "the backing {path} is a {format} image; only raw ones can be served: `qemu-img convert -O raw {path} …` makes one"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The format.
        format: &'static str,
    },
    /// Another process uses the backing.
    #[error(
        "the backing {0} is in use by another process (QEMU, or another sublet): stop that first, or give both `--read-only`"
    )]
    InUse(PathBuf),
    /// A daemon that was killed and cannot end uses the backing.
    #[error("the backing {path} is in use: {stuck}")]
    Stuck {
        /// The file.
        path: PathBuf,
        /// The process that has it.
        stuck: StuckProcess,
    },
    /// Another disk of this daemon has the backing.
    #[error(
        "the backing {path} is that of disk {disk} already: two disks share a backing only if both are `--read-only`"
    )]
    Shared {
        /// The file.
        path: PathBuf,
        /// That disk.
        disk: DiskName,
    },
    /// No disk has the backing's size.
    #[error("the backing {path} has {bytes} bytes; a disk has at least one page of 4096")]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The backing has another size than the settings say.
    #[error(
        "the backing {path} has {has} ({} bytes), and the given size is {said} ({} bytes): omit the size to serve all of it, or make both the same",
        has.0, said.0
    )]
    OtherSize {
        /// The file.
        path: PathBuf,
        /// The backing's size.
        has: Bytes,
        /// The size in the settings.
        said: Bytes,
    },
}

/// Which limit of the process a file would exceed, if the error says so.
fn limit(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            "; the process may be under a limit (RLIMIT_FSIZE: `ulimit -f`, as a service LimitFSIZE=)"
        }
        _ => "",
    }
}

impl BackingError {
    /// The error of a backing that could not be made.
    pub(crate) fn making(path: &Path, source: io::Error) -> BackingError {
        match BackingError::opening(path, source) {
            BackingError::Open { path, source } => BackingError::Make { path, source },
            denied => denied,
        }
    }

    /// The error of a backing that could not be opened.
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
