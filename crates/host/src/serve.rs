//! The daemon's life: it takes its places, serves until it is told to end, and leaves nothing behind.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use sublet_frontends::backend::Backend;
use sublet_frontends::memcached::instance::Instance;
use sublet_frontends::memcached::serve::{self, Group, Listener, Stop};
use sublet_frontends::ring::serve as ring;
use sublet_frontends::tenancy::{Clock, Ledger};
use sublet_policy::headroom;
use sublet_store::{Store, StoreSettings};
use sublet_types::{Bytes, TenantId};

use crate::admin::{Admin, Doors, DoorsError};
use crate::alone::{Alone, NotAlone};
use crate::bounds::Bounds;
use crate::chores::{Chores, ChoresError};
use crate::config::{Config, Loaded};
use crate::daemon::Daemon;
use crate::disk::{Disks, DisksError};
use crate::finale::{self, Finale};
use crate::greeting::{self, Granted};
use crate::headroom::{Headroom, ProcHost, ReadError, ReadHost, StartError};
use crate::live_changes::Changes;
use crate::manager::{Manager, WrongPolicy};
use crate::observe::events::{Cause, EventId, Events, Why, Writer};
use crate::observe::log::{self, LogError};
use crate::signals::Heard;
use crate::state_folder::{self, StateError};
use crate::tenants::Tenants;
use crate::tenants::refusals::Refusals;
use crate::tenants::rings::{self, RingsError};
use crate::tenants::service::{self, Service, ServiceError};
use crate::{heap, locked};

