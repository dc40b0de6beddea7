//! A release by hand, as it waits for the thread that follows the host.

use std::time::Duration;

use sublet_types::{Bytes, ReleaseMode, TenantId};

use super::holds::TooManyHolds;
use crate::observe::events::Actor;

/// The most orders that may wait for the thread.
pub(super) const ORDERS_MAX: usize = 16;

/// What a caller wants given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseOrder {
    /// How much.
    pub amount: Bytes,
    /// How blocks are chosen. With `None` the daemon chooses by the amount.
    pub mode: Option<ReleaseMode>,
    /// The tenant that gives. With `None` all tenants give.
    pub tenant: Option<TenantId>,
    /// How long the arena stays that small.
    pub hold: Duration,
    /// The actor.
    pub by: Actor,
}

/// Why an order was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseOrderError {
    /// Too many orders wait already.
    #[error("{ORDERS_MAX} releases wait already; try again")]
    Busy,
    /// The daemon is ending.
    #[error("the daemon is ending")]
    Ended,
    /// Too many holds.
    #[error(transparent)]
    Holds(#[from] TooManyHolds),
}
