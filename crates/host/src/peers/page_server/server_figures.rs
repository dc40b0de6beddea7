//! What the page server has done.

use std::sync::atomic::{AtomicU64, Ordering};

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

/// The counters of all threads.
#[derive(Debug, Default)]
pub(super) struct ServerCounters {
    pub(super) pages_read: AtomicU64,
    pub(super) pages_absent: AtomicU64,
    pub(super) pages_written: AtomicU64,
    pub(super) requests_refused: AtomicU64,
    pub(super) connections_refused: AtomicU64,
    pub(super) connections_broken: AtomicU64,
}

impl ServerCounters {
    /// Adds to a counter.
    pub(super) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// What they show now.
    pub(super) fn figures(&self) -> PageServerFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PageServerFigures {
            pages_read: read(&self.pages_read),
            pages_absent: read(&self.pages_absent),
            pages_written: read(&self.pages_written),
            requests_refused: read(&self.requests_refused),
            connections_refused: read(&self.connections_refused),
            connections_broken: read(&self.connections_broken),
        }
    }
}
