//! Why the results' page was not made.

use std::io;

use sublet_sim::plot::PlotError;

use crate::exit::Exit;

/// Why the results' page was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResultsError {
    /// A folder that is not there.
    #[error("{0}: there is no such folder; name one that is there")]
    NoFolder(String),
    /// A file cannot be read.
    #[error("cannot read {file}: {cause}; record the experiment first (`sublet-lab sim results`)")]
    Unreadable {
        /// The file.
        file: String,
        /// Why not.
        cause: io::Error,
    },
    /// A file holds no record.
    #[error("{file} holds no record: {cause}; record the experiment anew")]
    NoRecord {
        /// The file.
        file: String,
        /// What is wrong.
        cause: serde_json::Error,
    },
    /// A record or a template lacks something that the page shows.
    #[error("{0} is not there; record the experiment anew")]
    Lacks(String),
    /// A command could not be started or waited for.
    #[error("cannot run `{line}`: {cause}")]
    NotRun {
        /// The command.
        line: String,
        /// Why not.
        cause: io::Error,
    },
    /// A command failed.
    #[error("`{0}` failed; its record stays as it was")]
    Failed(String),
    /// A command printed something else than expected.
    #[error("`{line}` printed something else than expected: {cause}")]
    Shape {
        /// The command.
        line: String,
        /// What is wrong.
        cause: serde_json::Error,
    },
    /// A picture could not be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// A file could not be written.
    #[error("cannot write {file}: {cause}")]
    Unwritable {
        /// The file.
        file: String,
        /// Why not.
        cause: io::Error,
    },
}

impl ResultsError {
    /// Says it.
    pub(super) fn exit(&self) -> Exit {
        match self {
            ResultsError::NoFolder(_) => Exit::usage(self),
            _ => Exit::failed(self),
        }
    }
}
