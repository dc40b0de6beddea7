//! Why a bench ends early.

use std::io;

use super::block::error::BlockError;
use super::follow::FollowError;
use super::load::LoadError;
use super::ours::NoSublet;
use super::plot::PlotError;
use super::pressure::error::PressureError;
use super::rig::RigError;
use super::status::error::StatusError;
use super::subject::{Subject, SubjectError};
use super::traces::source::TraceError;

/// Why a bench could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// There is nothing to measure.
    #[error(transparent)]
    NoSublet(#[from] NoSublet),
    /// A server could not be tested.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// A server did not answer as it should.
    #[error("while driving {program}: {cause}")]
    Load {
        /// Which.
        program: String,
        /// What was wrong.
        cause: LoadError,
    },
    /// A trace could not be replayed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The store of a bench did not do its part.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// A host's past could not be followed.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// A daemon, or a store, could not be looked at.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Disks could not be compared.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// Pages were not there that had a place.
    #[error("{0} pages were missed that nothing had displaced")]
    Missed(usize),
    /// There was no memory to compare with.
    #[error("cannot map memory to compare with: {0}")]
    Memory(io::Error),
    /// Idle connections could not be opened.
    #[error("cannot open that many connections: {0}; see `ulimit -n`")]
    Crowd(io::Error),
    /// Memory could not be put under pressure.
    #[error(transparent)]
    Pressure(#[from] PressureError),
    /// The plot could not be written.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

impl BenchError {
    /// A server that did not answer as it should.
    pub(super) fn while_driving(subject: &Subject, cause: LoadError) -> BenchError {
        BenchError::Load {
            program: subject.name().to_owned(),
            cause,
        }
    }
}
