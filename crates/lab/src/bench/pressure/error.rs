//! Why pressure could not be tried.

use std::io;

use sublet_types::Bytes;

use super::super::group::GroupError;
use super::super::ours::NoSublet;
use super::daemon::DaemonError;
use super::eater::EaterError;

/// Why it could not be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PressureError {
    /// There is no daemon.
    #[error(transparent)]
    NoSublet(#[from] NoSublet),
    /// The daemon.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The program that takes memory.
    #[error(transparent)]
    Eater(#[from] EaterError),
    /// The files that are read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The cgroup with a limit.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The host's figures.
    #[error(transparent)]
    Host(#[from] sublet_host::headroom::ReadError),
}

/// Why the files could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    /// They could not be made.
    #[error("cannot make files of {0} in {1}: {2}")]
    Make(Bytes, &'static str, io::Error),
    /// They could not be read.
    #[error("cannot read a file of the bench: {0}")]
    Read(io::Error),
}
