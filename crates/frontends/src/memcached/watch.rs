//! `watch`: lines about other clients' requests, for clients that asked for them.
//!
//! Watchers get lines about fetches, stores, deletes, evictions and connections. `rawcmds`, `sysevents` and the proxy's
//! kinds are accepted but produce no lines. Items that vanish with whole blocks when the host reclaims memory produce
//! none either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use sublet_store::{EvictedItem, EvictionListener};

use super::connections::Peer;
use super::verbs::{DeleteOutcome, StoreMode};
use super::watch_event::{FetchStatus, StoreStatus, WatchEvent};
use super::{map, numbers};
use crate::tenancy::{Clock, Tenancy};

/// How often a watching connection gets its new lines.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// The most watching connections.
pub(crate) const WATCHERS_MAX: usize = 20;

/// The most bytes of lines that wait for one watching connection. Further lines are skipped and counted.
pub(crate) const WATCH_BYTES_MAX: usize = 256 << 10;

/// A set of kinds of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchKinds(u8);

impl WatchKinds {
    pub(super) const FETCHES: WatchKinds = WatchKinds(1);
    const STORES: WatchKinds = WatchKinds(2);
    const DELETES: WatchKinds = WatchKinds(4);
    const CONNECTIONS: WatchKinds = WatchKinds(8);
    const EVICTIONS: WatchKinds = WatchKinds(16);
    const NONE: WatchKinds = WatchKinds(0);

    /// Returns the kind of this name.
    pub(super) fn named(name: &[u8]) -> Option<WatchKinds> {
        Some(match name {
            b"fetchers" => WatchKinds::FETCHES,
            b"mutations" => WatchKinds::STORES,
            b"deletions" => WatchKinds::DELETES,
            b"connevents" => WatchKinds::CONNECTIONS,
            b"evictions" => WatchKinds::EVICTIONS,
            b"rawcmds" | b"sysevents" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => {
                WatchKinds::NONE
            }
            _ => return None,
        })
    }

    /// Returns the union of both sets.
    pub(super) fn and(self, other: WatchKinds) -> WatchKinds {
        WatchKinds(self.0 | other.0)
    }

    fn includes(self, other: WatchKinds) -> bool {
        self.0 & other.0 != 0
    }
}

/// One watching connection and the lines that wait for it.
pub(super) struct Watcher {
    kinds: WatchKinds,
    /// Receives evictions, if the client asked for them.
    listener: Option<EvictionListener>,
    pending: Mutex<PendingLines>,
}

#[derive(Debug, Default)]
struct PendingLines {
    lines: Vec<u8>,
    skipped: u64,
}

