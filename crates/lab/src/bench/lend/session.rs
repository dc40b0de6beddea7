//! The control session of the bench. Its secret is known, because both ends of the bench have it without a control
//! connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sublet_host::peers::lender_session::{LenderSession, LenderSessionSettings};
use sublet_host::peers::page_faults::{FaultParty, PageFault};
use sublet_host::peers::page_server::{
    AdmitConnections, AdmittedConnection, ConnectionRefused, FindLentBlocks,
};
use sublet_lend::ids::{Incarnation, LeaseId, PeerId, SessionId};
use sublet_lend::lender::{LoanLookup, LoanTable};
use sublet_lend::wire::{HelloMessage, SessionAdmission, SessionKeys, SessionNonces, SessionPeer};
use sublet_types::LentBlock;

/// The lender's incarnation.
pub(super) const LENDER_INCARNATION: u64 = 1;

const SESSION: SessionId = SessionId(1);
const BORROWER: PeerId = PeerId(0);
const LENDER: PeerId = PeerId(0);

/// The first round trip of the session. It bounds the first read, which also connects.
const ROUND_TRIP: Duration = Duration::from_millis(100);

fn keys() -> SessionKeys {
    let nonces = SessionNonces {
        connector: [1; 32],
        acceptor: [2; 32],
    };
    SessionKeys::new(&[3; 32], nonces)
}

fn borrower() -> SessionPeer {
    SessionPeer {
        node: 1,
        incarnation: 1,
        session: SESSION.0,
    }
}

/// The session, as the borrower has it.
pub(super) fn lender_session(lender: SocketAddr) -> Arc<LenderSession> {
    let session = LenderSession::new(LenderSessionSettings {
        lender: LENDER,
        address: lender,
        incarnation: LENDER_INCARNATION,
        borrower: borrower(),
        keys: keys(),
    });
    session.set_round_trip(ROUND_TRIP);
    Arc::new(session)
}

/// The session and its loans, as the lender has them.
pub(super) struct BenchSession {
    admission: Mutex<SessionAdmission>,
    loans: Mutex<LoanTable>,
}

impl BenchSession {
    /// A session without loans.
    pub(super) fn new() -> Arc<BenchSession> {
        let mut loans = LoanTable::new(1);
        loans.begin_session(BORROWER, Incarnation(borrower().incarnation), SESSION);
        Arc::new(BenchSession {
            admission: Mutex::new(SessionAdmission::new(keys(), borrower())),
            loans: Mutex::new(loans),
        })
    }

    /// Grants blocks, and returns their lease and their first index. The bench lends far fewer than a lease has room
    /// for.
    /// A new borrower connects for them: it counts its connections anew, which would be replays for the last one.
    pub(super) fn grant(&self, blocks: &[LentBlock]) -> (LeaseId, u32) {
        *self.admission.lock() = SessionAdmission::new(keys(), borrower());
        let grant = self.loans.lock().grant(BORROWER, blocks);
        (grant.lease, grant.first)
    }

    /// Records that blocks were taken back.
    pub(super) fn mark_taken(&self, blocks: &[LentBlock]) {
        self.loans.lock().mark_taken(blocks);
    }
}

impl AdmitConnections for BenchSession {
    fn admit(&self, hello: &HelloMessage) -> Result<AdmittedConnection, ConnectionRefused> {
        let mut admission = self.admission.lock();
        Ok(AdmittedConnection {
            peer: BORROWER,
            session: SESSION,
            keys: admission.admit(hello)?,
            newest_write: admission.newest_write(),
        })
    }

    fn release(&self, _: SessionId) {
        self.admission.lock().release();
    }

    // Both ends are the bench's own. A fault shows as pages that do not come.
    fn report(&self, _: FaultParty, _: PageFault) {}
}

impl FindLentBlocks for BenchSession {
    fn find(&self, peer: PeerId, session: SessionId, lease: LeaseId, index: u32) -> LoanLookup {
        self.loans.lock().find(peer, session, lease, index)
    }
}
