//! What all connections of one group of listeners share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::{Mutex, RwLock};
use sublet_types::{Bytes, TenantId};

use super::bound::{GATHERING_MIN, MemoryBound};
use super::connections::{Connections, Peer};
use super::events::{Event, FetchStatus};
use super::metrics::{CpuTime, Figures, Zero};
use super::numbers;
use super::passwords::{Login, Passwords};
use super::prefixes::{Counted, Prefixes};
use super::settings::{Crawler, Settings};
use super::watch::Watchers;
use crate::doors::{Lobby, WhenFull};
use crate::serving::{Admissions, Admits};
use crate::tenancy::Tenancy;

/// The version that clients are told: that of the memcached whose behaviour this is.
pub const VERSION: &str = "1.6.45";

/// What a connection may ask of the process around it.
pub trait Host: Send + Sync {
    /// Sets how much memory the tenant may hold (`cache_memlimit`).
    fn limit_memory(&self, tenant: TenantId, limit: Bytes) -> Result<(), LimitRefused>;
    /// How much the tenant may hold now (`limit_maxbytes`).
    fn memory_limit(&self, tenant: TenantId) -> Bytes;
    /// Reads the TLS certificates anew (`refresh_certs`).
    fn refresh_certs(&self) -> Result<(), CertsRefused>;
    /// User and system time of the process so far.
    fn cpu_time(&self) -> CpuTime;
}

/// Why a memory limit was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitRefused {
    /// Less than a tenant needs.
    #[error("cannot set maxbytes to less than 8m")]
    TooSmall,
    /// More than the host or the owner's settings allow.
    #[error("input value is above what the owner allows")]
    TooLarge,
}

/// Why certificates were not read anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertsRefused {
    /// This instance does not speak TLS.
    #[error("TLS is not enabled")]
    NoTls,
    /// The files could not be used; the old certificates stay.
    #[error("{0}")]
    Unusable(&'static str),
}

/// What all connections of one group of listeners share.
pub struct Instance {
    /// How the listeners behave.
    pub settings: Settings,
    /// The process around.
    pub host: Box<dyn Host>,
    /// Figures that any thread moves.
    pub figures: Figures,
    /// Who is connected.
    pub connections: Connections,
    pub(super) lobby: Arc<Lobby>,
    pub(super) prefixes: Prefixes,
    pub(super) watchers: Watchers,
    /// Values on their way in, and long lines.
    pub(super) memory: MemoryBound,
    passwords: RwLock<Passwords>,
    verbosity: AtomicU8,
    crawler: AtomicBool,
    zeros: Mutex<HashMap<TenantId, Zero>>,
}

/// What the clients of one instance may hold of values that are on their way in and of long lines.
pub fn gathering_max(item_max: Bytes) -> Bytes {
    Bytes(item_max.0.saturating_mul(2)).max(GATHERING_MIN)
}

/// The loudest that `verbosity` sets.
const VERBOSITY_MAX: u32 = 2;

impl Admits for Instance {
    fn lobby(&self) -> &Arc<Lobby> {
        &self.lobby
    }

    fn admissions(&self) -> Admissions<'_> {
        Admissions {
            open: &self.figures.curr_connections,
            made: &self.figures.total_connections,
            refused: &self.figures.rejected_connections,
            gave_way: Some(&self.figures.idle_kicks),
        }
    }
}

impl Instance {
    /// The instance of a group of listeners that behave by `settings`.
    pub fn new(settings: Settings, host: Box<dyn Host>, passwords: Passwords) -> Instance {
        let gathering = gathering_max(Bytes(settings.item_max));
        Instance {
            lobby: Lobby::new(
                settings.connections_max,
                settings.silence_max,
                WhenFull::IsRefused,
            ),
            connections: Connections::default(),
            figures: Figures::default(),
            prefixes: Prefixes::new(settings.prefix_delimiter, settings.detail),
            watchers: Watchers::default(),
            memory: MemoryBound::new(usize::try_from(gathering.0).unwrap_or(usize::MAX)),
            verbosity: AtomicU8::new(settings.verbosity),
            crawler: AtomicBool::new(settings.crawler),
            zeros: Mutex::default(),
            passwords: RwLock::new(passwords),
            settings,
            host,
        }
    }

