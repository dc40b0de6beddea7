//! Why a simulation has no outcome.

use std::io;

use sublet_sim::cached_disk::PlayError;
use sublet_sim::machine::tier_store::StoreTierError;
use sublet_sim::plot::PlotError;
use sublet_sim::run::RunError;
use sublet_sim::scenario::ScenarioError;
use sublet_sim::sharing::{SetError, SharingError};
use sublet_sim::traces::{FormatError, TraceError};

use crate::exit::Exit;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimError {
    /// Neither a file nor a shipped scenario.
    #[error(
        "there is no file {0:?}, and no scenario of that name is shipped; `sublet-lab sim list` names those that are"
    )]
    NoScenario(String),
    /// A scenario that cannot be read.
    #[error("cannot read {file}: {cause}; give a scenario's file or name")]
    Unreadable {
        /// The file.
        file: String,
        /// Why not.
        cause: io::Error,
    },
    /// A flag that would change nothing.
    #[error("{0} changes nothing in what was asked for; leave it out")]
    Unheard(&'static str),
    /// A scenario that makes no sense.
    #[error(transparent)]
    Scenario(Box<ScenarioError>),
    /// A trace whose name tells no format.
    #[error("{file}: {cause} (--format)")]
    Format {
        /// The file.
        file: String,
        /// What is wrong.
        cause: FormatError,
    },
    /// A trace cannot be opened.
    #[error("cannot open {file}: {cause}")]
    NoTrace {
        /// The file.
        file: String,
        /// Why not.
        cause: io::Error,
    },
    /// A trace without an access.
    #[error(
        "{0} holds no access, so there is nothing to replay; fetch the file again, or say its format (--format)"
    )]
    EmptyTrace(String),
    /// A trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A scenario did not run to its end.
    #[error("{scenario} ({label}): {cause}")]
    Run {
        /// Which.
        scenario: String,
        /// With what.
        label: String,
        /// Why not.
        cause: Box<RunError>,
    },
    /// This machine has no memory for a simulated store.
    #[error(transparent)]
    Store(#[from] StoreTierError),
    /// A trace could not be done to its end.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// A set's trace cannot be read.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A set could not be played.
    #[error(transparent)]
    Sharing(#[from] SharingError),
    /// The plot could not be made.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The plot could not be written.
    #[error("cannot write {file}: {cause}; --plot wants a file in a folder that is there")]
    Unwritable {
        /// The file.
        file: String,
        /// Why not.
        cause: io::Error,
    },
}

impl From<ScenarioError> for SimError {
    fn from(error: ScenarioError) -> SimError {
        SimError::Scenario(Box::new(error))
    }
}

impl SimError {
    /// Says it.
    pub(super) fn exit(&self) -> Exit {
        match self {
            SimError::NoScenario(_)
            | SimError::Unreadable { .. }
            | SimError::Scenario(_)
            | SimError::Unheard(_)
            | SimError::Format { .. } => Exit::usage(self),
            SimError::NoTrace { .. }
            | SimError::EmptyTrace(_)
            | SimError::Trace(_)
            | SimError::Run { .. }
            | SimError::Store(_)
            | SimError::Play(_)
            | SimError::Set(_)
            | SimError::Sharing(_)
            | SimError::Plot(_)
            | SimError::Unwritable { .. } => Exit::failed(self),
        }
    }
}
