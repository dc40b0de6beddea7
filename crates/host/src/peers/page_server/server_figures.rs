//! What the page server has done.

use std::sync::atomic::{AtomicU64, Ordering};

use sublet_lend::ids::PeerId;

use crate::peers::by_peer::ByPeer;

/// What the page server has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageServerFigures {
    /// Pages that borrowers read.
    pub pages_read: u64,
    /// Pages that borrowers asked for, and that are not here any more or never were.
    pub pages_absent: u64,
    /// Pages that borrowers wrote.
    pub pages_written: u64,
    /// Requests for blocks that the borrower was never lent, or in a session that is over.
    pub requests_refused: u64,
    /// Connections that were not let in.
    pub connections_refused: u64,
    /// Connections that ended because the borrower broke the protocol.
    pub connections_broken: u64,
}

/// What the page server has done for one borrower since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedPages {
    /// Pages that the borrower read.
    pub read: u64,
    /// Pages that the borrower asked for, and that are not here any more or never were.
    pub absent: u64,
    /// Pages that the borrower wrote.
    pub written: u64,
    /// Requests for blocks that the borrower was never lent, or in a session that is over.
    pub requests_refused: u64,
}

/// The counters of all threads.
#[derive(Debug, Default)]
pub(super) struct ServerCounters {
    borrowers: ByPeer<BorrowerCounters>,
    pub(super) connections_refused: AtomicU64,
    pub(super) connections_broken: AtomicU64,
}

/// The counters of one borrower.
#[derive(Debug, Default)]
pub(super) struct BorrowerCounters {
    pub(super) pages_read: AtomicU64,
    pub(super) pages_absent: AtomicU64,
    pub(super) pages_written: AtomicU64,
    pub(super) requests_refused: AtomicU64,
}

impl ServerCounters {
    /// Adds to a counter.
    pub(super) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Those of one borrower.
    pub(super) fn of(&self, borrower: PeerId) -> &BorrowerCounters {
        self.borrowers.of(borrower)
    }

    /// What they show now.
    pub(super) fn figures(&self) -> PageServerFigures {
        let mut figures = PageServerFigures {
            connections_refused: self.connections_refused.load(Ordering::Relaxed),
            connections_broken: self.connections_broken.load(Ordering::Relaxed),
            ..PageServerFigures::default()
        };
        for served in self.borrowers.all().map(BorrowerCounters::figures) {
            figures.pages_read += served.read;
            figures.pages_absent += served.absent;
            figures.pages_written += served.written;
            figures.requests_refused += served.requests_refused;
        }
        figures
    }
}

impl BorrowerCounters {
    /// What they show now.
    pub(super) fn figures(&self) -> ServedPages {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServedPages {
            read: read(&self.pages_read),
            absent: read(&self.pages_absent),
            written: read(&self.pages_written),
            requests_refused: read(&self.requests_refused),
        }
    }
}
