//! The one table of knobs. The config file, `sublet config default`, `sublet serve --help` and
//! `docs/config.md` are made from it.

mod disks;
mod retired;

use sublet_types::{Bytes, Weight};

use super::bounds::WEIGHT_MAX;
use super::said::{Said, Unfit};
use super::written::{Written, WrittenTenant};

pub use self::disks::DISK_KNOBS;
pub use self::retired::{RETIRED_KNOBS, Retired};

/// One thing that the owner may set, in a `W`.
pub struct Knob<W: 'static> {
    /// The table of the file that it stands in.
    pub room: &'static str,
    /// Its key there.
    pub name: &'static str,
    /// What a value looks like.
    pub unit: &'static str,
    /// The value when nothing is said, as TOML; `None` where nothing is then what it means.
    pub default: Option<&'static str>,
    /// A value to show where there is no default, as TOML.
    pub sample: &'static str,
    /// Why that default.
    pub why: &'static str,
    /// What it does.
    pub help: &'static str,
    /// The option of `sublet serve` that overrides it; for a disk's knob, that of `sublet disk add`.
    pub flag: Option<&'static str>,
    /// Takes a value.
    pub set: fn(&mut W, &Said) -> Result<(), Unfit>,
}

/// The most worker threads: what is left of the store's workers after chores and release.
const THREADS_MAX: u64 = 64;
/// The most connections that a tenant may be allowed.
const CONNECTIONS_MAX: u64 = 1_000_000;
/// memcached's own limits for `-I`.
const ITEM_MIN: Bytes = Bytes::kib(1);
const ITEM_MAX: Bytes = Bytes::gib(1);

/// A spill file holds at least a block, and at most what a slot number can name.
const SPILL_MIN: Bytes = Bytes::mib(2);
const SPILL_MAX: Bytes = Bytes::gib(4096);

/// Pages that no backing has yet: a block of them at least.
const DIRTY_MIN: Bytes = Bytes::mib(2);
const DIRTY_MAX: Bytes = Bytes::gib(1024);

/// What a log may look like.
pub(super) const LOG_FORMATS: &[&str] = &["text", "json"];

/// Whether tenants are brought down to their targets.
pub(super) const SHRINKING: &[&str] = &["active", "never"];

