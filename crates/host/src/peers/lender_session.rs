//! A control session with a lender, as far as page connections need it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sublet_lend::ids::PeerId;
use sublet_lend::wire::{
    ConnectionClass, ConnectionHello, ConnectionKeys, HelloMessage, SessionKeys, SessionPeer,
};

/// What a round trip is taken for until one was measured.
const ROUND_TRIP_EXPECTED: Duration = Duration::from_micros(200);

/// A control session with a lender, as far as page connections need it. It lasts as long as the control connection.
#[derive(Debug)]
pub struct LenderSession {
    lender: PeerId,
    address: SocketAddr,
    incarnation: u64,
    borrower: SessionPeer,
    keys: SessionKeys,
    next_connection: AtomicU64,
    round_trip_nanos: AtomicU64,
    is_over: AtomicBool,
}

/// What a lender's session is made of.
#[derive(Debug)]
pub struct LenderSessionSettings {
    /// The lender.
    pub lender: PeerId,
    /// Where it takes page connections: the address that it was met at, and its configured port.
    pub address: SocketAddr,
    /// The lender's incarnation.
    pub incarnation: u64,
    /// This host, as the lender knows it.
    pub borrower: SessionPeer,
    /// The keys of the session.
    pub keys: SessionKeys,
}

impl LenderSession {
    /// A session that no page connection belongs to yet.
    pub fn new(settings: LenderSessionSettings) -> LenderSession {
        LenderSession {
            lender: settings.lender,
            address: settings.address,
            incarnation: settings.incarnation,
            borrower: settings.borrower,
            keys: settings.keys,
            next_connection: AtomicU64::new(1),
            round_trip_nanos: AtomicU64::new(ROUND_TRIP_EXPECTED.as_nanos() as u64),
            is_over: AtomicBool::new(false),
        }
    }

    /// The lender.
    pub fn lender(&self) -> PeerId {
        self.lender
    }

    /// Where the lender takes page connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The lender's incarnation.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// A round trip of the control connection, as it was when a lease was last opened.
    pub fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip_nanos.load(Ordering::Relaxed))
    }

    /// Records a round trip of the control connection. Guards begin with it.
    pub fn set_round_trip(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.round_trip_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Returns whether the control connection is lost. The lender's pages cannot be reached then, until they have a
    /// route in another session.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Records that the control connection is lost.
    pub fn close(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// The hello and the keys of one more page connection. No two connections get the same.
    pub fn next_hello(&self, class: ConnectionClass) -> (HelloMessage, ConnectionKeys) {
        let hello = ConnectionHello {
            class,
            node: self.borrower.node,
            incarnation: self.borrower.incarnation,
            session: self.borrower.session,
            connection: self.next_connection.fetch_add(1, Ordering::Relaxed),
        };
        (self.keys.prove(hello), self.keys.connection_keys(&hello))
    }
}
