//! `watch`: lines about what others do, for those who asked.
//!
//! Fetches, stores, deletes, evictions and connections are told. `rawcmds`, `sysevents` and the proxy's kinds are accepted, and nothing is
//! told of them; nor of items that went with whole blocks when the host took memory back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use sublet_store::{Evicted, EvictionListener};

use super::connections::Peer;
use super::events::{Event, FetchStatus, StoreStatus};
use super::verbs::{Deleted, Mode};
use super::{map, numbers};
use crate::tenancy::{Clock, Tenancy};

/// How often a watching connection is given the lines that came up.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// The most watching connections.
pub(crate) const WATCHERS_MAX: usize = 20;

/// Lines that wait for one watching connection, bytes; more are skipped and counted.
pub(crate) const WATCH_BYTES_MAX: usize = 256 << 10;

/// Kinds of lines, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const FETCHES: Kinds = Kinds(1);
    const STORES: Kinds = Kinds(2);
    const DELETES: Kinds = Kinds(4);
    const CONNECTIONS: Kinds = Kinds(8);
    const EVICTIONS: Kinds = Kinds(16);
    const NONE: Kinds = Kinds(0);

    /// The kind of this name.
    pub(super) fn named(name: &[u8]) -> Option<Kinds> {
        Some(match name {
            b"fetchers" => Kinds::FETCHES,
            b"mutations" => Kinds::STORES,
            b"deletions" => Kinds::DELETES,
            b"connevents" => Kinds::CONNECTIONS,
            b"evictions" => Kinds::EVICTIONS,
            b"rawcmds" | b"sysevents" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => Kinds::NONE,
            _ => return None,
        })
    }

    /// These and those.
    pub(super) fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    fn includes(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }
}

/// Lines that wait for one watching connection.
pub(super) struct Feed {
    kinds: Kinds,
    /// Where it hears of evictions, if it asked for them.
    listener: Option<EvictionListener>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    skipped: u64,
}

