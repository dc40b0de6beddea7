//! What the control thread writes and other threads read.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustls::crypto::SecureRandom;
use sublet_lend::ids::{Incarnation, LeaseId, PeerId, SessionId};
use sublet_lend::leader::Ledger;
use sublet_lend::lender::LoanLookup;
use sublet_lend::node::{LendingNode, LendingPhase, LendingStatus, ToldView};
use sublet_lend::wire::HelloMessage;

use super::control_plane_error::ControlPlaneError;
use super::members::MemberTable;
use super::refusals::RefusalCounts;
use super::sessions::SessionTable;
use super::settings::ControlPlaneSettings;
use crate::peers::far_memory::FarMemory;
use crate::peers::page_faults::{FaultParty, PageFault};
use crate::peers::page_server::{
    AdmitConnections, AdmittedConnection, ConnectionRefused, FindLentBlocks,
};

/// The leases between this node and a peer, each with its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerLeases {
    /// What the peer borrows of this node.
    pub lent: Vec<(LeaseId, u32)>,
    /// What this node borrows of the peer.
    pub borrowed: Vec<(LeaseId, u32)>,
}

/// The tables of this node. The control thread alone changes them.
#[derive(Debug)]
pub struct PeerTables {
    incarnation: Incarnation,
    pub(super) node: RwLock<LendingNode>,
    pub(super) refusals: Mutex<RefusalCounts>,
    /// The members of the cluster.
    pub members: MemberTable,
    /// The sessions with peers.
    pub sessions: SessionTable,
    /// What this node has of lenders.
    pub far: FarMemory,
}

impl PeerTables {
    /// The tables of a run of the node that begins now, without a session and without a lease.
    ///
    /// # Errors
    ///
    /// The members are wrong, or the kernel gives no random bytes.
    pub fn new(
        settings: &ControlPlaneSettings,
        far: FarMemory,
        now: Duration,
    ) -> Result<Arc<PeerTables>, ControlPlaneError> {
        let incarnation = draw_incarnation(sublet_tls::provider().secure_random)?;
        let node = LendingNode::new(now, settings.node(incarnation))?;
        Ok(Arc::new(PeerTables {
            incarnation,
            node: RwLock::new(node),
            members: MemberTable::new(&settings.members),
            refusals: Mutex::default(),
            sessions: SessionTable::default(),
            far,
        }))
    }

    /// This run of the node, as its hellos name it.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// How the node stands with its peers.
    pub fn status(&self) -> LendingStatus {
        self.node.read().status()
    }

    /// Reads the ledger, if this node leads.
    pub fn with_ledger<T>(&self, read: impl FnOnce(&Ledger) -> T) -> Option<T> {
        self.node.read().ledger().map(read)
    }

    /// Whether the node lends, and whether it takes part in its cluster.
    pub fn phase(&self) -> LendingPhase {
        self.node.read().phase()
    }

    /// Returns whether this node may lead, if it is elected.
    pub fn may_lead(&self) -> bool {
        self.node.read().may_lead()
    }

    /// The leader's last answer about the cluster.
    pub fn told_view(&self) -> Option<ToldView> {
        self.node.read().told_view().cloned()
    }

    /// The leases between this node and a peer.
    pub fn leases_of(&self, peer: PeerId) -> PeerLeases {
        let node = self.node.read();
        let borrowed = node.borrows().leases_of(peer);
        PeerLeases {
            lent: node.loans().leases_of(peer).collect(),
            borrowed: borrowed
                .map(|(id, lease)| (id, lease.held().count()))
                .collect(),
        }
    }

    /// Who was refused so far.
    pub fn refusals(&self) -> RefusalCounts {
        self.refusals.lock().clone()
    }
}

impl FindLentBlocks for PeerTables {
    fn find(&self, peer: PeerId, session: SessionId, lease: LeaseId, index: u32) -> LoanLookup {
        self.node.read().loans().find(peer, session, lease, index)
    }
}

impl AdmitConnections for PeerTables {
    fn admit(&self, hello: &HelloMessage) -> Result<AdmittedConnection, ConnectionRefused> {
        let named = SessionId(hello.hello.session);
        let session = self.sessions.named(named);
        let session = session.ok_or(ConnectionRefused::NoSession(named.0))?;
        let keys = session.admit(hello)?;
        Ok(AdmittedConnection {
            peer: session.peer(),
            session: session.ours(),
            keys,
            newest_write: session.newest_write(),
        })
    }

    fn release(&self, session: SessionId) {
        if let Some(session) = self.sessions.named(session) {
            session.release();
        }
    }

    fn report(&self, party: FaultParty, fault: PageFault) {
        self.far.ledger().faults().report(party, fault);
    }
}

fn draw_incarnation(random: &dyn SecureRandom) -> Result<Incarnation, ControlPlaneError> {
    let mut bytes = [0; 8];
    random
        .fill(&mut bytes)
        .map_err(|_| ControlPlaneError::Random)?;
    Ok(Incarnation(u64::from_le_bytes(bytes)))
}