    /// The chores of a second: the tenant's flush, if it was put off and nobody has asked for anything since it is due. Its
    /// memory is of use to others.
    pub fn tick(&self, tenancy: &Tenancy) {
        tenancy.flush_if_due();
    }

    /// Hides everything that the tenant stores until a delay is over, which is given as a time to live.
    pub(super) fn flush(&self, tenancy: &Tenancy, delay: i64) {
        let (worker, tenant, now) = tenancy.acting();
        match numbers::due(tenancy.clock(), delay) {
            Some(due) => worker.defer_flush(tenant, due),
            None => worker.flush(tenant, now),
        }
    }

    /// Counts anew for the tenant.
    pub(super) fn reset(&self, tenancy: &Tenancy) {
        let (worker, tenant, _) = tenancy.acting();
        tenancy.ledger().reset(tenant);
        self.prefixes.clear();
        let figures = worker.store().tenant_figures(tenant);
        let zero = Zero {
            evictions: figures.evictions,
            evicted_unfetched: figures.evicted_unfetched,
            reclaimed: figures.reclaimed,
            expired_unfetched: figures.expired_unfetched,
            total_connections: self.figures.total_connections.get(),
            rejected_connections: self.figures.rejected_connections.get(),
            listen_disabled: self.figures.listen_disabled.get(),
            idle_kicks: self.figures.idle_kicks.get(),
        };
        self.zeros.lock().insert(tenant, zero);
    }

    /// Where the tenant's figures stood at its last reset.
    pub(super) fn zero(&self, tenant: TenantId) -> Zero {
        self.zeros.lock().get(&tenant).copied().unwrap_or_default()
    }

    /// Who may come in from now on (a password file was read anew).
    pub fn set_passwords(&self, passwords: Passwords) {
        *self.passwords.write() = passwords;
    }

    /// Whether this user may come in, and as which tenant if not the listener's own.
    pub(super) fn admit(&self, login: &Login<'_>) -> Option<Option<TenantId>> {
        let passwords = self.passwords.read();
        passwords.admit(login).map(|account| account.tenant)
    }

    /// How much is said in the log now.
    pub fn verbosity(&self) -> u8 {
        self.verbosity.load(Ordering::Relaxed)
    }

    pub(super) fn set_verbosity(&self, level: u32) {
        let level = level.min(VERBOSITY_MAX) as u8;
        self.verbosity.store(level, Ordering::Relaxed);
    }

    pub(super) fn crawler(&self) -> Crawler {
        match self.crawler.load(Ordering::Relaxed) {
            true => Crawler::On,
            false => Crawler::Off,
        }
    }

    pub(super) fn set_crawler(&self, crawler: Crawler) {
        self.crawler
            .store(crawler == Crawler::On, Ordering::Relaxed);
    }

    /// Tells those who listen, if there are any. Costs one load a request while nobody does.
    #[inline]
    pub(super) fn observed<'e>(&self, peer: &Peer, event: impl FnOnce() -> Event<'e>) {
        if self.prefixes.collects() || self.watchers.any() {
            self.tell(peer, &event());
        }
    }

    #[cold]
    fn tell(&self, peer: &Peer, event: &Event<'_>) {
        if self.prefixes.collects() {
            match *event {
                Event::Fetched {
                    key,
                    status: FetchStatus::Found,
                    ..
                } => self.prefixes.count(key, Counted::Hit),
                Event::Fetched { key, .. } => self.prefixes.count(key, Counted::Miss),
                Event::Stored { key, .. } => self.prefixes.count(key, Counted::Set),
                Event::Deleted { key, .. } => self.prefixes.count(key, Counted::Delete),
                Event::Sought { .. }
                | Event::Written { .. }
                | Event::Connected
                | Event::Closed(_) => {}
            }
        }
        self.watchers.tell(peer, event);
    }
}
