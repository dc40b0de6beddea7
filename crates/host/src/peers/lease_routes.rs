//! Where the pages of each lease are: which lender has them, how it is reached, and the key that opens them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use sublet_lend::ids::{LeaseId, PeerId};
use sublet_lend::seal::LeaseKey;
use sublet_lend::wire::{
    ConnectionClass, ConnectionHello, ConnectionKeys, HelloMessage, SessionKeys, SessionPeer,
};
use sublet_store::{LEASES_MAX, LeaseSlot};

/// A control session with a lender, as far as page connections need it.
#[derive(Debug)]
pub struct LenderSession {
    lender: PeerId,
    address: SocketAddr,
    incarnation: u64,
    /// The first round trip of the control connection.
    round_trip: Duration,
    borrower: SessionPeer,
    keys: SessionKeys,
    next_connection: AtomicU64,
}

/// What a lender's session is made of.
#[derive(Debug)]
pub struct LenderSessionSettings {
    /// The lender.
    pub lender: PeerId,
    /// Where it takes page connections.
    pub address: SocketAddr,
    /// The lender's incarnation.
    pub incarnation: u64,
    /// The first round trip of the control connection.
    pub round_trip: Duration,
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
            round_trip: settings.round_trip,
            borrower: settings.borrower,
            keys: settings.keys,
            next_connection: AtomicU64::new(1),
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

    /// The first round trip of the control connection.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
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

/// The way to the pages of one lease.
#[derive(Clone, Debug)]
pub struct LeaseRoute {
    /// The session in which the lender is asked.
    pub session: Arc<LenderSession>,
    /// The lease's number at its lender.
    pub lease: LeaseId,
    /// The key that the lease's pages are sealed with. It stays when the session is replaced.
    pub key: Arc<LeaseKey>,
}

/// The routes of all leases, [`LEASES_MAX`] at most. The control connections set them, and whoever moves pages reads
/// them.
#[derive(Debug)]
pub struct LeaseRoutes {
    routes: RwLock<Box<[Option<LeaseRoute>]>>,
    /// Rises with each change.
    version: AtomicU64,
}

impl Default for LeaseRoutes {
    fn default() -> LeaseRoutes {
        LeaseRoutes {
            routes: RwLock::new(vec![None; LEASES_MAX].into()),
            version: AtomicU64::new(0),
        }
    }
}

impl LeaseRoutes {
    /// Sets the route of a lease: a new one, or one whose lender came back in another session. Numbers beyond the table
    /// are ignored, as the store takes no such lease.
    pub fn set(&self, lease: LeaseSlot, route: LeaseRoute) {
        self.change(lease, Some(route));
    }

    /// Removes the route of a lease that the store has ended. The courier then empties the lease's part of the outbox.
    pub fn remove(&self, lease: LeaseSlot) {
        self.change(lease, None);
    }

    /// The route of a lease.
    pub fn find(&self, lease: LeaseSlot) -> Option<LeaseRoute> {
        self.routes.read().get(usize::from(lease.0))?.clone()
    }

    /// The routes of all leases.
    pub fn all(&self) -> Vec<(LeaseSlot, LeaseRoute)> {
        let routes = self.routes.read();
        let numbered = (0..).map(LeaseSlot).zip(routes.iter());
        numbered
            .filter_map(|(lease, route)| Some((lease, route.clone()?)))
            .collect()
    }

    /// A number that rises with each change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn change(&self, lease: LeaseSlot, route: Option<LeaseRoute>) {
        let mut routes = self.routes.write();
        if let Some(of_lease) = routes.get_mut(usize::from(lease.0)) {
            *of_lease = route;
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}