/// Why the daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The log filter makes no sense.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Another daemon sizes itself.
    #[error(transparent)]
    NotAlone(#[from] NotAlone),
    /// The state folder cannot be had.
    #[error(transparent)]
    State(#[from] StateError),
    /// The admin interface has no place.
    #[error(transparent)]
    Doors(#[from] DoorsError),
    /// A tenant cannot be served.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The host's memory cannot be seen.
    #[error(transparent)]
    Host(#[from] ReadError),
    /// The store cannot be made.
    #[error("cannot reserve address space for the arena: {0}")]
    Store(io::Error),
    /// The arena cannot follow the host.
    #[error(transparent)]
    Headroom(#[from] StartError),
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
    Disk(#[from] DisksError),
    /// Serving cannot begin.
    #[error(transparent)]
    Serve(#[from] serve::StartError),
    /// The system refused a thread or a signal handler.
    #[error("the system refused a thread or a signal handler: {0}")]
    System(#[from] io::Error),
}

/// Serves until SIGTERM, SIGINT, SIGPWR or SIGXCPU. SIGHUP has it read passwords and certificates anew, and nothing else.
pub fn run(loaded: Loaded) -> Result<(), ServeError> {
    heap::bound();
    let _log = log::start(&loaded.config.daemon.log, loaded.config.daemon.log_format)?;
    let events = Events::default();
    let writer = Writer::start(&events)?;
    let mut signals = Heard::begin()?;
    let alone = claim(&loaded.config)?;
    let loaded = state_folder::claim(loaded)?;
    let doors = Doors::open(&loaded.config, &events)?;
    let finale = Finale::prepare(finale::exit)?;
    let places = loaded.config.tenants.iter().map(service::listeners);
    let places: Vec<Vec<Listener>> = places.collect::<Result<_, _>>()?;
    let rings = loaded.config.tenants.iter().map(rings::listeners);
    let rings: Vec<Vec<ring::Listener>> = rings.collect::<Result<_, _>>()?;

    let backend = backend(&loaded.config)?;
    let live = Changes::of(loaded.live.clone());
    let mut tenants = Tenants::open(&loaded, &live, &places, &backend, &events)?;
    let doors_of_rings = tenants.open_rings(rings)?;
    let headroom = follow(&loaded.config, &backend, &events)?;
    let disks = Disks::open(&loaded, &backend, &events)?;
    let config = loaded.config.clone();
    warn_of_lost_changes(&loaded);
    warn_of_floors(&loaded.config);
    let groups = tenants.services().iter().map(Service::group);
    let groups: Vec<(Group, Vec<Listener>)> = groups.zip(places).collect();
    let choice = config.policy.choice()?;
    let by_hand = headroom.by_hand();
    let manager = Manager::start(&backend, &config.policy, choice, &events, by_hand)
        .map_err(ServeError::Manager)?;
    let refused = refused(&tenants, &disks, &events);
    let chores = Chores::start_with(&backend, instances(tenants.services()), refused)?;
    let serving = serve::start(groups, config.daemon.threads, &backend, ender())?;
    let broken = Arc::new(|| ender()(Stop::Now));
    let ringing = rings::start(doors_of_rings, config.daemon.threads, &backend, broken)?;
    let granted = Granted {
        tcp: doors.tcp_place(),
        metrics: doors.metrics_place(),
        descriptors: Bounds::of(&config).claim_descriptors(),
    };
    let daemon = Daemon::new(
        backend,
        tenants,
        headroom,
        manager,
        disks,
        loaded,
        events.clone(),
    );
    let daemon = Arc::new(daemon);
    let admin = Admin::start(doors, Arc::clone(&daemon))?;
    greeting::print(&daemon.status(), &config, &granted);
    let release = concat!("release ", env!("CARGO_PKG_VERSION"));
    events.post(Cause::new(EventId::DaemonStarted, Why::Start).saying(release));

    signals.wait(&daemon);
    let all = Everything {
        daemon,
        admin,
        ringing,
        serving,
        chores,
        alone,
        writer,
    };
    all.end(&finale);
    Ok(())
}

/// Tells, whenever it is run, which clients were not let in since the last time.
fn refused(tenants: &Tenants, disks: &Disks, events: &Events) -> impl FnMut() + Send + use<> {
    let mut of_tenants = Refusals::of(tenants.services(), events);
    let of_disks = disks.refusals(events);
    move || {
        of_tenants.tell();
        of_disks();
    }
}

/// What runs while the daemon serves.
struct Everything {
    daemon: Arc<Daemon>,
    admin: Admin,
    ringing: Option<ring::Running>,
    serving: serve::Running,
    chores: Chores,
    alone: Option<Alone>,
    writer: Writer,
}

impl Everything {
    /// Ends it, whoever needs others before them.
    fn end(self, finale: &Finale) {
        let Everything {
            daemon,
            admin,
            ringing,
            serving,
            chores,
            alone,
            writer,
        } = self;
        // Who asks is answered until the last page is on its backing.
        daemon.begin_ending();
        // For as long as the backings go on taking it.
        daemon.drain_disks();
        finale.step("a change that was refused", STEP_MAX, || {
            daemon.settle_changes()
        });
        finale.step("files that are read anew", STEP_MAX, || daemon.end_reread());
        finale.step("disks and their clients", DISKS_END_MAX, || {
            daemon.end_disks()
        });
        finale.step("callers of the admin interface", STEP_MAX, || drop(admin));
        finale.step("clients of page rings", STEP_MAX, || {
            ringing.into_iter().for_each(ring::Running::stop)
        });
        finale.step("memcached's clients", STEP_MAX, || {
            serving.stop(Stop::Graceful)
        });
        finale.step("threads of the daemon", STEP_MAX, || {
            drop(chores);
            drop(daemon);
            drop(alone);
            drop(writer);
        });
    }
}

/// How long disks, their clients and whoever keeps pages of swap may take to end, all bounds of their own together.
const DISKS_END_MAX: Duration = Duration::from_secs(120);

/// How long any other step of the end may take.
const STEP_MAX: Duration = Duration::from_secs(30);

/// A daemon with a ceiling may have others beside it.
fn claim(config: &Config) -> Result<Option<Alone>, NotAlone> {
    let folder = config.admin.socket.parent().unwrap_or(".".as_ref());
    match config.arena.ceiling {
        Some(_) => Ok(None),
        None => Alone::claim(folder).map(Some),
    }
}

fn backend(config: &Config) -> Result<Backend, ServeError> {
    let capacity = capacity(config)?;
    let item_max = config.tenants.iter().map(|tenant| tenant.item_max).max();
    let store = Store::new(StoreSettings {
        capacity,
        // The first look at the host says how much it may be.
        limit: config.arena.floor.min(capacity),
        item_max: item_max.unwrap_or(Bytes::mib(1)),
        seed: RandomState::new().hash_one(std::process::id()),
        evicts: true,
        pages: sublet_store::PageSettings::default(),
    });
    let store = store.map_err(ServeError::Store)?;
    locked::lock_store(&store);
    Ok(Backend {
        store,
        clock: Clock::start(),
        ledger: Arc::new(Ledger::default()),
    })
}

/// The most that the arena can ever hold: the ceiling, or all memory there is.
fn capacity(config: &Config) -> Result<Bytes, ReadError> {
    let host = ProcHost::open()?.read(Duration::ZERO)?;
    let all = host
        .cgroup
        .map_or(host.memory, |cgroup| cgroup.limit.min(host.memory));
    Ok(config.arena.ceiling.map_or(all, |ceiling| ceiling.min(all)))
}

fn follow(config: &Config, backend: &Backend, events: &Events) -> Result<Headroom, ServeError> {
    let settings = headroom::Settings {
        reserve: config.arena.reserve,
        floor: config.arena.floor,
        ceiling: config.arena.ceiling,
        fast_from: config.arena.release_threshold,
        ..headroom::Settings::default()
    };
    Ok(Headroom::start(
        ProcHost::open()?,
        &backend.store,
        backend.clock,
        settings,
        events,
    )?)
}

fn instances(services: &[Service]) -> Vec<(Arc<Instance>, TenantId)> {
    services
        .iter()
        .map(|service| (Arc::clone(&service.instance), service.id))
        .collect()
}

/// Serving that broke down ends the daemon as a signal would.
fn ender() -> Arc<serve::Asked> {
    Arc::new(|_| {
        let _ = signal_hook::low_level::raise(SIGTERM);
    })
}

/// Changes that were made live may have floors that do not fit beside each other.
fn warn_of_floors(config: &Config) {
    let floors = config
        .tenants
        .iter()
        .filter_map(|tenant| tenant.settings.floor);
    let together: Bytes = floors.sum();
    if let Some(arena) = config.arena.ceiling.filter(|arena| *arena < together) {
        tracing::warn!(%together, %arena, "the tenants' floors do not fit together, and each has a part of its own: `sublet tenants set NAME --floor` lowers one");
    }
}

fn warn_of_lost_changes(loaded: &Loaded) {
    for key in &loaded.orphans {
        tracing::warn!(
            key,
            "live.toml changes what is not there; it holds once it is"
        );
    }
    for said in &loaded.passed_over {
        tracing::warn!(
            said,
            "live.toml says what daemons have no more; it is passed over"
        );
    }
}
