//! Why a tenant was not added, changed or removed.

use sublet_store::TenantError;
use sublet_types::{BelowBlock, Bytes, TenantName};

use crate::config::{PersistError, WEIGHT_MAX};

/// Why a tenant was not added, changed or removed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum TenantsError {
    /// No tenant of that name.
    #[error("no tenant is called {0}")]
    Unknown(TenantName),
    /// The tenant is still in use.
    #[error("tenant {name} cannot go: {by}")]
    InUse {
        /// Which tenant.
        name: TenantName,
        /// What uses it.
        by: String,
    },
    /// The store does not take it, or not with these settings.
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
    /// A limit below a block. It means nothing, because memory moves in blocks.
    #[error("tenant {name}: its {limit} of {source}")]
    BelowBlock {
        /// Which tenant.
        name: TenantName,
        /// Floor or ceiling.
        limit: &'static str,
        /// The amount that was asked for.
        source: BelowBlock,
    },
    /// The floor is more than there can ever be.
    #[error("the floor is above the arena's ceiling, {arena}")]
    Floor {
        /// The arena's ceiling.
        arena: Bytes,
    },
    /// The floor and those of the others are more than there can ever be.
    #[error(
        "the tenants' floors would be {together} together, more than the arena's ceiling, {arena}: lower another's first"
    )]
    Floors {
        /// All tenants' floors.
        together: Bytes,
        /// The arena's ceiling.
        arena: Bytes,
    },
    /// The change would not survive a restart.
    #[error("nothing was changed, because the change would not outlast the daemon: {0}")]
    Persist(#[from] PersistError),
    /// A file system hangs.
    #[error("another disk or tenant is being added and does not finish: a file system hangs")]
    AddingHangs,
}
