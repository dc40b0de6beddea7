//! How much happened in a run.

use std::ops::AddAssign;

use serde::Serialize;

/// How much happened in a run, so that nobody takes an idle one for a good one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterTally {
    /// Events of the agenda.
    pub events: u64,
    /// Faults.
    pub faults: u64,
    /// Runs of nodes.
    pub starts: u64,
    /// Pages that guests read.
    pub pages_read: u64,
    /// Pages that guests wrote.
    pub pages_written: u64,
    /// Pages that came from lenders.
    pub far_hits: u64,
    /// Pages that lenders were asked for and did not give in time.
    pub far_lost: u64,
    /// Pages that lenders took.
    pub sent: u64,
    /// Pages on their way to lenders that were lost.
    pub sent_lost: u64,
    /// Blocks that were granted.
    pub granted: u64,
    /// Blocks that lenders took back for themselves.
    pub taken: u64,
    /// Blocks that nobody claimed.
    pub unclaimed: u64,
    /// Times that a node began to lead.
    pub elections: u64,
    /// Pieces of advice that leaders sent.
    pub advised: u64,
    /// Those that their borrowers followed.
    pub followed: u64,
    /// Times that a borrower drew members to ask, because nobody advised.
    pub drawn: u64,
    /// Borrowed leases that ended with a connection, a run or a lie, and not by what both ends agreed on.
    pub leases_lost: u64,
    /// Bytes of control lines.
    pub control_bytes: u64,
    /// Bytes of page messages.
    pub page_bytes: u64,
}

impl AddAssign for ClusterTally {
    fn add_assign(&mut self, more: ClusterTally) {
        self.events += more.events;
        self.faults += more.faults;
        self.starts += more.starts;
        self.pages_read += more.pages_read;
        self.pages_written += more.pages_written;
        self.far_hits += more.far_hits;
        self.far_lost += more.far_lost;
        self.sent += more.sent;
        self.sent_lost += more.sent_lost;
        self.granted += more.granted;
        self.taken += more.taken;
        self.unclaimed += more.unclaimed;
        self.elections += more.elections;
        self.advised += more.advised;
        self.followed += more.followed;
        self.drawn += more.drawn;
        self.leases_lost += more.leases_lost;
        self.control_bytes += more.control_bytes;
        self.page_bytes += more.page_bytes;
    }
}
