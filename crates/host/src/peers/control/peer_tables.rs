//! What the control thread writes and other threads read.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use sublet_lend::ids::{LeaseId, PeerId, SessionId};
use sublet_lend::lender::LoanLookup;
use sublet_lend::node::{LendingNode, LendingStatus};

use super::lease_records::LeaseRecords;
use super::refusals::RefusalCounts;
use super::sessions::SessionTable;

/// The tables of this node. The control thread alone changes them.
#[derive(Debug)]
pub struct PeerTables {
    pub(super) node: RwLock<LendingNode>,
    pub(super) refusals: Mutex<RefusalCounts>,
    /// The sessions with peers.
    pub sessions: SessionTable,
    /// The leases that this node has of lenders.
    pub leases: LeaseRecords,
}

impl PeerTables {
    /// Tables without a session and without a lease.
    pub(super) fn new(node: LendingNode) -> Arc<PeerTables> {
        Arc::new(PeerTables {
            node: RwLock::new(node),
            refusals: Mutex::default(),
            sessions: SessionTable::default(),
            leases: LeaseRecords::default(),
        })
    }

    /// Finds the block that an index of a lease stands for, if `session` is the peer's present one. Nothing is
    /// allocated.
    pub fn find_loan(
        &self,
        peer: PeerId,
        session: SessionId,
        lease: LeaseId,
        index: u32,
    ) -> LoanLookup {
        self.node.read().loans().find(peer, session, lease, index)
    }

    /// How the node stands with its peers.
    pub fn status(&self) -> LendingStatus {
        self.node.read().status()
    }

    /// Who was refused so far.
    pub fn refusals(&self) -> RefusalCounts {
        self.refusals.lock().clone()
    }
}
