//! A release by hand, as it waits for the thread that follows the host.

use std::time::Duration;

use sublet_types::{Bytes, ReleaseMode, TenantId};

use super::holds::TooManyHolds;
use crate::observe::events::Actor;

/// Orders that may wait for the thread.
pub(super) const ORDERS_MAX: usize = 16;

/// What somebody wants given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// How much.
    pub amount: Bytes,
    /// How blocks are chosen; by the amount, as the daemon does, where `None`.
    pub mode: Option<ReleaseMode>,
    /// From whom; from all where `None`.
    pub tenant: Option<TenantId>,
    /// How long the arena stays that small.
    pub hold: Duration,
    /// By whose word.
    pub by: Actor,
}

/// Why an order was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Too many wait already.
    #[error("{ORDERS_MAX} releases wait already; try again")]
    Busy,
    /// The daemon is ending.
    #[error("the daemon is ending")]
    Ended,
    /// Too many holds.
    #[error(transparent)]
    Holds(#[from] TooManyHolds),
}
