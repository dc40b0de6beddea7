//! Nodes of a test: each has a store of small blocks, and all have one clock that the test moves.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sublet_frontends::backend::ManualClock;
use sublet_frontends::listeners::{Endpoint, Listener, Transport, bind_one};
use sublet_frontends::tenancy::Clock;
use sublet_lend::control::Addresses;
use sublet_lend::guard::GuardPolicy;
use sublet_lend::ids::SessionId;
use sublet_lend::lender::{LendLimits, LendMax, MaxEach};
use sublet_lend::node::{LendTo, LendingChange, LinkState, PeerStatus, Presence, Topology};
use sublet_lend::seal::Cipher;
use sublet_store::{Borrowing, PageKey, PageSettings, Store, StoreSettings, Worker};
use sublet_tls::peer::PeerTlsSettings;
use sublet_types::{
    Bytes, ObjectId, PageIndex, PoolFlags, PoolId, TenantId, TenantSettings, Weight,
};

use super::super::{
    ControlMember, ControlPlane, ControlPlaneParts, ControlPlaneSettings, PeerNotice, PeerTables,
    ServePageConnections,
};
use crate::peers::far_memory::FarMemory;
use crate::wait_until::wait_until;

const PAGE: usize = 4096;
const BLOCK: u64 = 64 << 10;
const ARENA: Bytes = Bytes::mib(16);

/// One node with what its test looks at.
pub(super) struct TestNode {
    pub(super) name: &'static str,
    pub(super) store: Arc<Store>,
    pub(super) plane: ControlPlane,
    pub(super) notices: Arc<Mutex<Vec<PeerNotice>>>,
    /// Connections that carry pages, as they were handed on.
    pub(super) page_connections: Arc<Mutex<Vec<TcpStream>>>,
    tenant: (TenantId, PoolId),
    pub(super) clock: Clock,
    put: u32,
}

/// A socket of a node that is yet to be made.
pub(super) struct BoundNode {
    pub(super) name: &'static str,
    listener: Listener,
}

impl BoundNode {
    pub(super) fn new(name: &'static str) -> BoundNode {
        let endpoint = Endpoint::Tcp {
            host: Some("127.0.0.1".to_owned()),
            port: 0,
            transport: Transport::Plain,
        };
        let listener = bind_one(&endpoint, 64).expect("a port");
        BoundNode { name, listener }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.listener.tcp_address().expect("TCP")
    }

    /// Another member's row for this node.
    pub(super) fn member(&self) -> ControlMember {
        member(self.name, self.address().port())
    }

    pub(super) fn start(
        self,
        time: ManualClock,
        tls: PeerTlsSettings,
        members: Vec<ControlMember>,
    ) -> TestNode {
        self.start_in(time, tls, members, Topology::FullMesh)
    }

    /// Starts it among members that are connected in this way.
    pub(super) fn start_in(
        self,
        time: ManualClock,
        tls: PeerTlsSettings,
        members: Vec<ControlMember>,
        topology: Topology,
    ) -> TestNode {
        let store = store();
        let clock = Clock::by(time.clock());
        let (notices, page_connections) = <(Arc<Mutex<Vec<_>>>, Arc<Mutex<Vec<_>>>)>::default();
        let (noticed, taken) = (Arc::clone(&notices), Arc::clone(&page_connections));
        let parts = ControlPlaneParts {
            store: Arc::clone(&store),
            clock,
            listeners: vec![self.listener],
            observer: Box::new(move |notice| noticed.lock().push(notice)),
            pages: Box::new(TakenConnections(taken)),
            borrowing: Box::new(|_| Borrowing::Allowed),
        };
        let settings = ControlPlaneSettings {
            topology,
            ..settings(tls, members)
        };
        let now = Duration::from_nanos(clock.moment().0);
        let tables = PeerTables::new(&settings, FarMemory::new(GuardPolicy::Relative), now)
            .expect("members that make sense");
        let plane = ControlPlane::start(&settings, tables, parts).expect("started");
        TestNode {
            name: self.name,
            tenant: tenant(&store),
            store,
            plane,
            notices,
            page_connections,
            clock,
            put: 0,
        }
    }
}

struct TakenConnections(Arc<Mutex<Vec<TcpStream>>>);

impl ServePageConnections for TakenConnections {
    fn take(&mut self, stream: TcpStream, _: SocketAddr) {
        self.0.lock().push(stream);
    }

    fn end_session(&mut self, _: SessionId) {}
}

pub(super) fn member(name: &str, port: u16) -> ControlMember {
    ControlMember {
        name: name.parse().expect("a name"),
        host: "127.0.0.1".to_owned(),
        port,
        lend: LendTo::Allowed,
    }
}

