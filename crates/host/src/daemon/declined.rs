//! Why the daemon did not do what it was asked.

use std::time::Duration;

use sublet_store::TenantError;
use sublet_types::{BelowBlock, Bytes, TenantName};

use super::no_answer::NoAnswer;
use super::save_error::SaveError;
use crate::config::{DISKS_MAX, Faults, KeepError, WEIGHT_MAX};
use crate::disk::DiskError;
use crate::headroom::OrderError;
use crate::manager::WrongPolicy;

/// Why the daemon did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Declined {
    /// No tenant of that name.
    #[error("no tenant is called {0}")]
    NoTenant(TenantName),
    /// It is somebody's still.
    #[error("tenant {name} cannot go: {by}")]
    TenantInUse {
        /// Which tenant.
        name: TenantName,
        /// What has it.
        by: String,
    },
    /// The change makes no sense.
    #[error("tenant {name}: {source}")]
    Change {
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
    /// It would not survive a restart; nothing was changed.
    #[error("nothing was changed, for it would not outlast the daemon: {0}")]
    Keep(#[from] KeepError),
    /// No such policy, or not with such knobs.
    #[error(transparent)]
    Policy(#[from] WrongPolicy),
    /// There is no answer to what would be.
    #[error(transparent)]
    WhatIf(#[from] NoAnswer),
    /// Nothing was released.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The disk that was asked for makes no sense.
    #[error(transparent)]
    DiskAsked(#[from] Faults),
    /// More than a daemon serves.
    #[error("there are {DISKS_MAX} disks already")]
    TooManyDisks,
    /// A file system hangs.
    #[error("another disk or tenant is being added, and that does not end: a file system hangs")]
    AddingHangs,
    /// Nothing was done with a disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// No tenant was saved or restored.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// A hold longer than anybody can mean.
    #[error("a hold lasts {} days at most", HOLD_MAX.as_secs() / 86_400)]
    Hold,
    /// Less than can be given back.
    #[error("a release of {0}")]
    Amount(#[from] BelowBlock),
}

/// The longest hold.
pub(super) const HOLD_MAX: Duration = Duration::from_secs(30 * 86_400);
