//! Why a look could not be measured.

use std::io;

use sublet_vhost_driver::DriveError;

use super::super::load::LoadError;
use super::super::ours::NoSublet;
use super::super::rig::RigError;

/// Why a look could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    /// There is no daemon.
    #[error(transparent)]
    NoSublet(#[from] NoSublet),
    /// The daemon does not listen.
    #[error("sublet serve does not listen; it said: {0}")]
    Mute(String),
    /// A disk could not be read.
    #[error("reading a disk of the daemon: {0}")]
    Drive(#[from] DriveError),
    /// A disk answered nothing.
    #[error("a disk of the daemon does not answer")]
    Stuck,
    /// A disk failed.
    #[error("a disk of the daemon could not read its backing")]
    Unread,
    /// The arena did not grow to what was asked for: a look at it says nothing.
    #[error(
        "{there} of {wanted} pages are in the arena: is so much memory idle? File cache is not (docs/headroom.md); --arena takes less"
    )]
    Small {
        /// Pages that are there.
        there: u64,
        /// Pages of all disks.
        wanted: u64,
    },
    /// A tenant was not served.
    #[error("while getting items of the daemon: {0}")]
    Load(#[from] LoadError),
    /// The simulated arena.
    #[error(transparent)]
    Store(#[from] RigError),
    /// The simulated arena did not keep its pages: a look at it says nothing.
    #[error("{there} of {put} pages are in the simulated arena: give it 32 MiB a tenant, or more")]
    Sparse {
        /// Pages that are there.
        there: u64,
        /// Pages that were put.
        put: u64,
    },
    /// The system refused, or the daemon does not show its figures.
    #[error("the system refused what the bench needs, or the daemon a scrape: {0}")]
    System(#[from] io::Error),
}
