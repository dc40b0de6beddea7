//! Disks: files and swap of virtual machines, with the host's idle memory in front of their backings.
//!
//! A request that memory can answer is answered where it arrives ([`desk`]). Every other goes to the disk's own
//! thread ([`floor`]), whose hands carry it out over memory and [`backing`] with its pages held ([`ranges`]),
//! so that what overlaps keeps its order. Swap is acknowledged from the [`stage`] and written [`behind`].

mod backed;
mod backing;
mod behind;
mod bell;
mod cover;
mod desk;
mod engine;
mod figures;
mod floor;
mod inbox;
mod open;
mod ranges;
mod stage;
mod swap;
#[cfg(test)]
mod tests;
mod work;

use std::io;

use sublet_store::{PoolError, TooManyWorkers};

pub use self::backing::BackingError;
pub use self::figures::Figures;
pub use self::stage::keep;

/// Why a disk cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Its backing.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// Its pool.
    #[error("no pool for the disk's pages: {0}")]
    Pool(PoolError),
    /// Its thread.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
    /// The system refused.
    #[error("the system refused what the disk needs: {0}")]
    System(io::Error),
}