/// The knobs of the whole daemon.
pub const DAEMON_KNOBS: &[Knob<Written>] = &[
    Knob {
        room: "daemon",
        name: "threads",
        unit: "1 to 64, or \"auto\"",
        default: Some("\"auto\""),
        sample: "4",
        why: "auto is one a core, at most 4: as memcached, and a loop is seldom the limit",
        help: "Threads that serve clients",
        flag: Some("threads"),
        set: |w, said| said.count_or("auto", 1, THREADS_MAX).map(|n| w.threads = n),
    },
    Knob {
        room: "daemon",
        name: "log",
        unit: "error, warn, info, debug or trace, or a filter such as \"info,sublet_host=debug\"",
        default: Some("\"info\""),
        sample: "\"warn\"",
        why: "info writes some lines at the start and one when the arena gives way; nothing a request",
        help: "What is logged, to stderr",
        flag: Some("log"),
        set: |w, said| said.log_filter().map(|filter| w.log = filter),
    },
    Knob {
        room: "daemon",
        name: "log_format",
        unit: "text or json",
        default: Some("\"text\""),
        sample: "\"json\"",
        why: "people read it first",
        help: "How log lines look",
        flag: Some("log-format"),
        set: |w, said| said.choice(LOG_FORMATS).map(|format| w.log_format = format),
    },
    Knob {
        room: "daemon",
        name: "state",
        unit: "a folder",
        default: None,
        sample: "\"/var/lib/sublet\"",
        why: "/var/lib/sublet for root, else $XDG_STATE_HOME/sublet: where such things belong",
        help: "Where live changes are kept (live.toml)",
        flag: Some("state"),
        set: |w, said| said.path().map(|path| w.state = Some(path)),
    },
    Knob {
        room: "arena",
        name: "ceiling",
        unit: "an amount, or \"none\"",
        default: Some("\"none\""),
        sample: "\"8GiB\"",
        why: "the host's idle memory decides; a second daemon on a host must be given one",
        help: "The most that the arena ever holds, index included",
        flag: Some("ceiling"),
        set: |w, said| said.amount_or("none").map(|amount| w.ceiling = amount),
    },
    Knob {
        room: "arena",
        name: "floor",
        unit: "an amount",
        default: Some("\"16MiB\""),
        sample: "\"256MiB\"",
        why: "with the least that evicts, clients go on storing; whoever owns the memory may have all the rest back",
        help: "What the arena keeps however short the host is",
        flag: Some("floor"),
        set: |w, said| said.amount().map(|amount| w.floor = amount),
    },
    Knob {
        room: "arena",
        name: "reserve",
        unit: "an amount, or \"auto\"",
        default: Some("\"auto\""),
        sample: "\"2GiB\"",
        why: "auto is what a program can take while the daemon reacts",
        help: "Idle memory that is left to the host at all times",
        flag: Some("reserve"),
        set: |w, said| said.amount_or("auto").map(|amount| w.reserve = amount),
    },
    Knob {
        room: "arena",
        name: "release_threshold",
        unit: "an amount",
        default: Some("\"1GiB\""),
        sample: "\"512MiB\"",
        why: "Mortar's (§5.1): up to there picking the coldest is worth its time",
        help: "A release of more than this is fast, one of less is ordered, where nobody says which",
        flag: None,
        set: |w, said| said.amount().map(|amount| w.release_threshold = amount),
    },
    Knob {
        room: "admin",
        name: "socket",
        unit: "a path",
        default: None,
        sample: "\"/run/sublet/admin.sock\"",
        why: "/run/sublet/admin.sock for root, else $XDG_RUNTIME_DIR/sublet/admin.sock or ~/.sublet/admin.sock: for the owner's eyes only",
        help: "The admin socket, $SUBLET_ADMIN unless set; its owner and root may use it",
        flag: Some("admin"),
        set: |w, said| said.socket().map(|path| w.admin_socket = Some(path)),
    },
    Knob {
        room: "admin",
        name: "tcp",
        unit: "tcp:HOST:PORT",
        default: None,
        sample: "\"tcp:10.0.0.1:7070\"",
        why: "the admin interface is worth root; nobody needs it from afar by default",
        help: "The admin interface over TCP; needs tls_cert, tls_key and token_file",
        flag: None,
        set: |w, said| said.listen().map(|place| w.admin_tcp = Some(place)),
    },
    Knob {
        room: "admin",
        name: "tls_cert",
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/admin.crt\"",
        why: "yours",
        help: "Certificate chain of the admin interface over TCP",
        flag: None,
        set: |w, said| said.path().map(|path| w.admin_tls_cert = Some(path)),
    },
    Knob {
        room: "admin",
        name: "tls_key",
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/admin.key\"",
        why: "yours",
        help: "Its private key",
        flag: None,
        set: |w, said| said.path().map(|path| w.admin_tls_key = Some(path)),
    },
    Knob {
        room: "admin",
        name: "token_file",
        unit: "a file",
        default: None,
        sample: "\"/etc/sublet/admin.token\"",
        why: "yours; 16 characters at least",
        help: "File whose first line is the token that callers over TCP must show",
        flag: None,
        set: |w, said| said.path().map(|path| w.admin_token_file = Some(path)),
    },
    Knob {
        room: "policy",
        name: "name",
        unit: "a policy, see `sublet policy list`",
        default: Some("\"weights\""),
        sample: "\"mrc\"",
        why: "nobody is held back while memory is free, and weights decide when it is not",
        help: "Who may hold how much: the Memory Manager's policy",
        flag: Some("policy"),
        set: |w, said| said.text().map(|name| w.policy = name),
    },
    Knob {
        room: "policy",
        name: "knobs",
        unit: "a list of knob=value",
        default: None,
        sample: "[\"p=0.75\"]",
        why: "each policy has its own; `sublet policy show NAME` tells them and their defaults",
        help: "What is set of the policy's knobs",
        flag: None,
        set: |w, said| said.names().map(|knobs| w.policy_knobs = knobs),
    },
    Knob {
        room: "policy",
        name: "interval",
        unit: "seconds, 1 to 3600",
        default: Some("1"),
        sample: "5",
        why: "SmarTmem's and vMCA's (§III): memory demands change in seconds",
        help: "Time from one decision to the next",
        flag: None,
        set: |w, said| said.count(1, 3600).map(|secs| w.policy_interval = secs),
    },
    Knob {
        room: "policy",
        name: "shrink",
        unit: "active or never",
        default: Some("\"active\""),
        sample: "\"never\"",
        why: "a target that is not enforced is a wish; never is what the papers did, for comparison",
        help: "Whether who holds more than its target is brought down to it",
        flag: None,
        set: |w, said| said.choice(SHRINKING).map(|word| w.policy_shrink = word),
    },
    Knob {
        room: "policy",
        name: "log_file",
        unit: "a file",
        default: None,
        sample: "\"/var/log/sublet/decisions.jsonl\"",
        why: "a day of decisions is kept in memory; more is yours to keep",
        help: "Every decision is written down here besides, one JSON object a line",
        flag: None,
        set: |w, said| said.path().map(|path| w.policy_log = Some(path)),
    },
    Knob {
        room: "disk",
        name: "allow",
        unit: "a list of folders",
        default: Some("[\"/var/lib/vm\", \"/var/lib/libvirt/images\"]"),
        sample: "[\"/srv/images\"]",
        why: "where hosts keep the disks of their machines; what a config file names may lie anywhere",
        help: "Folders under which the backing of a disk must lie that is added while the daemon runs; `sublet disk allow` adds one live",
        flag: None,
        set: |w, said| said.folders().map(|folders| w.disk_allow = folders),
    },
    Knob {
        room: "disk",
        name: "dirty_max",
        unit: "an amount from 2MiB to 1TiB",
        default: Some("\"256MiB\""),
        sample: "\"1GiB\"",
        why: "a backing that writes 100 MiB a second has them in three seconds",
        help: "The most bytes of swapped pages, of all disks together, that no backing has yet; counted as held",
        flag: None,
        set: |w, said| {
            said.amount_in(DIRTY_MIN, DIRTY_MAX)
                .map(|amount| w.disk_dirty_max = amount)
        },
    },
    Knob {
        room: "metrics",
        name: "listen",
        unit: "tcp:HOST:PORT or unix:PATH",
        default: None,
        sample: "\"tcp:127.0.0.1:9119\"",
        why: "off, for names of tenants are nobody's business; the admin socket has them at /metrics too",
        help: "Read-only listener for Prometheus at /metrics",
        flag: Some("metrics"),
        set: |w, said| said.listen().map(|place| w.metrics = Some(place)),
    },
];

