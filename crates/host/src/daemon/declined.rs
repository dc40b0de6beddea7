//! Why the daemon did not do what it was asked.

use std::time::Duration;

use sublet_types::BelowBlock;

use super::no_answer::NoAnswer;
use super::save_error::SaveError;
use crate::config::{DISKS_MAX, Faults, KeepError};
use crate::disk::DiskError;
use crate::headroom::OrderError;
use crate::manager::WrongPolicy;
use crate::tenants::TenantsError;

/// Why the daemon did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Declined {
    /// No tenant was added, changed or removed.
    #[error(transparent)]
    Tenant(#[from] TenantsError),
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
