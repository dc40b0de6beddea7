//! Why a change could not be kept.

use std::io;
use std::path::PathBuf;

/// Why a change could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// No state folder is given.
    #[error(
        "there is no state folder; start the daemon with --state FOLDER, or make the change with --temporary"
    )]
    NoFolder,
    /// Another daemon keeps its changes there.
    #[error(
        "another sublet keeps its changes in {}; give this one a folder of its own (--state FOLDER), or make the change with --temporary", .0.display()
    )]
    Shared(PathBuf),
    /// The state folder's file system hangs.
    #[error("the state folder {} does not answer; check its file system", .0.display())]
    Unresponsive(PathBuf),
    /// The system refused.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file that was written.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system refused when the file had been replaced already, or may have been.
    #[error(
        "cannot say whether {path} was written: {source}; the daemon writes its former content over it"
    )]
    Unsure {
        /// The file that was written.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
}
