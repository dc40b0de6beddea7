//! The knobs of one tenant. A row holds everything about a knob: its written form, how a value is read, what it means,
//! and how that is shown.

use std::path::PathBuf;
use std::time::Duration;

use sublet_store::Borrowing;
use sublet_types::{Bytes, EvictionKind, SharedName, TenantName, TenantSettings, Weight};

use super::knob::{Knob, KnobArgument};
use super::words::{amount_or, listed, path, some_of};
use crate::config::bounds::WEIGHT_MAX;
use crate::config::listen::ListenAddress;

/// The most connections that a tenant may be allowed.
const CONNECTIONS_MAX: u64 = 1_000_000;

/// memcached's own limits for `-I`.
const ITEM_MIN: Bytes = Bytes::kib(1);
const ITEM_MAX: Bytes = Bytes::gib(1);

/// A spill file holds at least a block, and at most what a slot number can name.
const SPILL_MIN: Bytes = Bytes::mib(2);
const SPILL_MAX: Bytes = Bytes::gib(4096);

/// A pool that tenants share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPoolConfig {
    /// Its name.
    pub name: SharedName,
    /// The tenants who may share it.
    pub sharers: Vec<String>,
}

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// The authorities that sign the clients' certificates, PEM.
    pub ca: Option<PathBuf>,
}