/// The knobs of one tenant.
pub const TENANT_KNOBS: &[Knob<WrittenTenant>] = &[
    Knob {
        room: "tenants.NAME",
        name: "listen",
        unit: "a list of tcp:HOST:PORT, unix:PATH and ring:PATH",
        default: None,
        sample: "[\"tcp:127.0.0.1:11211\"]",
        why: "a daemon without any tenant in its file serves one called default on 127.0.0.1:11211",
        help: "Where memcached clients (tcp, unix) and programs with a page ring (ring) reach this tenant",
        flag: Some("listen"),
        set: |w, said| said.listeners().map(|places| w.listen = places),
    },
    Knob {
        room: "tenants.NAME",
        name: "added",
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "a tenant that nobody reaches is a mistake more often than not",
        help: "It is there for disks to come, though nobody reaches it: how live.toml keeps that a tenant was added",
        flag: None,
        set: |w, said| said.truth().map(|added| w.added = added),
    },
    Knob {
        room: "tenants.NAME",
        name: "weight",
        unit: "1 to 1000000",
        default: Some("100"),
        sample: "200",
        why: "equal shares, with room to say less",
        help: "Its share of the arena relative to the others'; idle shares may be used by all",
        flag: None,
        set: |w, said| {
            said.count(1, WEIGHT_MAX.into())
                .map(|n| w.weight = Weight(n as u32))
        },
    },
    Knob {
        room: "tenants.NAME",
        name: "floor",
        unit: "an amount, or \"none\"",
        default: Some("\"none\""),
        sample: "\"64MiB\"",
        why: "weights alone decide",
        help: "What the other tenants never take from it",
        flag: None,
        set: |w, said| said.amount_or("none").map(|amount| w.floor = amount),
    },
    Knob {
        room: "tenants.NAME",
        name: "ceiling",
        unit: "an amount, or \"none\"",
        default: Some("\"none\""),
        sample: "\"4GiB\"",
        why: "what others leave idle is there to be used",
        help: "What it never holds more than",
        flag: None,
        set: |w, said| said.amount_or("none").map(|amount| w.ceiling = amount),
    },
    Knob {
        room: "tenants.NAME",
        name: "mode",
        unit: "a file mode in octal",
        default: Some("\"0600\""),
        sample: "\"0660\"",
        why: "a Unix socket is for its owner unless said otherwise",
        help: "Mode of its Unix sockets; that of page rings is 0666 where `allow_uids` says who may come",
        flag: None,
        set: |w, said| said.mode().map(|mode| w.mode = mode),
    },
    Knob {
        room: "tenants.NAME",
        name: "allow_uids",
        unit: "a list of user numbers",
        default: None,
        sample: "[\"1000\"]",
        why: "the daemon's own user alone: a ring is memory that both sides write",
        help: "Users whose programs may open its page rings; nobody else may, not even root",
        flag: None,
        set: |w, said| said.uids().map(|uids| w.allow_uids = uids),
    },
    Knob {
        room: "tenants.NAME",
        name: "spill",
        unit: "a folder",
        default: None,
        sample: "\"/var/lib/sublet/spill/web\"",
        why: "without one its rings make no persistent pools: what must come back needs a disk to go to",
        help: "Where persistent pages go that memory has no place for; on a disk, not on tmpfs",
        flag: None,
        set: |w, said| said.path().map(|path| w.spill = Some(path)),
    },
    Knob {
        room: "tenants.NAME",
        name: "spill_size",
        unit: "an amount",
        default: Some("\"1GiB\""),
        sample: "\"8GiB\"",
        why: "a page that is accepted must always find its place: the file is preallocated",
        help: "The most that one persistent pool holds: bytes of its spill file",
        flag: None,
        set: |w, said| {
            said.amount_in(SPILL_MIN, SPILL_MAX)
                .map(|amount| w.spill_size = amount)
        },
    },
    Knob {
        room: "tenants.NAME",
        name: "spill_total",
        unit: "an amount, or auto",
        default: Some("\"auto\""),
        sample: "\"64GiB\"",
        why: "auto is room for sixteen pools: one program cannot fill the disk; a hundredth of it, and 64 MiB, stay free in any case",
        help: "The most that all spill files of the tenant take together",
        flag: None,
        set: |w, said| said.amount_or("auto").map(|amount| w.spill_total = amount),
    },
    Knob {
        room: "tenants.NAME",
        name: "shared",
        unit: "a UUID",
        default: None,
        sample: "\"6f1c2f0e-9d3b-4f7a-8c55-0123456789ab\"",
        why: "nobody shares pages whom the owner of the host has not allowed to",
        help: "The name of a pool that other tenants share through their rings; this tenant is charged for its pages",
        flag: None,
        set: |w, said| said.shared_name().map(|name| w.shared = Some(name)),
    },
    Knob {
        room: "tenants.NAME",
        name: "sharers",
        unit: "a list of tenants",
        default: None,
        sample: "[\"web\", \"api\"]",
        why: "each of them is named: a pool is shared with nobody by default",
        help: "Which tenants may share the pool that `shared` names",
        flag: None,
        set: |w, said| said.names().map(|names| w.sharers = names),
    },
    Knob {
        room: "tenants.NAME",
        name: "eviction",
        unit: "auto, adaptive-mq, x-s3h, s3fifo, lru, fifo, clock, sieve, lrfu or file",
        default: Some("\"auto\""),
        sample: "\"file\"",
        why: "fewest misses on public block traces (docs/simulator.md): adaptive-mq, or x-s3h where a pool keeps pages that are read, as disks' do; x-s3h, lru and file suit readers of whole files",
        help: "Which of its pages goes when another needs the frame",
        flag: None,
        set: |w, said| said.eviction().map(|kind| w.eviction = kind),
    },
    Knob {
        room: "tenants.NAME",
        name: "item_max",
        unit: "an amount from 1KiB to 1GiB",
        default: Some("\"1MiB\""),
        sample: "\"8MiB\"",
        why: "memcached's (-I)",
        help: "Its largest item",
        flag: None,
        set: |w, said| {
            said.amount_in(ITEM_MIN, ITEM_MAX)
                .map(|amount| w.item_max = amount)
        },
    },
    Knob {
        room: "tenants.NAME",
        name: "connections",
        unit: "1 to 1000000",
        default: Some("1024"),
        sample: "10000",
        why: "memcached's (-c)",
        help: "The most connections at once",
        flag: None,
        set: |w, said| {
            said.count(1, CONNECTIONS_MAX)
                .map(|n| w.connections = n as usize)
        },
    },
    Knob {
        room: "tenants.NAME",
        name: "idle_timeout",
        unit: "seconds, 0 for never",
        default: Some("0"),
        sample: "600",
        why: "memcached's; clients keep pools of idle connections",
        help: "Idle connections are closed after this",
        flag: None,
        set: |w, said| said.seconds().map(|time| w.idle_timeout = time),
    },
    Knob {
        room: "tenants.NAME",
        name: "auth_file",
        unit: "a file of user:password lines",
        default: None,
        sample: "\"/etc/sublet/web.users\"",
        why: "whoever reaches a loopback address or a 0600 socket is trusted",
        help: "Clients must log in as one of these users (memcached's -Y)",
        flag: None,
        set: |w, said| said.path().map(|path| w.auth_file = Some(path)),
    },
    Knob {
        room: "tenants.NAME",
        name: "sasl",
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "memcached's; logging in by text needs no library",
        help: "Its auth_file's users log in by SASL PLAIN over the binary protocol (memcached's -S), not by text",
        flag: None,
        set: |w, said| said.truth().map(|sasl| w.sasl = sasl),
    },
    Knob {
        room: "tenants.NAME",
        name: "users",
        unit: "a list of names",
        default: None,
        sample: "[\"alice\"]",
        why: "who logs in is served as the listener's tenant",
        help: "Who logs in under one of these names, at any tenant's listener, is served as this tenant",
        flag: None,
        set: |w, said| said.names().map(|names| w.users = names),
    },
    Knob {
        room: "tenants.NAME",
        name: "tls_cert",
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/web.crt\"",
        why: "yours",
        help: "Certificate chain; its TCP listeners then speak TLS only",
        flag: None,
        set: |w, said| said.path().map(|path| w.tls_cert = Some(path)),
    },
    Knob {
        room: "tenants.NAME",
        name: "tls_key",
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/web.key\"",
        why: "yours",
        help: "Its private key",
        flag: None,
        set: |w, said| said.path().map(|path| w.tls_key = Some(path)),
    },
    Knob {
        room: "tenants.NAME",
        name: "tls_ca",
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/clients.crt\"",
        why: "yours",
        help: "Clients must show a certificate signed by one of these",
        flag: None,
        set: |w, said| said.path().map(|path| w.tls_ca = Some(path)),
    },
];
