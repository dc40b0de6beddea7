//! The daemon's life: it binds its listeners, serves until it is told to end, and leaves nothing behind.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use sublet_frontends::backend::Backend;
use sublet_frontends::memcached::instance::Instance;
use sublet_frontends::memcached::serve::{self, Group, Listener, StopMode};
use sublet_frontends::ring::serve as ring;
use sublet_frontends::tenancy::{Clock, Ledger};
use sublet_policy::headroom;
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::{Bytes, TenantId};

use crate::admin::{Admin, AdminListenError, AdminListeners};
use crate::chores::{Chores, ChoresError};
use crate::config::{Config, LoadedConfig};
use crate::daemon::{Daemon, DaemonParts, lending_chore, record_peer_files};
use crate::disk::{DiskStartError, Disks};
use crate::headroom::{Headroom, HeadroomStartError, HostReadError, ProcHost, ReadHost};
use crate::host_lock::{HostLock, HostLockError};
use crate::live_changes_file::LiveChangesFile;
use crate::manager::{MemoryManager, WrongPolicy};
use crate::observe::events::{EventId, EventReason, EventWriter, Events, PostedEvent};
use crate::observe::log::{self, LogError};
use crate::peers::cluster::ClusterObserver;
use crate::peers::cluster_events;
use crate::peers::far_memory::FarMemory;
use crate::peers::lending::{Lending, LendingError, LendingParts, PeerListeners};
use crate::peers::peer_events::PeerEventPoster;
use crate::resource_bounds::ResourceBounds;
use crate::shutdown_watchdog::{self, ShutdownWatchdog};
use crate::signals::SignalWaiter;
use crate::startup_banner::{self, GrantedResources};
use crate::state_folder::{self, StateError};
use crate::tenants::TenantRegistry;
use crate::tenants::refusals::TenantRefusals;
use crate::tenants::rings::{self, RingsError};
use crate::tenants::service::{self, Service, ServiceError};
use crate::{heap, memory_lock};