impl Watcher {
    fn push(&self, line: &[u8], figures: &WatchFigures) {
        let mut pending = self.pending.lock();
        if pending.lines.len() + line.len() > WATCH_BYTES_MAX {
            pending.skipped += 1;
            figures.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if pending.skipped > 0 {
            let skipped_line = format!("[skipped={}]\n", std::mem::take(&mut pending.skipped));
            pending.lines.extend_from_slice(skipped_line.as_bytes());
        }
        pending.lines.extend_from_slice(line);
        figures.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Moves the waiting lines to `out`.
    pub(super) fn drain_into(&self, watchers: &Watchers, clock: &Clock, out: &mut Vec<u8>) {
        out.append(&mut self.pending.lock().lines);
        if let Some(listener) = &self.listener {
            watchers.write_evictions(listener, clock, out);
        }
    }
}

/// Counts of lines.
#[derive(Debug, Default)]
struct WatchFigures {
    lines: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

/// All watching connections.
#[derive(Default)]
pub(super) struct Watchers {
    count: AtomicUsize,
    all: Mutex<Vec<Arc<Watcher>>>,
    figures: WatchFigures,
}

impl Watchers {
    /// Returns whether any connection watches.
    pub(super) fn any(&self) -> bool {
        self.count() > 0
    }

    /// Returns how many connections watch.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns how many lines were passed to watching connections.
    pub(super) fn sent(&self) -> u64 {
        self.figures.sent.load(Ordering::Relaxed)
    }

    /// Returns how many lines were dropped because a client read too slowly.
    pub(super) fn skipped(&self) -> u64 {
        self.figures.skipped.load(Ordering::Relaxed)
    }

    /// Adds a connection that watches a tenant's items. Returns `None` if there are too many.
    pub(super) fn join(&self, kinds: WatchKinds, tenancy: &Tenancy) -> Option<Arc<Watcher>> {
        let mut watchers = self.all.lock();
        if watchers.len() >= WATCHERS_MAX {
            return None;
        }
        let (worker, tenant, _) = tenancy.worker_tenant_now();
        let listen = || worker.store().listen(tenant);
        let wants_evictions = kinds.includes(WatchKinds::EVICTIONS);
        let watcher = Arc::new(Watcher {
            kinds,
            listener: wants_evictions.then(listen).flatten(),
            pending: Mutex::default(),
        });
        watchers.push(Arc::clone(&watcher));
        self.count.store(watchers.len(), Ordering::Relaxed);
        Some(watcher)
    }

    /// Removes a watching connection.
    pub(super) fn leave(&self, watcher: &Arc<Watcher>) {
        let mut watchers = self.all.lock();
        watchers.retain(|other| !Arc::ptr_eq(other, watcher));
        self.count.store(watchers.len(), Ordering::Relaxed);
    }

    /// Passes an event to the connections that asked for its kind.
    pub(super) fn publish(&self, peer: &Peer, event: &WatchEvent<'_>) {
        let Some(kind) = kind_of(event) else { return };
        let watchers = self.all.lock();
        if !watchers.iter().any(|watcher| watcher.kinds.includes(kind)) {
            return;
        }
        let mut line = self.begin_line();
        write_event(&mut line, peer, event);
        line.push(b'\n');
        for watcher in watchers
            .iter()
            .filter(|watcher| watcher.kinds.includes(kind))
        {
            watcher.push(&line, &self.figures);
        }
    }

    fn write_evictions(&self, listener: &EvictionListener, clock: &Clock, out: &mut Vec<u8>) {
        let (evictions, missed) = listener.drain();
        for evicted in &evictions {
            out.extend_from_slice(&self.begin_line());
            write_eviction(out, clock, evicted);
            out.push(b'\n');
        }
        if missed > 0 {
            out.extend_from_slice(format!("[skipped={missed}]\n").as_bytes());
        }
        let figures = &self.figures;
        figures
            .sent
            .fetch_add(evictions.len() as u64, Ordering::Relaxed);
        figures.skipped.fetch_add(missed, Ordering::Relaxed);
    }

    fn begin_line(&self) -> Vec<u8> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let number = self.figures.lines.fetch_add(1, Ordering::Relaxed);
        let head = format!(
            "ts={}.{} gid={number} type=",
            now.as_secs(),
            now.subsec_micros()
        );
        head.into_bytes()
    }
}

fn kind_of(event: &WatchEvent<'_>) -> Option<WatchKinds> {
    Some(match event {
        WatchEvent::Fetched { .. } | WatchEvent::StoreLookup { .. } => WatchKinds::FETCHES,
        WatchEvent::Stored { .. } | WatchEvent::Written { .. } => WatchKinds::STORES,
        WatchEvent::Deleted {
            deleted: DeleteOutcome::Done,
            ..
        } => WatchKinds::DELETES,
        WatchEvent::Deleted { .. } => return None,
        WatchEvent::Connected | WatchEvent::Closed(_) => WatchKinds::CONNECTIONS,
    })
}

fn write_event(line: &mut Vec<u8>, peer: &Peer, event: &WatchEvent<'_>) {
    let fd = peer.fd;
    let (name, key, rest) = match *event {
        WatchEvent::Fetched { key, status, size } => {
            ("item_get", key, fetch_fields(status, fd, size))
        }
        WatchEvent::StoreLookup { key, size } => {
            let status = match size {
                Some(_) => FetchStatus::Found,
                None => FetchStatus::NotFound,
            };
            ("item_get", key, fetch_fields(status, fd, size.unwrap_or(0)))
        }
        WatchEvent::Stored {
            key,
            status,
            mode,
            ttl,
            size,
        } => ("item_store", key, store_fields(status, mode, ttl, fd, size)),
        WatchEvent::Written {
            key,
            mode,
            ttl,
            size,
        } => {
            let rest = store_fields(StoreStatus::STORED, mode, ttl, fd, size);
            ("item_store", key, rest)
        }
        WatchEvent::Deleted {
            key, size, command, ..
        } => (
            "deleted",
            key,
            format!(" cmd={} clsid=1 size={size}", command.name()),
        ),
        WatchEvent::Connected => return write_connection(line, "conn_new", peer, ""),
        WatchEvent::Closed(reason) => {
            let reason = format!(" reason={}", reason.name());
            return write_connection(line, "conn_close", peer, &reason);
        }
    };
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b" key=");
    map::write_uri(line, key);
    line.extend_from_slice(rest.as_bytes());
}

fn write_eviction(line: &mut Vec<u8>, clock: &Clock, evicted: &EvictedItem) {
    line.extend_from_slice(b"eviction key=");
    map::write_uri(line, &evicted.key);
    let fetch = if evicted.fetched { "yes" } else { "no" };
    let now = clock.now();
    let ttl = numbers::ttl(now, evicted.expiry);
    let idle = now.0.saturating_sub(evicted.last_access.0);
    let size = evicted.value_len;
    let rest = format!(" fetch={fetch} ttl={ttl} la={idle} clsid=1 size={size}");
    line.extend_from_slice(rest.as_bytes());
}

fn fetch_fields(status: FetchStatus, fd: i32, size: usize) -> String {
    let class = u8::from(status == FetchStatus::Found);
    format!(
        " status={} clsid={class} cfd={fd} size={size}",
        status.name()
    )
}

fn store_fields(status: StoreStatus, mode: StoreMode, ttl: i64, fd: i32, size: usize) -> String {
    let (class, status) = (status.class(), status.name());
    let (mode, ttl) = (mode_name(mode), ttl.max(0));
    format!(" status={status} cmd={mode} ttl={ttl} clsid={class} cfd={fd} size={size}")
}

fn write_connection(line: &mut Vec<u8>, name: &str, peer: &Peer, reason: &str) {
    let (transport, address) = peer
        .address
        .split_once(':')
        .unwrap_or(("tcp", &peer.address));
    let (host, port) = match transport {
        "unix" => ("unix", "0"),
        _ => address.rsplit_once(':').unwrap_or((address, "0")),
    };
    let transport = if transport == "unix" { "local" } else { "tcp" };
    let fd = peer.fd;
    let text = format!("{name} rip={host} rport={port} transport={transport}{reason} cfd={fd}");
    line.extend_from_slice(text.as_bytes());
}

fn mode_name(mode: StoreMode) -> &'static str {
    match mode {
        StoreMode::Set => "set",
        StoreMode::Add => "add",
        StoreMode::Replace => "replace",
        StoreMode::Append => "append",
        StoreMode::Prepend => "prepend",
        StoreMode::Cas => "cas",
    }
}
