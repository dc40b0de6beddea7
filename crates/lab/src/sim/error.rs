//! Why a simulation has no outcome.

use std::io;

use sublet_sim::cached_disk::PlaybackError;
use sublet_sim::cluster::history::HistoryError;
use sublet_sim::machine::tier_store::StoreTierError;
use sublet_sim::plot::PlotError;
use sublet_sim::run::RunError;
use sublet_sim::scenario::ScenarioError;
use sublet_sim::sharing::{SharingError, TraceSetError};
use sublet_sim::traces::{TraceError, TraceFormatError};

use crate::exit::Exit;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimError {
    /// Neither a file nor a built-in scenario has this name.
    #[error(
        "there is no file {0:?}, and no scenario of that name is shipped; `sublet-lab sim list` names those that are"
    )]
    NoScenario(String),
    /// A scenario that cannot be read.
    #[error("cannot read {file}: {cause}; give a scenario's file or name")]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        cause: io::Error,
    },
    /// A history's file cannot be opened.
    #[error("cannot open {file}: {cause}; give a history's files")]
    NoHistory {
        /// The file.
        file: String,
        /// The cause.
        cause: io::Error,
    },
    /// A line of a history makes no sense.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A flag would change nothing.
    #[error("{0} has no effect on this command; leave it out")]
    UselessFlag(&'static str),
    /// Each node cannot have a connection with each.
    #[error(
        "{nodes} nodes cannot have a connection each with each, {most} are the most; choose another --leader"
    )]
    MeshTooLarge {
        /// How many nodes were asked for.
        nodes: u16,
        /// How many there may be.
        most: u16,
    },
    /// A scenario makes no sense.
    #[error(transparent)]
    Scenario(Box<ScenarioError>),
    /// The name of a trace tells no format.
    #[error("{file}: {cause} (--format)")]
    Format {
        /// The file.
        file: String,
        /// What is wrong.
        cause: TraceFormatError,
    },
    /// A trace cannot be opened.
    #[error("cannot open {file}: {cause}")]
    NoTrace {
        /// The file.
        file: String,
        /// The cause.
        cause: io::Error,
    },
    /// A trace has no request.
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
        /// The scenario.
        scenario: String,
        /// The variant.
        label: String,
        /// The cause.
        cause: Box<RunError>,
    },
    /// This machine has no memory for a simulated store.
    #[error(transparent)]
    Store(#[from] StoreTierError),
    /// A trace could not be replayed to its end.
    #[error(transparent)]
    Play(#[from] PlaybackError),
    /// A set's trace cannot be read.
    #[error(transparent)]
    Set(#[from] TraceSetError),
    /// A set could not be replayed.
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
        /// The cause.
        cause: io::Error,
    },
}

impl From<ScenarioError> for SimError {
    fn from(error: ScenarioError) -> SimError {
        SimError::Scenario(Box::new(error))
    }
}

impl SimError {
    /// Prints the error.
    pub(super) fn exit(&self) -> Exit {
        match self {
            SimError::NoScenario(_)
            | SimError::Unreadable { .. }
            | SimError::NoHistory { .. }
            | SimError::History(_)
            | SimError::Scenario(_)
            | SimError::UselessFlag(_)
            | SimError::MeshTooLarge { .. }
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
