//! Why a look could not be measured.

use super::super::rig::RigError;

/// Why a look could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
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
}