/// Why the daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The log filter makes no sense.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Another daemon sizes itself by the host's memory.
    #[error(transparent)]
    HostLock(#[from] HostLockError),
    /// The daemon cannot claim the state folder.
    #[error(transparent)]
    State(#[from] StateError),
    /// The admin interface cannot listen.
    #[error(transparent)]
    AdminListen(#[from] AdminListenError),
    /// A tenant cannot be served.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The host's memory cannot be read.
    #[error(transparent)]
    Host(#[from] HostReadError),
    /// The store cannot be made.
    #[error("cannot reserve address space for the arena: {0}")]
    Store(io::Error),
    /// The arena cannot follow the host.
    #[error(transparent)]
    Headroom(#[from] HeadroomStartError),
    /// The chores cannot begin.
    #[error(transparent)]
    Chores(#[from] ChoresError),
    /// The policy makes no sense.
    #[error(transparent)]
    Policy(#[from] WrongPolicy),
    /// The Memory Manager cannot begin.
    #[error("cannot start the Memory Manager: {0}")]
    Manager(io::Error),
    /// Rings cannot be served.
    #[error(transparent)]
    Rings(#[from] RingsError),
    /// A disk of the config cannot be served.
    #[error(transparent)]
    Disk(#[from] DiskStartError),
    /// The host cannot lend and borrow.
    #[error(transparent)]
    Lending(#[from] LendingError),
    /// Serving cannot begin.
    #[error(transparent)]
    Serve(#[from] serve::StartError),
    /// The system refused a thread or a signal handler.
    #[error("the system refused a thread or a signal handler: {0}")]
    System(#[from] io::Error),
}

/// Serves until SIGTERM, SIGINT, SIGPWR or SIGXCPU. On SIGHUP the daemon reads passwords, certificates
/// and the list `peers.deny` again, and nothing else.
pub fn run(loaded: LoadedConfig) -> Result<(), ServeError> {
    heap::configure_allocator();
    let _log = log::start(&loaded.config.daemon.log, loaded.config.daemon.log_format)?;
    let events = Events::default();
    let writer = EventWriter::start(&events)?;
    let mut signals = SignalWaiter::install()?;
    let alone = claim_host(&loaded.config)?;
    let loaded = state_folder::claim(loaded)?;
    let admin_listeners = AdminListeners::open(&loaded.config, &events)?;
    let watchdog = ShutdownWatchdog::start(shutdown_watchdog::exit)?;
    let (places, rings) = bind_tenants(&loaded.config)?;
    let peers = PeerListeners::bind(&loaded.config.peers)?;
    let backend = backend(&loaded.config)?;
    let far = FarMemory::new(loaded.config.borrow.guard);
    let live = LiveChangesFile::of(loaded.live.clone());
    let mut tenants = TenantRegistry::open(&loaded, &live, &places, &backend, &events)?;
    let ring_listeners = tenants.open_rings(rings)?;
    let headroom = start_headroom(&loaded.config, &backend, &events)?;
    let disks = Disks::open(&loaded, &backend, borrowed(&loaded.config, &far), &events)?;
    let lending = start_lending(&loaded.config, &backend, (peers, far.clone()), &events)?;
    let config = loaded.config.clone();
    warn_of_lost_changes(&loaded);
    warn_of_floors(&loaded.config);
    let groups = tenants.services().iter().map(Service::group);
    let groups: Vec<(Group, Vec<Listener>)> = groups.zip(places).collect();
    let manager = start_policy(&config, &backend, (&headroom, &far), &events)?;
    let refused = refusal_reporter(&tenants, &disks, &events);
    let each_second = both(refused, lending_chore(lending.clone(), &events));
    let chores = Chores::start_with(&backend, instances(tenants.services()), each_second)?;
    let serving = serve::start(groups, config.daemon.threads, &backend, shutdown_trigger())?;
    let broken = Arc::new(|| shutdown_trigger()(StopMode::Now));
    let (threads, far) = (config.daemon.threads, borrowed(&config, &far));
    let ringing = rings::start(ring_listeners, threads, &backend, far, broken)?;
    let granted = granted_resources(&admin_listeners, &config);
    let daemon = Arc::new(Daemon::new(DaemonParts {
        backend,
        tenants,
        headroom,
        manager,
        disks,
        lending,
        loaded,
        events: events.clone(),
    }));
    let admin = Admin::start(admin_listeners, Arc::clone(&daemon))?;
    startup_banner::print(&daemon.status(), &config, &granted);
    let release = concat!("release ", env!("CARGO_PKG_VERSION"));
    events.post(PostedEvent::new(EventId::DaemonStarted, EventReason::Start).saying(release));

    signals.wait(&daemon);
    let all = RunningDaemon {
        daemon,
        admin,
        ringing,
        serving,
        chores,
        alone,
        writer,
    };
    all.end(&watchdog);
    Ok(())
}

/// The listeners of each tenant, and those of its rings.
type TenantListeners = (Vec<Vec<Listener>>, Vec<Vec<ring::Listener>>);

fn bind_tenants(config: &Config) -> Result<TenantListeners, ServeError> {
    let places = config.tenants.iter().map(service::listeners);
    let places = places.collect::<Result<_, _>>()?;
    let rings = config.tenants.iter().map(rings::listeners);
    Ok((places, rings.collect::<Result<_, _>>()?))
}

fn granted_resources(listeners: &AdminListeners, config: &Config) -> GrantedResources {
    GrantedResources {
        tcp: listeners.tcp_address(),
        metrics: listeners.metrics_address(),
        descriptors: ResourceBounds::of(config).claim_descriptors(),
    }
}

fn cluster_observer(events: &Events) -> ClusterObserver {
    let events = events.clone();
    Arc::new(move |notice| events.post(cluster_events::event_of(&notice)))
}

/// Starts to lend and to borrow, if the host has peers.
fn start_lending(
    config: &Config,
    backend: &Backend,
    (listeners, far): (PeerListeners, FarMemory),
    events: &Events,
) -> Result<Option<Arc<Lending>>, LendingError> {
    let parts = LendingParts {
        listeners,
        far,
        observer: Box::new(PeerEventPoster(events.clone())),
        cluster_observer: cluster_observer(events),
    };
    let lending = Lending::start(config, backend, parts)?.map(Arc::new);
    if let Some(lending) = &lending {
        record_peer_files(lending, events);
    }
    Ok(lending)
}

/// One chore after the other.
fn both(
    mut first: impl FnMut() + Send + 'static,
    mut second: impl FnMut() + Send + 'static,
) -> impl FnMut() + Send + 'static {
    move || {
        first();
        second();
    }
}

/// A function that reports which clients were refused since its last call.
fn refusal_reporter(
    tenants: &TenantRegistry,
    disks: &Disks,
    events: &Events,
) -> impl FnMut() + Send + use<> {
    let mut of_tenants = TenantRefusals::of(tenants.services(), events);
    let of_disks = disks.refusals(events);
    move || {
        of_tenants.report();
        of_disks();
    }
}

/// What runs while the daemon serves.
struct RunningDaemon {
    daemon: Arc<Daemon>,
    admin: Admin,
    ringing: Option<ring::RingService>,
    serving: serve::MemcachedService,
    chores: Chores,
    alone: Option<HostLock>,
    writer: EventWriter,
}

impl RunningDaemon {
    /// Ends it. A part that needs others ends before them.
    fn end(self, watchdog: &ShutdownWatchdog) {
        let RunningDaemon {
            daemon,
            admin,
            ringing,
            serving,
            chores,
            alone,
            writer,
        } = self;
        // Callers get answers until the last page is on its backing.
        daemon.begin_ending();
        // This lasts as long as the backings go on taking it.
        daemon.drain_disks();
        watchdog.run_step("a change that was refused", STEP_MAX, || {
            daemon.reconcile_changes()
        });
        watchdog.run_step("files that are read anew", STEP_MAX, || daemon.end_reload());
        watchdog.run_step("disks and their clients", DISKS_END_MAX, || {
            daemon.end_disks()
        });
        watchdog.run_step("goodbyes to peers", STEP_MAX, || daemon.part_from_peers());
        watchdog.run_step("callers of the admin interface", STEP_MAX, || drop(admin));
        watchdog.run_step("clients of page rings", STEP_MAX, || {
            ringing.into_iter().for_each(ring::RingService::stop)
        });
        watchdog.run_step("memcached's clients", STEP_MAX, || {
            serving.stop(StopMode::Graceful)
        });
        watchdog.run_step("threads of the daemon", STEP_MAX, || {
            drop(chores);
            drop(daemon);
            drop(alone);
            drop(writer);
        });
    }
}

/// How long disks, their clients and the keeper of swap pages may take to end, all bounds of their own together.
const DISKS_END_MAX: Duration = Duration::from_secs(120);

/// How long any other step of the end may take.
const STEP_MAX: Duration = Duration::from_secs(30);

/// Claims the host. A daemon with a ceiling may have others beside it.
fn claim_host(config: &Config) -> Result<Option<HostLock>, HostLockError> {
    let folder = config.admin.socket.parent().unwrap_or(".".as_ref());
    match config.arena.ceiling {
        Some(_) => Ok(None),
        None => HostLock::claim(folder).map(Some),
    }
}

fn backend(config: &Config) -> Result<Backend, ServeError> {
    let capacity = capacity(config)?;
    let item_max = config.tenants.iter().map(|tenant| tenant.item_max).max();
    let store = Store::new(StoreSettings {
        capacity,
        // The first reading of the host says how large the arena may be.
        limit: config.arena.floor.min(capacity),
        item_max: item_max.unwrap_or(Bytes::mib(1)),
        seed: RandomState::new().hash_one(std::process::id()),
        evicts: true,
        pages: page_settings(config),
    });
    let store = store.map_err(ServeError::Store)?;
    memory_lock::lock_store(&store);
    Ok(Backend {
        store,
        clock: Clock::start(),
        ledger: Arc::new(Ledger::default()),
    })
}

/// Room for pages at lenders, if the host borrows.
fn page_settings(config: &Config) -> PageSettings {
    match borrows(config) {
        true => PageSettings {
            far_blocks: config.borrow.blocks_max(),
            outbox_pages: config.borrow.outbox_pages(),
            ..PageSettings::default()
        },
        false => PageSettings::default(),
    }
}

/// Returns whether the host may borrow.
fn borrows(config: &Config) -> bool {
    config.peers.tls.is_some() && config.borrow.max > Bytes::ZERO
}

/// What the host has of lenders, for those who use it.
fn borrowed(config: &Config, far: &FarMemory) -> Option<FarMemory> {
    borrows(config).then(|| far.clone())
}

/// The most that the arena can ever hold: the ceiling, or all memory of the host.
fn capacity(config: &Config) -> Result<Bytes, HostReadError> {
    let host = ProcHost::open()?.read(Duration::ZERO)?;
    let all = host
        .cgroup
        .map_or(host.memory, |cgroup| cgroup.limit.min(host.memory));
    Ok(config.arena.ceiling.map_or(all, |ceiling| ceiling.min(all)))
}

fn start_headroom(
    config: &Config,
    backend: &Backend,
    events: &Events,
) -> Result<Headroom, ServeError> {
    let settings = headroom::HeadroomSettings {
        reserve: config.arena.reserve,
        floor: config.arena.floor,
        ceiling: config.arena.ceiling,
        fast_from: config.arena.release_threshold,
        ..headroom::HeadroomSettings::default()
    };
    Ok(Headroom::start(
        ProcHost::open()?,
        &backend.store,
        backend.clock,
        settings,
        events,
    )?)
}

fn start_policy(
    config: &Config,
    backend: &Backend,
    (headroom, far): (&Headroom, &FarMemory),
    events: &Events,
) -> Result<MemoryManager, ServeError> {
    let choice = config.policy.choice()?;
    let (by_hand, wish) = (headroom.manual_releases(), Arc::clone(far.wish()));
    let started = MemoryManager::start(backend, &config.policy, choice, events, by_hand, wish);
    started.map_err(ServeError::Manager)
}

fn instances(services: &[Service]) -> Vec<(Arc<Instance>, TenantId)> {
    services
        .iter()
        .map(|service| (Arc::clone(&service.instance), service.id))
        .collect()
}

/// If serving breaks down, the daemon ends as with a signal.
fn shutdown_trigger() -> Arc<serve::OnShutdown> {
    Arc::new(|_| {
        let _ = signal_hook::low_level::raise(SIGTERM);
    })
}

/// Warns if floors that were set live do not fit beside each other.
fn warn_of_floors(config: &Config) {
    let floors = config
        .tenants
        .iter()
        .filter_map(|tenant| tenant.settings.floor);
    let together: Bytes = floors.sum();
    if let Some(arena) = config.arena.ceiling.filter(|arena| *arena < together) {
        tracing::warn!(%together, %arena, "the tenants' floors do not fit together, and each tenant has a part of its floor: `sublet tenants set NAME --floor` lowers one");
    }
}

fn warn_of_lost_changes(loaded: &LoadedConfig) {
    for key in &loaded.orphans {
        tracing::warn!(
            key,
            "live.toml changes something that does not exist; the change holds once it exists"
        );
    }
    for said in &loaded.passed_over {
        tracing::warn!(
            said,
            "live.toml sets something that daemons no longer have; the daemon ignores it and goes by the config"
        );
    }
}
