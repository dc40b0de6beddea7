//! What all connections of one group of listeners share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::{Mutex, RwLock};
use sublet_types::{Bytes, TenantId};

use super::connections::{Connections, Peer};
use super::memory_bound::{GATHERING_MIN, MemoryBound};
use super::metrics::{CpuTime, FigureBaseline, InstanceFigures};
use super::numbers;
use super::passwords::{Login, Passwords};
use super::prefixes::{PrefixOperation, Prefixes};
use super::settings::{Crawler, Settings};
use super::watch::Watchers;
use super::watch_event::{FetchStatus, WatchEvent};
use crate::listeners::{ConnectionLimiter, WhenFull};
use crate::serving::{ConnectionFigures, ConnectionGroup};
use crate::tenancy::Tenancy;

/// The version that clients see. It is the version of memcached whose behaviour this module follows.
pub const VERSION: &str = "1.6.45";

/// What a connection may request of the process around it.
pub trait ClientControls: Send + Sync {
    /// Sets how much memory the tenant may hold (`cache_memlimit`).
    fn limit_memory(&self, tenant: TenantId, limit: Bytes) -> Result<(), LimitRefused>;
    /// Returns how much memory the tenant may hold now (`limit_maxbytes`).
    fn memory_limit(&self, tenant: TenantId) -> Bytes;
    /// Reads the TLS certificates again (`refresh_certs`).
    fn refresh_certs(&self) -> Result<(), CertsRefused>;
    /// Returns the user and system time of the process so far.
    fn cpu_time(&self) -> CpuTime;
}

/// Why a memory limit was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitRefused {
    /// The limit is less than a tenant needs.
    #[error("cannot set maxbytes to less than 8m")]
    TooSmall,
    /// The limit is more than the host or the owner's settings allow.
    #[error("input value is above what the owner allows")]
    TooLarge,
}

/// Why certificates were not read again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertsRefused {
    /// This instance does not speak TLS.
    #[error("TLS is not enabled")]
    NoTls,
    /// The files could not be used. The old certificates stay.
    #[error("{0}")]
    Unusable(&'static str),
}

/// What all connections of one group of listeners share.
pub struct Instance {
    /// How the listeners behave.
    pub settings: Settings,
    /// The process around the instance.
    pub process: Box<dyn ClientControls>,
    /// Figures that any thread changes.
    pub figures: InstanceFigures,
    /// The open connections.
    pub connections: Connections,
    pub(super) limiter: Arc<ConnectionLimiter>,
    pub(super) prefixes: Prefixes,
    pub(super) watchers: Watchers,
    /// The memory for values on their way in and for long lines.
    pub(super) memory: MemoryBound,
    passwords: RwLock<Passwords>,
    verbosity: AtomicU8,
    crawler: AtomicBool,
    baselines: Mutex<HashMap<TenantId, FigureBaseline>>,
}

/// Returns how much memory the clients of one instance may hold for values on their way in and for long lines.
pub fn gathering_max(item_max: Bytes) -> Bytes {
    Bytes(item_max.0.saturating_mul(2)).max(GATHERING_MIN)
}

/// The highest level that `verbosity` sets.
const VERBOSITY_MAX: u32 = 2;

impl ConnectionGroup for Instance {
    fn limiter(&self) -> &Arc<ConnectionLimiter> {
        &self.limiter
    }

    fn connection_figures(&self) -> ConnectionFigures<'_> {
        ConnectionFigures {
            open: &self.figures.curr_connections,
            made: &self.figures.total_connections,
            refused: &self.figures.rejected_connections,
            displaced: Some(&self.figures.idle_kicks),
        }
    }
}