/// Makes three things from the rows: what was written of a tenant, the table of its knobs, and what it means. A row
/// without `means` is a part of what another row means, or is nothing that a tenant has.
macro_rules! tenant_knobs {
    ($($name:ident: $said:ty {
        unit: $unit:expr,
        default: $default:expr,
        sample: $sample:expr,
        why: $why:expr,
        help: $help:expr,
        flag: $flag:expr,
        takes: $takes:expr,
        set: $set:expr,
        $(means: { $(#[$doc:meta])* $field:ident: $meant:ty = $mean:expr, },)?
        show: $show:expr,
    })*) => {
        /// Everything that was set for one tenant, over the defaults of the table.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct WrittenTenant {
            $(pub(in crate::config) $name: $said,)*
        }

        /// The knobs of one tenant.
        pub const TENANT_KNOBS: &[Knob<WrittenTenant>] = &[$(Knob {
            table: "tenants.NAME",
            name: stringify!($name),
            unit: $unit,
            default: $default,
            sample: $sample,
            why: $why,
            help: $help,
            flag: $flag,
            takes: $takes,
            set: $set,
        },)*];

        /// One tenant.
        #[derive(Clone, Debug, PartialEq)]
        pub struct TenantConfig {
            $($($(#[$doc])* pub $field: $meant,)?)*
        }

        impl WrittenTenant {
            pub(in crate::config) fn meaning(&self, name: &TenantName) -> TenantConfig {
                TenantConfig {
                    $($($field: {
                        let mean: fn(&WrittenTenant, &TenantName) -> $meant = $mean;
                        mean(self, name)
                    },)?)*
                }
            }
        }

        /// How a setting is shown, if it is shown.
        const SHOWN: &[(&str, fn(&TenantConfig) -> Option<String>)] = &[$((stringify!($name), $show),)*];
    };
}

impl TenantConfig {
    /// The keys and values, as a file would say them.
    pub(in crate::config) fn shown(&self) -> impl Iterator<Item = (String, String)> {
        let name = &self.settings.name;
        let shown = SHOWN
            .iter()
            .filter_map(|(key, show)| Some((key, show(self)?)));
        shown.map(move |(key, said)| (format!("tenants.{name}.{key}"), said))
    }
}

fn granted(w: &WrittenTenant, name: &TenantName) -> TenantSettings {
    TenantSettings {
        name: name.clone(),
        weight: w.weight,
        floor: w.floor,
        ceiling: w.ceiling,
    }
}

fn shared(w: &WrittenTenant, _: &TenantName) -> Option<SharedPoolConfig> {
    let sharers = w.sharers.clone();
    w.shared.map(|name| SharedPoolConfig { name, sharers })
}

fn tls(w: &WrittenTenant, _: &TenantName) -> Option<TlsFiles> {
    let both = w.tls_cert.clone().zip(w.tls_key.clone());
    both.map(|(cert, key)| TlsFiles {
        cert,
        key,
        ca: w.tls_ca.clone(),
    })
}

tenant_knobs! {
    listen: Vec<ListenAddress> {
        unit: "a list of tcp:HOST:PORT, unix:PATH and ring:PATH",
        default: None,
        sample: "[\"tcp:127.0.0.1:11211\"]",
        why: "if the file has no tenant, the daemon serves one called default on 127.0.0.1:11211",
        help: "Where memcached clients (tcp, unix) and programs with a page ring (ring) reach this tenant",
        flag: Some("listen"),
        takes: KnobArgument::Values,
        set: |w, said| said.listeners().map(|places| w.listen = places),
        means: {
            /// Where the tenant is served.
            listen: Vec<ListenAddress> = |w, _| w.listen.clone(),
        },
        show: |tenant| Some(listed(&tenant.listen)),
    }
    added: bool {
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "a tenant that nobody can reach is usually a mistake",
        help: "The tenant exists for disks to come, though it has no listener; live.toml uses this to keep an added tenant",
        flag: None,
        takes: KnobArgument::Bool,
        set: |w, said| said.boolean().map(|added| w.added = added),
        show: |_| None,
    }
    weight: Weight {
        unit: "1 to 1000000",
        default: Some("100"),
        sample: "200",
        why: "equal shares, with room for smaller weights",
        help: "The tenant's share of the arena relative to the other tenants; all tenants may use idle shares",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| {
            said.count(1, WEIGHT_MAX.into())
                .map(|n| w.weight = Weight(n as u32))
        },
        means: {
            /// What the tenant is granted.
            settings: TenantSettings = granted,
        },
        show: |tenant| Some(tenant.settings.weight.0.to_string()),
    }
    floor: Option<Bytes> {
        unit: "an amount, or \"none\"",
        default: Some("\"none\""),
        sample: "\"64MiB\"",
        why: "weights alone decide",
        help: "The memory that other tenants never take from this tenant",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| said.amount_or("none").map(|amount| w.floor = amount),
        show: |tenant| Some(amount_or("none", tenant.settings.floor)),
    }
    ceiling: Option<Bytes> {
        unit: "an amount, or \"none\"",
        default: Some("\"none\""),
        sample: "\"4GiB\"",
        why: "memory that others leave idle is there to be used",
        help: "The most memory that the tenant ever holds",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| said.amount_or("none").map(|amount| w.ceiling = amount),
        show: |tenant| Some(amount_or("none", tenant.settings.ceiling)),
    }
    mode: u32 {
        unit: "a file mode in octal",
        default: Some("\"0600\""),
        sample: "\"0660\"",
        why: "a Unix socket is for its owner unless you say otherwise",
        help: "Mode of the tenant's Unix sockets; sockets of page rings have mode 0666 if `allow_uids` is set",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| said.mode().map(|mode| w.mode = mode),
        means: {
            /// Mode of its Unix sockets.
            mode: u32 = |w, _| w.mode,
        },
        show: |tenant| Some(format!("{:04o}", tenant.mode)),
    }
    allow_uids: Vec<u32> {
        unit: "a list of user numbers",
        default: None,
        sample: "[\"1000\"]",
        why: "the daemon's own user alone: both sides write to a ring's memory",
        help: "Users whose programs may open the tenant's page rings; no other user may, not even root",
        flag: None,
        takes: KnobArgument::Values,
        set: |w, said| said.uids().map(|uids| w.allow_uids = uids),
        means: {
            /// Users who may open its page rings; the daemon's own alone if there are none.
            allow_uids: Vec<u32> = |w, _| w.allow_uids.clone(),
        },
        show: |tenant| some_of(&tenant.allow_uids),
    }
    spill: Option<PathBuf> {
        unit: "a folder",
        default: None,
        sample: "\"/var/lib/sublet/spill/web\"",
        why: "without a folder the tenant's rings make no persistent pools, because pages that must come back need a disk",
        help: "Folder for persistent pages that do not fit into memory; it lies on a disk, not on tmpfs",
        flag: None,
        takes: KnobArgument::Path,
        set: |w, said| said.path().map(|path| w.spill = Some(path)),
        means: {
            /// Where persistent pages go that do not fit into memory.
            spill: Option<PathBuf> = |w, _| w.spill.clone(),
        },
        show: |tenant| tenant.spill.as_deref().map(path),
    }
    spill_size: Bytes {
        unit: "an amount",
        default: Some("\"1GiB\""),
        sample: "\"8GiB\"",
        why: "an accepted page must always find its place, so the daemon preallocates the file",
        help: "The most that one persistent pool holds: the size of its spill file",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| {
            said.amount_in(SPILL_MIN, SPILL_MAX)
                .map(|amount| w.spill_size = amount)
        },
        means: {
            /// Bytes of a spill file.
            spill_size: Bytes = |w, _| w.spill_size,
        },
        show: |tenant| tenant.spill.as_ref().map(|_| tenant.spill_size.to_string()),
    }
    spill_total: Option<Bytes> {
        unit: "an amount, or auto",
        default: Some("\"auto\""),
        sample: "\"64GiB\"",
        why: "auto is room for sixteen pools, so that one program cannot fill the disk; a hundredth of the disk, and 64 MiB, stay free in any case",
        help: "The most that all spill files of the tenant take together",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| said.amount_or("auto").map(|amount| w.spill_total = amount),
        means: {
            /// Bytes of all its spill files together. `None` means as many as some pools have.
            spill_total: Option<Bytes> = |w, _| w.spill_total,
        },
        show: |tenant| tenant.spill.as_ref().map(|_| amount_or("auto", tenant.spill_total)),
    }
    shared: Option<SharedName> {
        unit: "a UUID",
        default: None,
        sample: "\"6f1c2f0e-9d3b-4f7a-8c55-0123456789ab\"",
        why: "tenants share pages only if the owner of the host allows it",
        help: "The name of a pool that other tenants share through their rings; this tenant is charged for its pages",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| said.shared_name().map(|name| w.shared = Some(name)),
        means: {
            /// A pool that others share and that this tenant is charged for.
            shared: Option<SharedPoolConfig> = shared,
        },
        show: |tenant| tenant.shared.as_ref().map(|shared| shared.name.to_string()),
    }
    sharers: Vec<String> {
        unit: "a list of tenants",
        default: None,
        sample: "[\"web\", \"api\"]",
        why: "you name each of them; by default a pool is shared with nobody",
        help: "Tenants that may share the pool that `shared` names",
        flag: None,
        takes: KnobArgument::Values,
        set: |w, said| said.names().map(|names| w.sharers = names),
        show: |tenant| some_of(&tenant.shared.as_ref()?.sharers),
    }
    eviction: EvictionKind {
        unit: "auto, adaptive-mq, x-s3h, s3fifo, lru, lrfu or file",
        default: Some("\"auto\""),
        sample: "\"file\"",
        why: "auto is adaptive-mq where a read removes the page: it misses least on public block traces (docs/simulator/results.md). auto is x-s3h where a pool keeps pages that are read, as disks' pools do; for a tenant of disks alone s3fifo misses less. x-s3h, lru and file suit readers of whole files",
        help: "How the tenant chooses the page to evict when another page needs the frame",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| said.eviction().map(|kind| w.eviction = kind),
        means: {
            /// How it chooses the page to evict.
            eviction: EvictionKind = |w, _| w.eviction,
        },
        show: |tenant| Some(tenant.eviction.to_string()),
    }
    borrow: bool {
        unit: "true or false",
        default: Some("true"),
        sample: "false",
        why: "only the host's `borrow.max` decides whether anything is borrowed; pages are sealed before they leave",
        help: "Evicted pages of the tenant's rings, disks and swap may lie in memory that the host borrows from peers",
        flag: None,
        takes: KnobArgument::Bool,
        set: |w, said| said.boolean().map(|borrow| w.borrow = borrow),
        means: {
            /// Whether its pages may go to lenders.
            borrowing: Borrowing = |w, _| w.borrow.into(),
        },
        show: |tenant| Some(tenant.borrowing.is_allowed().to_string()),
    }
    item_max: Bytes {
        unit: "an amount from 1KiB to 1GiB",
        default: Some("\"1MiB\""),
        sample: "\"8MiB\"",
        why: "memcached's value (-I)",
        help: "Size of the tenant's largest item",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| {
            said.amount_in(ITEM_MIN, ITEM_MAX)
                .map(|amount| w.item_max = amount)
        },
        means: {
            /// Its largest item.
            item_max: Bytes = |w, _| w.item_max,
        },
        show: |tenant| Some(tenant.item_max.to_string()),
    }
    connections: usize {
        unit: "1 to 1000000",
        default: Some("1024"),
        sample: "10000",
        why: "memcached's value (-c)",
        help: "The most connections at once",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| {
            said.count(1, CONNECTIONS_MAX)
                .map(|n| w.connections = n as usize)
        },
        means: {
            /// The most connections at once.
            connections: usize = |w, _| w.connections,
        },
        show: |tenant| Some(tenant.connections.to_string()),
    }
    idle_timeout: Option<Duration> {
        unit: "seconds, 0 for never",
        default: Some("0"),
        sample: "600",
        why: "memcached's value; clients keep pools of idle connections",
        help: "The daemon closes a connection that is idle for this long",
        flag: None,
        takes: KnobArgument::Value,
        set: |w, said| said.seconds().map(|time| w.idle_timeout = time),
        means: {
            /// When idle connections are closed.
            idle_timeout: Option<Duration> = |w, _| w.idle_timeout,
        },
        show: |tenant| Some(tenant.idle_timeout.map_or(0, |time| time.as_secs()).to_string()),
    }
    auth_file: Option<PathBuf> {
        unit: "a file of user:password lines",
        default: None,
        sample: "\"/etc/sublet/web.users\"",
        why: "the daemon trusts clients that reach a loopback address or a 0600 socket",
        help: "Clients must log in as one of the users in this file (memcached's -Y)",
        flag: None,
        takes: KnobArgument::Path,
        set: |w, said| said.path().map(|path| w.auth_file = Some(path)),
        means: {
            /// Who may log in.
            auth_file: Option<PathBuf> = |w, _| w.auth_file.clone(),
        },
        show: |tenant| tenant.auth_file.as_deref().map(path),
    }
    sasl: bool {
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "memcached's value; a login by text needs no library",
        help: "Users of auth_file log in by SASL PLAIN over the binary protocol (memcached's -S), not by text",
        flag: None,
        takes: KnobArgument::Bool,
        set: |w, said| said.boolean().map(|sasl| w.sasl = sasl),
        means: {
            /// They log in by SASL.
            sasl: bool = |w, _| w.sasl,
        },
        show: |tenant| tenant.auth_file.as_ref().map(|_| tenant.sasl.to_string()),
    }
    users: Vec<String> {
        unit: "a list of names",
        default: None,
        sample: "[\"alice\"]",
        why: "the daemon serves a client that logs in as the listener's tenant",
        help: "The daemon serves a client as this tenant if the client logs in under one of these names, at any tenant's listener",
        flag: None,
        takes: KnobArgument::Values,
        set: |w, said| said.names().map(|names| w.users = names),
        means: {
            /// The names under which clients log in to be served as this tenant, at any listener.
            users: Vec<String> = |w, _| w.users.clone(),
        },
        show: |tenant| some_of(&tenant.users),
    }
    tls_cert: Option<PathBuf> {
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/web.crt\"",
        why: "yours",
        help: "Certificate chain; with it the tenant's TCP listeners speak TLS only",
        flag: None,
        takes: KnobArgument::Path,
        set: |w, said| said.path().map(|path| w.tls_cert = Some(path)),
        means: {
            /// TLS on its TCP listeners.
            tls: Option<TlsFiles> = tls,
        },
        show: |tenant| tenant.tls.as_ref().map(|tls| path(&tls.cert)),
    }
    tls_key: Option<PathBuf> {
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/web.key\"",
        why: "yours",
        help: "Private key of that certificate",
        flag: None,
        takes: KnobArgument::Path,
        set: |w, said| said.path().map(|path| w.tls_key = Some(path)),
        show: |tenant| tenant.tls.as_ref().map(|tls| path(&tls.key)),
    }
    tls_ca: Option<PathBuf> {
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/clients.crt\"",
        why: "yours",
        help: "Clients must show a certificate that one of these has signed",
        flag: None,
        takes: KnobArgument::Path,
        set: |w, said| said.path().map(|path| w.tls_ca = Some(path)),
        show: |tenant| tenant.tls.as_ref()?.ca.as_deref().map(path),
    }
}
