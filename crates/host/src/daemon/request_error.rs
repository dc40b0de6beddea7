//! Why the daemon did not do what it was asked.

use std::time::Duration;

use sublet_types::BelowBlock;

use super::lending::DRAIN_NOTICE_MAX;
use super::save_error::SaveError;
use super::what_if_error::WhatIfError;
use crate::config::{ConfigFaults, DISKS_MAX, PersistError};
use crate::disk::DiskError;
use crate::headroom::ReleaseOrderError;
use crate::manager::WrongPolicy;
use crate::peers::membership::MembershipError;
use crate::tenants::TenantsError;

/// Why the daemon did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No tenant was added, changed or removed.
    #[error(transparent)]
    Tenant(#[from] TenantsError),
    /// The change would not survive a restart, so nothing was changed.
    #[error("nothing was changed, because the change would not outlast the daemon: {0}")]
    Persist(#[from] PersistError),
    /// There is no such policy, or it has no such knobs.
    #[error(transparent)]
    Policy(#[from] WrongPolicy),
    /// The what-if question has no answer.
    #[error(transparent)]
    WhatIf(#[from] WhatIfError),
    /// Nothing was released.
    #[error(transparent)]
    Order(#[from] ReleaseOrderError),
    /// The requested disk makes no sense.
    #[error(transparent)]
    DiskAsked(#[from] ConfigFaults),
    /// There are as many disks as a daemon serves.
    #[error("there are {DISKS_MAX} disks already")]
    TooManyDisks,
    /// Nothing was done with a disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// No tenant was saved or restored.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// The hold is longer than anybody can mean.
    #[error("a hold lasts {} days at most", HOLD_MAX.as_secs() / 86_400)]
    Hold,
    /// The host has no peers.
    #[error("this host has no peers: its config has no section [peers]")]
    NoPeers,
    /// The host cannot register with etcd.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The notice of a drain is longer than anybody can mean.
    #[error("a drain's notice lasts {} minutes at most", DRAIN_NOTICE_MAX.as_secs() / 60)]
    DrainNotice,
    /// The amount is less than can be given back.
    #[error("a release of {0}")]
    Amount(#[from] BelowBlock),
}

/// The longest hold.
pub(super) const HOLD_MAX: Duration = Duration::from_secs(30 * 86_400);
