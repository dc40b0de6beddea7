//! Why a change could not be kept.

use std::io;
use std::path::PathBuf;

/// Why a change could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Nobody said where.
    #[error(
        "there is no state folder; start the daemon with --state FOLDER, or make the change with --temporary"
    )]
    NoFolder,
    /// Another daemon keeps its changes there.
    #[error(
        "another sublet keeps its changes in {}; give this one a folder of its own (--state FOLDER), or make the change with --temporary", .0.display()
    )]
    Shared(PathBuf),
    /// Its file system hangs.
    #[error("the state folder {} does not answer; see to its file system", .0.display())]
    Silent(PathBuf),
    /// The system refused.
    #[error("cannot write {path}: {source}")]
    Write {
        /// What was written.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system refused when the file was replaced already, or may be.
    #[error(
        "cannot say whether {path} was written: {source}; what it said before is written over it"
    )]
    Unsure {
        /// What was written.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
}
