//! The daemon's lending: the threads that do it, started, told, asked and ended together.
//!
//! ```text
//!                    ┌── control plane ──► leases, sessions, loans
//!  `Lending` ────────┼── page server   ──► lent blocks
//!                    └── courier       ◄── outbox of the store
//! ```

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_etcd::member::Candidacy;
use sublet_frontends::backend::Backend;
use sublet_frontends::listeners::{Endpoint, ListenError, Listener, Transport, bind_one};
use sublet_lend::control::Addresses;
use sublet_lend::ids::{PeerId, SessionId};
use sublet_lend::node::{LendingInput, LendingPhase, LendingStatus, Presence, ToldView};
use sublet_lend::seal::{AegisTrial, BrokenCipher, CipherSelection, choose_cipher};
use sublet_tls::peer::{Fingerprint, PeerCredentialError, PeerTlsSettings};

use super::certificate_expiry::{CertificateEnd, CertificateKind};
use super::cluster::{Cluster, ClusterObserver, ClusterParts};
use super::control::{
    ControlMember, ControlPlane, ControlPlaneError, ControlPlaneParts, ControlPlaneSettings,
    PeerNotice, PeerObserver, PeerTables, ServePageConnections,
};
use super::courier::{Courier, CourierError, CourierFigures};
use super::far_memory::FarMemory;
use super::membership::{EtcdFiles, MembershipError};
use super::page_server::{
    CpuShare, PageServer, PageServerError, PageServerFigures, PageServerSettings, ServedPages,
    ServingRate,
};
use super::topology::topology;
use crate::config::{BorrowConfig, Config, DrainChange, LendConfig, PeersConfig};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// How long the end waits for the goodbyes to leave.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// How long whoever tells the node something waits until the figures show it.
const TOLD_MAX: Duration = Duration::from_secs(1);

/// How long whoever asks for the leader's view waits.
const VIEW_MAX: Duration = Duration::from_secs(1);

/// How often it looks whether that is there.
const VIEW_PAUSE: Duration = Duration::from_millis(5);

/// The environment's switch that makes the self-test of AEGIS fail, so that tests see the other cipher.
const REFUSE_AEGIS: &str = "SUBLET_TEST_REFUSE_AEGIS";