fn settings(tls: PeerTlsSettings, members: Vec<ControlMember>) -> ControlPlaneSettings {
    ControlPlaneSettings {
        tls,
        members,
        addresses: Addresses::try_from(Vec::new()).expect("none"),
        limits: LendLimits {
            max: LendMax::Auto,
            max_each: MaxEach::Percent(50),
        },
        borrow_max: 64,
        drain: None,
        presence: Presence::Here,
        topology: Topology::FullMesh,
        cipher: Cipher::ChaCha20Poly1305,
    }
}

fn store() -> Arc<Store> {
    let settings = StoreSettings {
        capacity: ARENA,
        limit: ARENA,
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings {
            shards: 2,
            far_blocks: 256,
            outbox_pages: 64,
            ..PageSettings::default()
        },
    };
    Store::in_blocks(Bytes(BLOCK), settings).expect("memory for a test")
}

fn tenant(store: &Store) -> (TenantId, PoolId) {
    let settings = TenantSettings {
        name: "ann".parse().expect("a name"),
        weight: Weight(100),
        floor: None,
        ceiling: None,
    };
    let tenant = store.add_tenant(settings).expect("added");
    let flags = PoolFlags {
        keeping: true,
        ..PoolFlags::default()
    };
    let pool = store.create_pool(tenant, flags, None).expect("a pool");
    (tenant, pool)
}

impl TestNode {
    pub(super) fn worker(&self) -> Worker {
        self.store.worker().expect("a worker")
    }

    /// Puts pages that were never put before.
    fn put_pages(&mut self, pages: u32) {
        let (tenant, pool) = self.tenant;
        let worker = self.worker();
        for _ in 0..pages {
            let key = PageKey {
                pool,
                object: ObjectId(u64::from(self.put) / 512),
                index: PageIndex(self.put % 512),
            };
            self.put += 1;
            let put = worker.put_page(tenant, key, self.clock.now(), |page| {
                page.write(&[7; PAGE]);
            });
            assert!(put.is_stored(), "{put:?}");
        }
    }

    /// How the node stands with a peer.
    pub(super) fn peer(&self, name: &str) -> PeerStatus {
        let status = self.plane.tables().status();
        let mut peers = status.peers.into_iter();
        let peer = peers.find(|peer| peer.name.as_str() == name);
        peer.expect("a member")
    }

    pub(super) fn is_up_with(&self, name: &str) -> bool {
        matches!(self.peer(name).link, LinkState::Up { .. })
    }

    pub(super) fn borrowed(&self) -> u32 {
        self.plane.tables().status().borrowed
    }

    /// The blocks of all leases, as the store has them.
    pub(super) fn far_blocks(&self) -> u32 {
        let routes = self.plane.tables().far.routes().all();
        let blocks = routes
            .iter()
            .map(|(slot, _)| self.store.lease_figures(*slot).blocks);
        blocks.sum()
    }

    /// Returns whether a change was noticed.
    pub(super) fn noticed(&self, is_it: impl Fn(&LendingChange) -> bool) -> bool {
        let notices = self.notices.lock();
        notices.iter().any(|notice| match notice {
            PeerNotice::Changed { change, .. } => is_it(change),
            _ => false,
        })
    }
}

/// A clock that all nodes of a test share.
pub(super) struct TestTime(pub(super) ManualClock);

impl TestTime {
    pub(super) fn start() -> TestTime {
        TestTime(ManualClock::start())
    }

    /// Waits until a condition holds. The clock moves about as fast as time passes.
    pub(super) fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        wait_until(what, || {
            self.0.advance(Duration::from_millis(1));
            is_so()
        });
    }

    /// Makes a node so short that it wants some blocks, and waits until it has borrowed.
    pub(super) fn make_short(&self, node: &mut TestNode) {
        // The first measurement counts what was evicted before as no want.
        self.wait("measured", || node.has_measured());
        node.put_pages(7000);
        self.0.advance(Duration::from_secs(1));
        self.wait("borrowed", || node.far_blocks() >= 4);
    }
}

impl TestNode {
    /// Returns whether the node has measured what it wants at least once.
    fn has_measured(&self) -> bool {
        self.plane.tables().status().lendable > 0
    }
}

/// Two connected nodes, `a` and `b`.
pub(super) fn pair(time: &TestTime, tls: [PeerTlsSettings; 2]) -> [TestNode; 2] {
    let (a, b) = (BoundNode::new("a"), BoundNode::new("b"));
    let (to_a, to_b) = (a.member(), b.member());
    let [tls_a, tls_b] = tls;
    let nodes = [
        a.start(time.0, tls_a, vec![to_b]),
        b.start(time.0, tls_b, vec![to_a]),
    ];
    connected(time, &nodes);
    nodes
}

/// Waits until all nodes are connected with each other.
pub(super) fn connected(time: &TestTime, nodes: &[TestNode]) {
    time.wait("all connected", || {
        nodes.iter().all(|node| {
            let others = nodes.iter().filter(|other| other.name != node.name);
            let mut others = others.map(|other| node.is_up_with(other.name));
            others.all(|is_up| is_up)
        })
    });
}
