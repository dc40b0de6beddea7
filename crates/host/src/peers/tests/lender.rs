//! A lender with a store, a table of loans and a page server.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::thread;

use parking_lot::Mutex;
use sublet_frontends::tenancy::Clock;
use sublet_lend::ids::{LeaseId, PeerId, SessionId};
use sublet_lend::lender::{LeaseGrant, LoanLookup, LoanTable};
use sublet_lend::wire::{HelloMessage, SessionAdmission};
use sublet_store::{Store, Worker};
use sublet_types::{Bytes, LentBlock};

use super::*;
use crate::peers::page_faults::{FaultParty, PageFault, PageFaults};
use crate::peers::page_server::{
    AdmitConnections, AdmittedConnection, ConnectionRefused, CpuShare, FindLentBlocks, PageServer,
    PageServerSettings, ServingRate,
};

fn admission_of(session: SessionId) -> (SessionId, SessionAdmission) {
    let admission = SessionAdmission::new(session_keys(), session_peer(session));
    (session, admission)
}

/// One session with one borrower.
pub(in crate::peers) struct OneSession {
    current: Mutex<(SessionId, SessionAdmission)>,
    pub(super) loans: Mutex<LoanTable>,
    pub(super) faults: PageFaults,
}

impl OneSession {
    pub(in crate::peers) fn new() -> Arc<OneSession> {
        let mut loans = LoanTable::new(1);
        loans.begin_session(PEER, BORROWER_INCARNATION, SESSION);
        Arc::new(OneSession {
            current: Mutex::new(admission_of(SESSION)),
            loans: Mutex::new(loans),
            faults: PageFaults::default(),
        })
    }

    pub(super) fn open(&self) -> usize {
        self.current.lock().1.open()
    }

    /// Begins the next session of the same borrower.
    pub(super) fn renew(&self, session: SessionId) {
        let ended = self
            .loans
            .lock()
            .begin_session(PEER, BORROWER_INCARNATION, session);
        assert_eq!(ended, []);
        *self.current.lock() = admission_of(session);
    }

    /// The block of an index.
    pub(in crate::peers) fn block(&self, grant: &LeaseGrant, index: u32) -> LentBlock {
        match self.loans.lock().find(PEER, SESSION, grant.lease, index) {
            LoanLookup::Lent(block) => block,
            other => panic!("{other:?}"),
        }
    }

    /// Lends blocks.
    pub(in crate::peers) fn lend(&self, worker: &Worker, blocks: u32) -> LeaseGrant {
        let now = Clock::start().now();
        let lend = |_| worker.lend(now).expect("a block");
        let blocks: Vec<LentBlock> = (0..blocks).map(lend).collect();
        let grant = self.loans.lock().grant(PEER, &blocks);
        assert_eq!(grant.left, []);
        grant
    }
}

impl AdmitConnections for OneSession {
    fn admit(&self, hello: &HelloMessage) -> Result<AdmittedConnection, ConnectionRefused> {
        let (session, admission) = &mut *self.current.lock();
        if hello.hello.session != session.0 {
            return Err(ConnectionRefused::NoSession(hello.hello.session));
        }
        Ok(AdmittedConnection {
            peer: PEER,
            session: *session,
            keys: admission.admit(hello)?,
            newest_write: admission.newest_write(),
        })
    }

    fn release(&self, of: SessionId) {
        let (session, admission) = &mut *self.current.lock();
        if *session == of {
            admission.release();
        }
    }

    fn report(&self, party: FaultParty, fault: PageFault) {
        self.faults.report(party, fault);
    }
}

impl FindLentBlocks for OneSession {
    fn find(&self, peer: PeerId, session: SessionId, lease: LeaseId, index: u32) -> LoanLookup {
        self.loans.lock().find(peer, session, lease, index)
    }
}

/// A lender that lends some blocks.
pub(super) struct TestLender {
    pub(super) worker: Worker,
    pub(super) sessions: Arc<OneSession>,
    pub(super) server: Arc<PageServer>,
    pub(super) address: SocketAddr,
    pub(super) grant: LeaseGrant,
}

impl TestLender {
    pub(super) fn start(blocks: u32, threads: usize, rate: ServingRate) -> TestLender {
        let store: Arc<Store> = store(Bytes::mib(32), 0);
        let worker = store.worker().expect("a worker");
        let sessions = OneSession::new();
        let grant = sessions.lend(&worker, blocks);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let settings = PageServerSettings {
            threads,
            cpu: CpuShare::Unbounded,
            rate,
            incarnation: LENDER_INCARNATION,
        };
        let server = PageServer::start(
            &store,
            Clock::start(),
            sessions.clone(),
            sessions.clone(),
            settings,
        );
        let server = Arc::new(server.expect("it starts"));
        hand_on(listener, Arc::downgrade(&server));
        TestLender {
            worker,
            sessions,
            server,
            address,
            grant,
        }
    }
}

/// Hands connections on to a server, as long as it is there. The thread ends with the next connection after that.
fn hand_on(listener: TcpListener, server: Weak<PageServer>) {
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let Some(server) = server.upgrade() else {
                return;
            };
            server.adopt(socket);
        }
    });
}
