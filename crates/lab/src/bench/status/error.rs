//! Why a snapshot could not be measured.

use std::io;

use sublet_vhost_driver::DriverError;

use super::super::bench_store::BenchStoreError;
use super::super::load_generator::LoadError;
use super::super::sublet_option::SubletNotFound;

/// Why a snapshot could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    /// The program to measure was not found.
    #[error(transparent)]
    NoSublet(#[from] SubletNotFound),
    /// The daemon does not listen.
    #[error("sublet serve does not listen; its output was: {0}")]
    NotListening(String),
    /// A disk could not be read.
    #[error("cannot read a disk of the daemon: {0}")]
    Drive(#[from] DriverError),
    /// A disk answered nothing.
    #[error("a disk of the daemon does not answer")]
    Stuck,
    /// A disk failed.
    #[error("a disk of the daemon could not read its backing")]
    Unread,
    /// The arena did not grow to the wanted size, so a snapshot of it means nothing.
    #[error(
        "{there} of {wanted} pages are in the arena: is so much memory idle? File cache is not (docs/headroom.md); --arena takes less"
    )]
    Small {
        /// Pages that are there.
        there: u64,
        /// Pages of all disks.
        wanted: u64,
    },
    /// A tenant's requests failed.
    #[error("cannot get items of the daemon: {0}")]
    Load(#[from] LoadError),
    /// The simulated arena failed.
    #[error(transparent)]
    Store(#[from] BenchStoreError),
    /// The simulated arena did not keep its pages, so a snapshot of it means nothing.
    #[error("{there} of {put} pages are in the simulated arena: give it 32 MiB or more per tenant")]
    Sparse {
        /// Pages that are there.
        there: u64,
        /// Pages that were put.
        put: u64,
    },
    /// The system refused, or the daemon does not show its figures.
    #[error("the system refused what the bench needs, or the daemon did not show its metrics: {0}")]
    System(#[from] io::Error),
}
