//! Why a bench ends early.

use std::io;

use super::bench_store::BenchStoreError;
use super::disks::error::BlockError;
use super::follow::FollowError;
use super::lend::error::LendBenchError;
use super::load_generator::LoadError;
use super::plot::PlotError;
use super::pressure::error::PressureError;
use super::status::error::StatusError;
use super::sublet_option::SubletNotFound;
use super::tested_server::{TestedServer, TestedServerError};
use super::traces::source::TraceSourceError;

/// Why a bench could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The program to measure was not found.
    #[error(transparent)]
    NoSublet(#[from] SubletNotFound),
    /// A server could not be tested.
    #[error(transparent)]
    Subject(#[from] TestedServerError),
    /// A server did not answer as it should.
    #[error("while driving {program}: {cause}")]
    Load {
        /// The server.
        program: String,
        /// The cause.
        cause: LoadError,
    },
    /// A trace could not be replayed.
    #[error(transparent)]
    Trace(#[from] TraceSourceError),
    /// The store of a bench failed.
    #[error(transparent)]
    Rig(#[from] BenchStoreError),
    /// A host's trace could not be followed.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// A snapshot of a daemon or a store could not be measured.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Disks could not be compared.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// Lending could not be measured.
    #[error(transparent)]
    Lend(#[from] LendBenchError),
    /// Pages were missed although nothing had displaced them.
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
    /// An error about a server that did not answer as it should.
    pub(super) fn while_driving(server: &TestedServer, cause: LoadError) -> BenchError {
        BenchError::Load {
            program: server.name().to_owned(),
            cause,
        }
    }
}