/// Why the daemon cannot lend and borrow.
#[derive(Debug, thiserror::Error)]
pub enum LendingError {
    /// Peers cannot reach this host.
    #[error("cannot listen for peers: {0}")]
    Listen(#[from] ListenError),
    /// The cipher computes wrong bytes.
    #[error(transparent)]
    Cipher(#[from] BrokenCipher),
    /// The control connections cannot be served.
    #[error(transparent)]
    Control(#[from] ControlPlaneError),
    /// Lent blocks cannot be served.
    #[error(transparent)]
    PageServer(#[from] PageServerError),
    /// The host cannot register with etcd.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// Pages cannot be carried to lenders.
    #[error(transparent)]
    Courier(#[from] CourierError),
}

/// The sockets where peers reach this host. Nobody is served yet.
pub struct PeerListeners(Vec<Listener>);

impl PeerListeners {
    /// Binds the address of the config, if it has one.
    ///
    /// # Errors
    ///
    /// The address is taken, or is none of this host.
    pub fn bind(peers: &PeersConfig) -> Result<PeerListeners, LendingError> {
        let listeners = peers.listen.iter().map(|place| {
            let endpoint = Endpoint::Tcp {
                host: Some(place.host.clone()),
                port: place.port,
                transport: Transport::Plain,
            };
            bind_one(&endpoint, BACKLOG)
        });
        Ok(PeerListeners(listeners.collect::<Result<_, _>>()?))
    }

    /// Where peers reach this host.
    fn addresses(&self) -> Addresses {
        let bound = self.0.iter().filter_map(Listener::tcp_address);
        let shown: Vec<String> = bound.map(|address| address.to_string()).collect();
        Addresses::try_from(shown).unwrap_or_default()
    }
}

/// What the daemon's lending is made of, beside its config.
pub struct LendingParts {
    /// Where peers reach this host.
    pub listeners: PeerListeners,
    /// What this host has of lenders.
    pub far: FarMemory,
    /// Who logs what happens between hosts.
    pub observer: Box<dyn PeerObserver>,
    /// Who logs what happens in the cluster.
    pub cluster_observer: ClusterObserver,
}

/// The daemon's lending. Dropping it ends its threads, and peers keep what they have of it for ten seconds.
pub struct Lending {
    control: ControlPlane,
    server: Arc<PageServer>,
    courier: Courier,
    far: FarMemory,
    cipher: CipherSelection,
    cluster: Cluster,
    tls: Mutex<PeerTlsSettings>,
    /// Whether the host was told to join, and was not seen in its cluster since then. Who joins or leaves holds it.
    joins: Mutex<bool>,
    /// Hears once that the node has parted from all peers.
    has_parted: Mutex<Receiver<()>>,
}

impl Lending {
    /// Starts to lend and to borrow as the config says. `None` if the host has no peers.
    ///
    /// # Errors
    ///
    /// A certificate, a member or a cipher is wrong, or the kernel or the store refuses.
    pub fn start(
        config: &Config,
        backend: &Backend,
        parts: LendingParts,
    ) -> Result<Option<Lending>, LendingError> {
        let Some(tls) = &config.peers.tls else {
            return Ok(None);
        };
        let cipher = select_cipher(&config.borrow, backend)?;
        let settings = control_settings(config, tls, parts.listeners.addresses(), cipher)?;
        let now = Duration::from_nanos(backend.clock.moment().0);
        let tables = PeerTables::new(&settings, parts.far.clone(), now)?;
        let server = PageServer::start(
            &backend.store,
            backend.clock,
            tables.clone(),
            tables.clone(),
            server_settings(&config.lend, &tables),
        )?;
        let server = Arc::new(server);
        let courier = Courier::start(
            &backend.store,
            parts.far.routes(),
            parts.far.ledger().faults(),
        )?;
        let (parted, has_parted) = sync_channel(1);
        let control = ControlPlane::start(
            &settings,
            tables,
            ControlPlaneParts {
                store: Arc::clone(&backend.store),
                clock: backend.clock,
                listeners: parts.listeners.0,
                observer: Box::new(ObservedParting {
                    observer: parts.observer,
                    parted,
                }),
                pages: Box::new(ServedByPageServer(Arc::clone(&server))),
                borrowing: Box::new(|tenant| tenant.borrowing),
            },
        )?;
        let cluster = cluster(config, tls, &control, parts.cluster_observer);
        if config.peers.join {
            cluster.register()?;
        }
        Ok(Some(Lending {
            control,
            server,
            courier,
            far: parts.far,
            cipher,
            cluster,
            tls: Mutex::new(tls.clone()),
            joins: Mutex::new(false),
            has_parted: Mutex::new(has_parted),
        }))
    }

    /// Tells the node something: a drain, a recall, that it lends again. Waits until the figures show it, but not for
    /// long.
    pub fn tell(&self, input: LendingInput) {
        self.control.teller().tell(input);
        self.control.wait_until_told(TOLD_MAX);
    }

    /// Reads the certificates anew, and denies those of `denied`, if that is known anew. See [`ControlPlane::reload`].
    ///
    /// # Errors
    ///
    /// A file cannot be used. What was read before holds.
    pub fn reload(&self, denied: Option<Vec<Fingerprint>>) -> Result<(), PeerCredentialError> {
        let mut tls = self.tls.lock();
        let mut next = tls.clone();
        if let Some(denied) = denied {
            next.denied = denied;
        }
        self.control.reload(&next)?;
        *tls = next;
        let fingerprint = self.control.credentials().fingerprint();
        self.cluster.certificate_changed(fingerprint);
        self.control.wait_until_told(TOLD_MAX);
        Ok(())
    }

    /// This host's identity, and the files that prove it.
    pub fn tls(&self) -> PeerTlsSettings {
        self.tls.lock().clone()
    }

    /// The files by which this host and etcd know each other, while it is a member there.
    pub fn etcd_files(&self) -> Option<EtcdFiles> {
        self.cluster.etcd_files()
    }

    /// When the certificates end that were read last.
    pub fn certificate_ends(&self) -> Vec<CertificateEnd> {
        let (tls, credentials) = (self.tls(), self.control.credentials());
        let own = CertificateEnd {
            kind: CertificateKind::Own,
            file: tls.certificate,
            ends_unix: credentials.ends_unix(),
        };
        let of_authorities = credentials.authorities_end_unix();
        let of_authorities = of_authorities.map(|ends_unix| CertificateEnd {
            kind: CertificateKind::Authority,
            file: tls.ca,
            ends_unix,
        });
        [Some(own), of_authorities].into_iter().flatten().collect()
    }

    /// How the node stands with its peers.
    pub fn status(&self) -> LendingStatus {
        self.control.tables().status()
    }

    /// The tables that the control plane writes.
    pub fn tables(&self) -> &Arc<PeerTables> {
        self.control.tables()
    }

    /// What this host has of lenders.
    pub fn far(&self) -> &FarMemory {
        &self.far
    }

    /// What seals pages, and why.
    pub fn cipher(&self) -> CipherSelection {
        self.cipher
    }

    /// What was carried to a lender.
    pub fn carried(&self, lender: PeerId) -> CourierFigures {
        self.courier.figures_of(lender)
    }

    /// What a borrower was served.
    pub fn served(&self, borrower: PeerId) -> ServedPages {
        self.server.served(borrower)
    }

    /// What borrowers were served.
    pub fn server_figures(&self) -> PageServerFigures {
        self.server.figures()
    }

    /// Returns whether the host takes part in its cluster.
    pub(super) fn is_present(&self) -> bool {
        let phase = self.tables().phase();
        !matches!(phase, LendingPhase::Leaving { .. } | LendingPhase::Left)
    }

    /// This host's place in its cluster.
    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Asks the leader how the cluster stands, and waits for its answer, but not for long. The answer may be an older one.
    pub(super) fn ask_view(&self) -> Option<ToldView> {
        let tables = self.tables();
        let before = tables.told_view().map(|view| view.at);
        self.tell(LendingInput::AskView);
        let until = Instant::now() + VIEW_MAX;
        loop {
            let told = tables.told_view();
            let is_new = told.as_ref().map(|view| view.at) != before;
            if is_new || Instant::now() >= until {
                return told;
            }
            thread::sleep(VIEW_PAUSE);
        }
    }

    /// Leaves the cluster: takes and gives back everything within this time, and parts from all. It does not wait.
    pub fn leave(&self, within: Duration) {
        *self.joins.lock() = false;
        self.cluster.resign();
        self.tell(LendingInput::Leave { within });
    }

    /// Does what a host does that has parted from all: it registers no more.
    pub fn follow_leave(&self) {
        let mut joins = self.joins.lock();
        match self.tables().phase() {
            // It has just joined, and the node has not heard of that yet.
            LendingPhase::Left if *joins => {}
            LendingPhase::Left => self.cluster.unregister(Duration::ZERO),
            _ => *joins = false,
        }
    }

    /// Lets others lead while they do not reach this host as their leader.
    pub fn follow_node(&self) {
        if self.is_present() {
            self.cluster.follow_node(match self.tables().may_lead() {
                true => Candidacy::Candidate,
                false => Candidacy::Follower,
            });
        }
    }

    /// Takes part in the cluster again, and lends or drains as its owner said.
    ///
    /// # Errors
    ///
    /// A file for etcd is wrong, or the kernel refuses.
    pub fn join(&self, lending: DrainChange) -> Result<(), MembershipError> {
        let mut joins = self.joins.lock();
        *joins = true;
        if self.is_present() {
            // It is not registered yet if a file for etcd was wrong when it joined.
            return self.cluster.register();
        }
        self.cluster.unregister(Duration::ZERO);
        self.tell(LendingInput::Join);
        // What was told of a leave before.
        while self.has_parted.lock().try_recv().is_ok() {}
        if lending.is_drain() {
            let within = Duration::ZERO;
            self.tell(LendingInput::Drain { within });
        }
        self.cluster.register()
    }

    /// Says goodbye to all peers, so that they do not wait for this host. It lends and borrows nothing from then on.
    pub fn part(&self) {
        if self.tables().phase() != LendingPhase::Left {
            let within = Duration::ZERO;
            self.control.teller().tell(LendingInput::Leave { within });
            // If the goodbyes do not leave in time, the peers' patience ends by itself.
            let _ = self.has_parted.lock().recv_timeout(GOODBYE_MAX);
        }
        self.cluster.unregister(GOODBYE_MAX);
    }
}

/// Passes notices on, and tells whoever ends the lending that the node has parted.
struct ObservedParting {
    observer: Box<dyn PeerObserver>,
    parted: SyncSender<()>,
}

impl PeerObserver for ObservedParting {
    fn observe(&mut self, notice: PeerNotice) {
        let has_left = matches!(notice, PeerNotice::Left);
        self.observer.observe(notice);
        if has_left {
            // Nobody may wait for it.
            let _ = self.parted.try_send(());
        }
    }
}

struct ServedByPageServer(Arc<PageServer>);

impl ServePageConnections for ServedByPageServer {
    fn take(&mut self, stream: TcpStream, _: SocketAddr) {
        self.0.adopt(stream);
    }

    fn end_session(&mut self, session: SessionId) {
        self.0.end_session(session);
    }
}

/// What the control plane is told.
fn control_settings(
    config: &Config,
    tls: &PeerTlsSettings,
    addresses: Addresses,
    cipher: CipherSelection,
) -> Result<ControlPlaneSettings, ControlPlaneError> {
    Ok(ControlPlaneSettings {
        tls: tls.clone(),
        members: members(&config.peers, &config.lend),
        addresses,
        limits: config.lend.limits(),
        borrow_max: config.borrow.blocks_max(),
        // Nothing is lent yet, so nobody needs notice.
        drain: config.lend.drain.then_some(Duration::ZERO),
        presence: match config.peers.join {
            true => Presence::Here,
            false => Presence::Away,
        },
        topology: topology(&config.peers, draw_seed()?),
        cipher: cipher.cipher,
    })
}

/// The host's place in its cluster, which is not taken yet.
fn cluster(
    config: &Config,
    tls: &PeerTlsSettings,
    control: &ControlPlane,
    observer: ClusterObserver,
) -> Cluster {
    Cluster::new(ClusterParts {
        peers: config.peers.clone(),
        lend: config.lend.clone(),
        identity: tls.identity.clone(),
        fingerprint: Mutex::new(control.credentials().fingerprint()),
        incarnation: control.tables().incarnation(),
        control: control.teller().clone(),
        observer,
    })
}

/// A random number of this run, from which others are drawn.
fn draw_seed() -> Result<u64, ControlPlaneError> {
    let mut bytes = [0; 8];
    let random = sublet_tls::provider().secure_random;
    random
        .fill(&mut bytes)
        .map_err(|_| ControlPlaneError::Random)?;
    Ok(u64::from_le_bytes(bytes))
}

fn members(peers: &PeersConfig, lend: &LendConfig) -> Vec<ControlMember> {
    let member = |member: &crate::config::PeerMember| ControlMember {
        name: member.name.clone(),
        host: member.host.clone(),
        port: member.port,
        lend: lend.lends_to(&member.name),
    };
    peers.members.iter().map(member).collect()
}

fn server_settings(lend: &LendConfig, tables: &PeerTables) -> PageServerSettings {
    PageServerSettings {
        threads: lend.threads,
        cpu: CpuShare::Percent(lend.cpu_percent.into()),
        rate: match lend.rate {
            Some(rate) => ServingRate::BytesPerSecond(rate.0),
            None => ServingRate::Unbounded,
        },
        incarnation: tables.incarnation().0,
    }
}

/// Tests the ciphers. A host that borrows nothing seals nothing, and takes what the test says all the same.
fn select_cipher(
    borrow: &BorrowConfig,
    backend: &Backend,
) -> Result<CipherSelection, BrokenCipher> {
    let trial = match std::env::var_os(REFUSE_AEGIS) {
        Some(_) => AegisTrial::Refuse,
        None => AegisTrial::Measure,
    };
    let clock = || Duration::from_nanos(backend.clock.moment().0);
    choose_cipher(borrow.cipher, trial, clock)
}
