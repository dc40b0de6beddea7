//! The sessions with peers: what connections that carry pages need to prove that they belong to one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use sublet_lend::ids::{Incarnation, NodeName, PeerId, SessionId};
use sublet_lend::wire::{
    AdmissionError, ConnectionKeys, HelloMessage, NewestWrite, SessionAdmission, SessionKeys,
    SessionPeer,
};
use xxhash_rust::xxh3::xxh3_128;

use crate::peers::lender_session::{LenderSession, LenderSessionSettings};

/// The number by which connections that carry pages name a node.
pub fn node_number(name: &NodeName) -> u128 {
    xxh3_128(name.as_str().as_bytes())
}

/// This run of this node, as its hellos name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnRun {
    pub(super) node: u128,
    pub(super) incarnation: Incarnation,
}

/// What both ends of a control connection agreed on.
#[derive(Debug)]
pub(super) struct SessionFacts {
    pub(super) peer: PeerId,
    pub(super) name: NodeName,
    pub(super) incarnation: Incarnation,
    pub(super) ours: SessionId,
    pub(super) theirs: SessionId,
    pub(super) address: SocketAddr,
    pub(super) opened_at: Duration,
}

/// One session with a peer. It lasts as long as its control connection.
#[derive(Debug)]
pub struct PeerSession {
    facts: SessionFacts,
    admission: Mutex<SessionAdmission>,
    as_lender: Arc<LenderSession>,
}

impl PeerSession {
    pub(super) fn new(facts: SessionFacts, own: OwnRun, keys: SessionKeys) -> PeerSession {
        let peer = SessionPeer {
            node: node_number(&facts.name),
            incarnation: facts.incarnation.0,
            session: facts.ours.0,
        };
        let as_lender = LenderSession::new(LenderSessionSettings {
            lender: facts.peer,
            address: facts.address,
            incarnation: facts.incarnation.0,
            borrower: SessionPeer {
                node: own.node,
                incarnation: own.incarnation.0,
                session: facts.theirs.0,
            },
            keys: keys.clone(),
        });
        PeerSession {
            admission: Mutex::new(SessionAdmission::new(keys, peer)),
            facts,
            as_lender: Arc::new(as_lender),
        }
    }

    /// The peer.
    pub fn peer(&self) -> PeerId {
        self.facts.peer
    }

    /// When the session began, after the clock's start.
    pub fn opened_at(&self) -> Duration {
        self.facts.opened_at
    }

    /// This node's number of the session. The peer's connections name it, and loans are looked up with it.
    pub fn ours(&self) -> SessionId {
        self.facts.ours
    }

    /// The session for connections by which this node asks the peer for what it has borrowed of it.
    pub fn as_lender(&self) -> &Arc<LenderSession> {
        &self.as_lender
    }

    /// Lets a connection of the peer in, and counts it as open. Each needs a [`PeerSession::release`] when it ends.
    ///
    /// # Errors
    ///
    /// The hello is not the peer's, was used before, or would open too many.
    pub fn admit(&self, hello: &HelloMessage) -> Result<ConnectionKeys, AdmissionError> {
        self.admission.lock().admit(hello)
    }

    /// Which of the peer's write connections counts.
    pub fn newest_write(&self) -> NewestWrite {
        self.admission.lock().newest_write()
    }

    /// Counts a connection that was let in as closed.
    pub fn release(&self) {
        self.admission.lock().release();
    }
}

/// The present sessions. There is one a peer at most.
#[derive(Debug, Default)]
pub struct SessionTable {
    sessions: RwLock<BTreeMap<SessionId, Arc<PeerSession>>>,
}

impl SessionTable {
    /// The session that a hello of a peer names.
    pub fn named(&self, ours: SessionId) -> Option<Arc<PeerSession>> {
        self.sessions.read().get(&ours).cloned()
    }

    /// The session with a peer.
    pub fn of_peer(&self, peer: PeerId) -> Option<Arc<PeerSession>> {
        let sessions = self.sessions.read();
        let mut all = sessions.values();
        all.find(|session| session.facts.peer == peer).cloned()
    }

    /// When the session with each peer began, after the clock's start.
    pub fn opened(&self) -> BTreeMap<PeerId, Duration> {
        let sessions = self.sessions.read();
        let all = sessions.values();
        all.map(|session| (session.peer(), session.opened_at()))
            .collect()
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.read().len()
    }

    /// Returns whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn open(&self, session: PeerSession) {
        let ours = session.facts.ours;
        self.sessions.write().insert(ours, Arc::new(session));
    }

    pub(super) fn close(&self, ours: SessionId) {
        if let Some(session) = self.sessions.write().remove(&ours) {
            session.as_lender.close();
        }
    }

    /// Closes all sessions, because nobody follows what their peers do any more.
    pub(super) fn close_all(&self) {
        for (_, session) in std::mem::take(&mut *self.sessions.write()) {
            session.as_lender.close();
        }
    }
}
