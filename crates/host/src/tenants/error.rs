//! Why a tenant was not added, changed or removed.

use sublet_store::TenantError;
use sublet_types::{BelowBlock, Bytes, TenantName};

use crate::config::{KeepError, WEIGHT_MAX};

/// Why a tenant was not added, changed or removed. All of it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum TenantsError {
    /// No tenant of that name.
    #[error("no tenant is called {0}")]
    Unknown(TenantName),
    /// It is somebody's still.
    #[error("tenant {name} cannot go: {by}")]
    InUse {
        /// Which tenant.
        name: TenantName,
        /// What has it.
        by: String,
    },
    /// The store does not take it, or not so.
    #[error("tenant {name}: {source}")]
    Store {
        /// Which tenant.
        name: TenantName,
        /// Why.
        source: TenantError,
    },
    /// A weight that a config could not have.
    #[error("a weight is 1 to {WEIGHT_MAX}")]
    Weight,
    /// A limit that is nothing, for memory moves in blocks.
    #[error("tenant {name}: its {limit} of {source}")]
    BelowBlock {
        /// Which tenant.
        name: TenantName,
        /// Floor or ceiling.
        limit: &'static str,
        /// What it was to be.
        source: BelowBlock,
    },
    /// More than there can ever be.
    #[error("the floor is above the arena's ceiling, {arena}")]
    Floor {
        /// The arena's ceiling.
        arena: Bytes,
    },
    /// More than there can ever be, with the others'.
    #[error(
        "the tenants' floors would be {together} together, more than the arena's ceiling, {arena}: lower another's first"
    )]
    Floors {
        /// All tenants' floors.
        together: Bytes,
        /// The arena's ceiling.
        arena: Bytes,
    },
    /// It would not survive a restart.
    #[error("nothing was changed, for it would not outlast the daemon: {0}")]
    Keep(#[from] KeepError),
    /// A file system hangs.
    #[error("another disk or tenant is being added, and that does not end: a file system hangs")]
    AddingHangs,
}
