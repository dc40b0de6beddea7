//! Why pressure could not be tried.

use std::io;

use sublet_types::Bytes;

use super::super::cgroup::CgroupError;
use super::super::sublet_option::SubletNotFound;
use super::daemon::DaemonError;
use super::memory_hog::MemoryHogError;

/// Why it could not be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PressureError {
    /// The program to measure was not found.
    #[error(transparent)]
    NoSublet(#[from] SubletNotFound),
    /// The daemon failed.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The program that takes memory failed.
    #[error(transparent)]
    Eater(#[from] MemoryHogError),
    /// The files that are read failed.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The cgroup with a limit failed.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The host's figures could not be read.
    #[error(transparent)]
    Host(#[from] sublet_host::headroom::HostReadError),
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