impl Instance {
    /// Makes the instance of a group of listeners that behave by `settings`.
    pub fn new(
        settings: Settings,
        process: Box<dyn ClientControls>,
        passwords: Passwords,
    ) -> Instance {
        let prefixes = Prefixes::new(settings.prefix_delimiter);
        if settings.detail {
            prefixes.collect();
        }
        let memory_max = gathering_max(Bytes(settings.item_max));
        Instance {
            limiter: ConnectionLimiter::new(
                settings.connections_max,
                settings.silence_max,
                WhenFull::IsRefused,
            ),
            connections: Connections::default(),
            figures: InstanceFigures::default(),
            prefixes,
            watchers: Watchers::default(),
            memory: MemoryBound::new(usize::try_from(memory_max.0).unwrap_or(usize::MAX)),
            verbosity: AtomicU8::new(settings.verbosity),
            crawler: AtomicBool::new(settings.crawler),
            baselines: Mutex::default(),
            passwords: RwLock::new(passwords),
            settings,
            process,
        }
    }

    /// Does the chores of one second. It runs the tenant's flush if that was deferred and no request has come since it
    /// was due. Others can then use the flushed memory.
    pub fn tick(&self, tenancy: &Tenancy) {
        tenancy.flush_if_due();
    }

    /// Hides everything that the tenant stores until a delay is over. The delay is given as a time to live.
    pub(super) fn flush(&self, tenancy: &Tenancy, delay: i64) {
        let (worker, tenant, now) = tenancy.worker_tenant_now();
        match numbers::delay_end(tenancy.clock(), delay) {
            Some(due) => worker.defer_flush(tenant, due),
            None => worker.flush(tenant, now),
        }
    }

    /// Resets the counts of the tenant (`stats reset`).
    pub(super) fn reset(&self, tenancy: &Tenancy) {
        let (worker, tenant, _) = tenancy.worker_tenant_now();
        tenancy.ledger().reset(tenant);
        self.prefixes.clear();
        let figures = worker.store().tenant_figures(tenant);
        let baseline = FigureBaseline {
            evictions: figures.evictions,
            evicted_unfetched: figures.evicted_unfetched,
            reclaimed: figures.reclaimed,
            expired_unfetched: figures.expired_unfetched,
            total_connections: self.figures.total_connections.get(),
            rejected_connections: self.figures.rejected_connections.get(),
            listen_disabled: self.figures.listen_disabled.get(),
            idle_kicks: self.figures.idle_kicks.get(),
        };
        self.baselines.lock().insert(tenant, baseline);
    }

    /// Returns the tenant's figures at its last reset.
    pub(super) fn baseline(&self, tenant: TenantId) -> FigureBaseline {
        self.baselines
            .lock()
            .get(&tenant)
            .copied()
            .unwrap_or_default()
    }

    /// Replaces the accounts that may log in, after a password file was read again.
    pub fn set_passwords(&self, passwords: Passwords) {
        *self.passwords.write() = passwords;
    }

    /// Checks a login. Returns `None` if it is refused. Otherwise returns the tenant for which the user acts, or `None`
    /// for the listener's own.
    pub(super) fn authenticate(&self, login: &Login<'_>) -> Option<Option<TenantId>> {
        let passwords = self.passwords.read();
        passwords.authenticate(login).map(|account| account.tenant)
    }

    /// Returns the current level of the log.
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

    /// Passes an event to the watchers and the counts by prefix, if there are any. Otherwise it costs one load per
    /// request.
    #[inline]
    pub(super) fn emit<'e>(&self, peer: &Peer, event: impl FnOnce() -> WatchEvent<'e>) {
        if self.prefixes.collects() || self.watchers.any() {
            self.dispatch(peer, &event());
        }
    }

    #[cold]
    fn dispatch(&self, peer: &Peer, event: &WatchEvent<'_>) {
        if self.prefixes.collects() {
            match *event {
                WatchEvent::Fetched {
                    key,
                    status: FetchStatus::Found,
                    ..
                } => self.prefixes.count(key, PrefixOperation::Hit),
                WatchEvent::Fetched { key, .. } => self.prefixes.count(key, PrefixOperation::Miss),
                WatchEvent::Stored { key, .. } => self.prefixes.count(key, PrefixOperation::Set),
                WatchEvent::Deleted { key, .. } => {
                    self.prefixes.count(key, PrefixOperation::Delete)
                }
                WatchEvent::StoreLookup { .. }
                | WatchEvent::Written { .. }
                | WatchEvent::Connected
                | WatchEvent::Closed(_) => {}
            }
        }
        self.watchers.publish(peer, event);
    }
}
