//! What the courier has done.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sublet_lend::ids::PeerId;

use crate::peers::by_peer::ByPeer;
use crate::peers::page_faults::{FaultParty, PageFault, PageFaults};

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

impl AddAssign for CourierFigures {
    fn add_assign(&mut self, other: CourierFigures) {
        self.pages_taken += other.pages_taken;
        self.pages_lost += other.pages_lost;
        self.connections_lost += other.connections_lost;
    }
}

/// The courier's counters, lender by lender, and where it reports what lenders do wrong.
#[derive(Debug)]
pub(super) struct CourierCounters {
    lenders: ByPeer<CarriedCounters>,
    faults: Arc<PageFaults>,
}

/// What was carried to one lender.
#[derive(Debug, Default)]
pub(super) struct CarriedCounters {
    pub(super) pages_taken: AtomicU64,
    pub(super) pages_lost: AtomicU64,
    pub(super) connections_lost: AtomicU64,
}

impl CourierCounters {
    /// Counters that have counted nothing.
    pub(super) fn new(faults: Arc<PageFaults>) -> CourierCounters {
        CourierCounters {
            lenders: ByPeer::default(),
            faults,
        }
    }

    /// Reports what a lender does wrong.
    pub(super) fn report(&self, lender: PeerId, fault: PageFault) {
        self.faults.report(FaultParty::Peer(lender), fault);
    }

    /// Reports a lender that broke the protocol again and again.
    pub(super) fn report_liar(&self, lender: PeerId) {
        self.faults.report_liar(lender);
    }

    /// Those of one lender.
    pub(super) fn of(&self, lender: PeerId) -> &CarriedCounters {
        self.lenders.of(lender)
    }

    /// What all of them show now.
    pub(super) fn figures(&self) -> CourierFigures {
        let mut sum = CourierFigures::default();
        self.lenders.all().for_each(|one| sum += one.figures());
        sum
    }
}

impl CarriedCounters {
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