impl Feed {
    fn push(&self, line: &[u8], figures: &Figures) {
        let mut waiting = self.waiting.lock();
        if waiting.lines.len() + line.len() > WATCH_BYTES_MAX {
            waiting.skipped += 1;
            figures.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if waiting.skipped > 0 {
            let note = format!("[skipped={}]\n", std::mem::take(&mut waiting.skipped));
            waiting.lines.extend_from_slice(note.as_bytes());
        }
        waiting.lines.extend_from_slice(line);
        figures.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the lines that wait.
    pub(super) fn take(&self, watchers: &Watchers, clock: &Clock, out: &mut Vec<u8>) {
        out.append(&mut self.waiting.lock().lines);
        if let Some(listener) = &self.listener {
            watchers.tell_evictions(listener, clock, out);
        }
    }
}

/// How much was told.
#[derive(Debug, Default)]
struct Figures {
    lines: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

/// Everyone who watches.
#[derive(Default)]
pub(super) struct Watchers {
    count: AtomicUsize,
    feeds: Mutex<Vec<Arc<Feed>>>,
    figures: Figures,
}

impl Watchers {
    /// Whether anybody watches.
    pub(super) fn any(&self) -> bool {
        self.count() > 0
    }

    /// How many watch.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Lines that were given to watching connections.
    pub(super) fn sent(&self) -> u64 {
        self.figures.sent.load(Ordering::Relaxed)
    }

    /// Lines that were dropped because one reads too slowly.
    pub(super) fn skipped(&self) -> u64 {
        self.figures.skipped.load(Ordering::Relaxed)
    }

    /// One more watches what becomes of a tenant's items, unless there are too many.
    pub(super) fn join(&self, kinds: Kinds, tenancy: &Tenancy) -> Option<Arc<Feed>> {
        let mut feeds = self.feeds.lock();
        if feeds.len() >= WATCHERS_MAX {
            return None;
        }
        let (worker, tenant, _) = tenancy.acting();
        let listen = || worker.store().listen(tenant);
        let hears = kinds.includes(Kinds::EVICTIONS);
        let feed = Arc::new(Feed {
            kinds,
            listener: hears.then(listen).flatten(),
            waiting: Mutex::default(),
        });
        feeds.push(Arc::clone(&feed));
        self.count.store(feeds.len(), Ordering::Relaxed);
        Some(feed)
    }

    /// One watches no more.
    pub(super) fn leave(&self, feed: &Arc<Feed>) {
        let mut feeds = self.feeds.lock();
        feeds.retain(|other| !Arc::ptr_eq(other, feed));
        self.count.store(feeds.len(), Ordering::Relaxed);
    }

    /// Tells those who asked for events of this kind.
    pub(super) fn tell(&self, peer: &Peer, event: &Event<'_>) {
        let Some(kind) = kind(event) else { return };
        let feeds = self.feeds.lock();
        if !feeds.iter().any(|feed| feed.kinds.includes(kind)) {
            return;
        }
        let mut line = self.begin_line();
        write_event(&mut line, peer, event);
        line.push(b'\n');
        for feed in feeds.iter().filter(|feed| feed.kinds.includes(kind)) {
            feed.push(&line, &self.figures);
        }
    }

    fn tell_evictions(&self, listener: &EvictionListener, clock: &Clock, out: &mut Vec<u8>) {
        let (heard, missed) = listener.take();
        for evicted in &heard {
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
            .fetch_add(heard.len() as u64, Ordering::Relaxed);
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

fn kind(event: &Event<'_>) -> Option<Kinds> {
    Some(match event {
        Event::Fetched { .. } | Event::Sought { .. } => Kinds::FETCHES,
        Event::Stored { .. } | Event::Written { .. } => Kinds::STORES,
        Event::Deleted {
            deleted: Deleted::Done,
            ..
        } => Kinds::DELETES,
        Event::Deleted { .. } => return None,
        Event::Connected | Event::Closed(_) => Kinds::CONNECTIONS,
    })
}

fn write_event(line: &mut Vec<u8>, peer: &Peer, event: &Event<'_>) {
    let fd = peer.fd;
    let (name, key, rest) = match *event {
        Event::Fetched { key, status, size } => ("item_get", key, fetched(status, fd, size)),
        Event::Sought { key, size } => {
            let status = match size {
                Some(_) => FetchStatus::Found,
                None => FetchStatus::NotFound,
            };
            ("item_get", key, fetched(status, fd, size.unwrap_or(0)))
        }
        Event::Stored {
            key,
            status,
            mode,
            ttl,
            size,
        } => ("item_store", key, stored(status, mode, ttl, fd, size)),
        Event::Written {
            key,
            mode,
            ttl,
            size,
        } => {
            let rest = stored(StoreStatus::STORED, mode, ttl, fd, size);
            ("item_store", key, rest)
        }
        Event::Deleted {
            key, size, command, ..
        } => (
            "deleted",
            key,
            format!(" cmd={} clsid=1 size={size}", command.name()),
        ),
        Event::Connected => return write_connection(line, "conn_new", peer, ""),
        Event::Closed(ending) => {
            let reason = format!(" reason={}", ending.name());
            return write_connection(line, "conn_close", peer, &reason);
        }
    };
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b" key=");
    map::write_uri(line, key);
    line.extend_from_slice(rest.as_bytes());
}

fn write_eviction(line: &mut Vec<u8>, clock: &Clock, evicted: &Evicted) {
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

fn fetched(status: FetchStatus, fd: i32, size: usize) -> String {
    let class = u8::from(status == FetchStatus::Found);
    format!(
        " status={} clsid={class} cfd={fd} size={size}",
        status.name()
    )
}

fn stored(status: StoreStatus, mode: Mode, ttl: i64, fd: i32, size: usize) -> String {
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

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Set => "set",
        Mode::Add => "add",
        Mode::Replace => "replace",
        Mode::Append => "append",
        Mode::Prepend => "prepend",
        Mode::Cas => "cas",
    }
}
