//! What the courier has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the courier has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CourierFigures {
    /// Pages that lenders took.
    pub pages_taken: u64,
    /// Pages that lenders did not take, or of which that is not known.
    pub pages_lost: u64,
    /// Connections that ended because the lender was silent, broke the protocol, or closed them.
    pub connections_lost: u64,
}

/// The courier's counters.
#[derive(Debug, Default)]
pub(super) struct CourierCounters {
    pub(super) pages_taken: AtomicU64,
    pub(super) pages_lost: AtomicU64,
    pub(super) connections_lost: AtomicU64,
}

impl CourierCounters {
    /// Adds one to a counter.
    pub(super) fn bump(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What they show now.
    pub(super) fn figures(&self) -> CourierFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CourierFigures {
            pages_taken: read(&self.pages_taken),
            pages_lost: read(&self.pages_lost),
            connections_lost: read(&self.connections_lost),
        }
    }
}
