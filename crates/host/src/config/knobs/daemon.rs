//! The knobs of the whole daemon, table by table of the file. A row holds everything about a knob: its written form,
//! how a value is read, what it means, and how that is shown.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sublet_types::{Bytes, ShrinkMode};

use super::knob::KnobArgument;
use super::knob_tables::knob_tables;
use super::words::{amount_or, listed, none, path, path_or_none, word_of};
use crate::config::listen::ListenAddress;

/// The most worker threads: the store's workers without those for chores and release.
const THREADS_MAX: u64 = 64;

/// memcached's own number of threads, and the most that `auto` takes.
const THREADS_AUTO_MAX: usize = 4;

/// Limits for the pages that no backing has yet. The least is a block of them.
const DIRTY_MIN: Bytes = Bytes::mib(2);
const DIRTY_MAX: Bytes = Bytes::gib(1024);

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

const LOG_FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

/// Whether tenants are brought down to their targets.
const SHRINKING: [(&str, ShrinkMode); 2] =
    [("active", ShrinkMode::Active), ("never", ShrinkMode::Never)];

/// The admin interface over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTcp {
    /// Host and port.
    pub address: (String, u16),
    /// Certificate chain, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// File with the token.
    pub token_file: PathBuf,
}

fn threads_auto() -> usize {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(THREADS_AUTO_MAX)
}

/// Where the state of such programs belongs.
fn state_folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/var/lib/sublet".into());
    }
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    let state = env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    state.or_else(home).map(|folder| folder.join("sublet"))
}

/// All of it or nothing: what lacks is a fault.
fn admin_tcp(w: &WrittenAdmin) -> Option<AdminTcp> {
    let ListenAddress::Tcp(host, port) = w.tcp.clone()? else {
        return None;
    };
    Some(AdminTcp {
        address: (host, port),
        cert: w.tls_cert.clone()?,
        key: w.tls_key.clone()?,
        token_file: w.token_file.clone()?,
    })
}

knob_tables! {
    /// Everything that was set for the daemon itself, table by table, over the defaults of the table.
    written: WrittenTables,
    /// The knobs of the daemon itself.
    knobs: DAEMON_KNOBS,
    /// The names of the tables.
    names: TABLES,
    /// What the daemon is.
    daemon: WrittenDaemon => DaemonConfig {
        threads: Option<u64> {
            unit: "1 to 64, or \"auto\"",
            default: Some("\"auto\""),
            sample: "4",
            why: "auto is one thread per core, at most 4, as in memcached; an event loop is seldom the limit",
            help: "Threads that serve clients",
            flag: Some("threads"),
            takes: KnobArgument::Value,
            set: |w, said| said.count_or("auto", 1, THREADS_MAX).map(|n| w.threads = n),
            means: {
                /// Worker threads.
                threads: usize = |w| w.threads.map_or_else(threads_auto, |n| n as usize),
            },
            show: |daemon| Some(daemon.threads.to_string()),
        }
        log: String {
            unit: "error, warn, info, debug or trace, or a filter such as \"info,sublet_host=debug\"",
            default: Some("\"info\""),
            sample: "\"warn\"",
            why: "info writes some lines at the start and one line when the arena gives way; no request writes a line",
            help: "Which lines the daemon logs to stderr",
            flag: Some("log"),
            takes: KnobArgument::Value,
            set: |w, said| said.log_filter().map(|filter| w.log = filter),
            means: {
                /// What is logged.
                log: String = |w| w.log.clone(),
            },
            show: |daemon| Some(daemon.log.clone()),
        }
        log_format: LogFormat {
            unit: "text or json",
            default: Some("\"text\""),
            sample: "\"json\"",
            why: "people read the log first",
            help: "Format of the log lines",
            flag: Some("log-format"),
            takes: KnobArgument::Value,
            set: |w, said| said.named_choice(&LOG_FORMATS).map(|format| w.log_format = format),
            means: {
                /// How.
                log_format: LogFormat = |w| w.log_format,
            },
            show: |daemon| Some(word_of(&LOG_FORMATS, daemon.log_format)),
        }
        state: Option<PathBuf> {
            unit: "a folder",
            default: None,
            sample: "\"/var/lib/sublet\"",
            why: "/var/lib/sublet for root, else $XDG_STATE_HOME/sublet: the usual places for a program's state",
            help: "Where the daemon keeps live changes (live.toml)",
            flag: Some("state"),
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.state = Some(path)),
            means: {
                /// Where live changes are kept. `None` if there is no home for them.
                state: Option<PathBuf> = |w| w.state.clone().or_else(state_folder),
            },
            show: |daemon| Some(path_or_none(daemon.state.as_deref())),
        }
    }
    /// How large the arena may be.
    arena: WrittenArena => ArenaConfig {
        ceiling: Option<Bytes> {
            unit: "an amount, or \"none\"",
            default: Some("\"none\""),
            sample: "\"8GiB\"",
            why: "the host's idle memory decides; a second daemon on the same host needs a ceiling",
            help: "The most memory that the arena ever holds, its index included",
            flag: Some("ceiling"),
            takes: KnobArgument::Value,
            set: |w, said| said.amount_or("none").map(|amount| w.ceiling = amount),
            means: {
                /// The most that the arena ever holds.
                ceiling: Option<Bytes> = |w| w.ceiling,
            },
            show: |arena| Some(amount_or("none", arena.ceiling)),
        }
        floor: Bytes {
            unit: "an amount",
            default: Some("\"16MiB\""),
            sample: "\"256MiB\"",
            why: "clients can still store with the smallest arena that evicts; the host can have all the rest back",
            help: "The memory that the arena keeps however short the host is",
            flag: Some("floor"),
            takes: KnobArgument::Value,
            set: |w, said| said.amount().map(|amount| w.floor = amount),
            means: {
                /// What the arena keeps however short the host is.
                floor: Bytes = |w| w.floor,
            },
            show: |arena| Some(arena.floor.to_string()),
        }
        reserve: Option<Bytes> {
            unit: "an amount, or \"auto\"",
            default: Some("\"auto\""),
            sample: "\"2GiB\"",
            why: "auto is what a program can take while the daemon reacts",
            help: "Idle memory that the daemon leaves to the host at all times",
            flag: Some("reserve"),
            takes: KnobArgument::Value,
            set: |w, said| said.amount_or("auto").map(|amount| w.reserve = amount),
            means: {
                /// Idle memory that is left to the host. `None` means the headroom's own figure.
                reserve: Option<Bytes> = |w| w.reserve,
            },
            show: |arena| Some(amount_or("auto", arena.reserve)),
        }
        release_threshold: Bytes {
            unit: "an amount",
            default: Some("\"1GiB\""),
            sample: "\"512MiB\"",
            why: "Mortar's value (§5.1): up to this amount, picking the coldest is worth its time",
            help: "A release of this much or more is fast and a smaller one is ordered, if the caller does not say which",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.amount().map(|amount| w.release_threshold = amount),
            means: {
                /// Releases of this much or more are fast if the caller does not say which.
                release_threshold: Bytes = |w| w.release_threshold,
            },
            show: |arena| Some(arena.release_threshold.to_string()),
        }
    }
    /// Where the admin interface listens.
    admin: WrittenAdmin => AdminConfig {
        socket: Option<PathBuf> {
            unit: "a path",
            default: None,
            sample: "\"/run/sublet/admin.sock\"",
            why: "/run/sublet/admin.sock for root, else $XDG_RUNTIME_DIR/sublet/admin.sock or ~/.sublet/admin.sock: only the owner can read these folders",
            help: "The admin socket; without it $SUBLET_ADMIN is used. Only its owner and root may use the socket",
            flag: Some("admin"),
            takes: KnobArgument::Path,
            set: |w, said| said.socket().map(|path| w.socket = Some(path)),
            means: {
                /// The admin socket.
                socket: PathBuf = |w| w.socket.clone().unwrap_or_else(sublet_client::default_socket),
            },
            show: |admin| Some(path(&admin.socket)),
        }
        tcp: Option<ListenAddress> {
            unit: "tcp:HOST:PORT",
            default: None,
            sample: "\"tcp:10.0.0.1:7070\"",
            why: "the admin interface is worth as much as root; by default nobody needs it from afar",
            help: "The admin interface over TCP; it needs tls_cert, tls_key and token_file",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.listen().map(|place| w.tcp = Some(place)),
            means: {
                /// The admin interface over TCP.
                tcp: Option<AdminTcp> = admin_tcp,
            },
            show: |admin| admin.tcp.as_ref().map(|tcp| ListenAddress::Tcp(tcp.address.0.clone(), tcp.address.1).to_string()),
        }
        tls_cert: Option<PathBuf> {
            unit: "a PEM file",
            default: None,
            sample: "\"/etc/sublet/admin.crt\"",
            why: "yours",
            help: "Certificate chain of the admin interface over TCP",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.tls_cert = Some(path)),
            show: |admin| admin.tcp.as_ref().map(|tcp| path(&tcp.cert)),
        }
        tls_key: Option<PathBuf> {
            unit: "a PEM file",
            default: None,
            sample: "\"/etc/sublet/admin.key\"",
            why: "yours",
            help: "Private key of the admin interface over TCP",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.tls_key = Some(path)),
            show: |admin| admin.tcp.as_ref().map(|tcp| path(&tcp.key)),
        }
        token_file: Option<PathBuf> {
            unit: "a file",
            default: None,
            sample: "\"/etc/sublet/admin.token\"",
            why: "yours; the token has at least 16 characters",
            help: "File whose first line is the token that callers over TCP must show",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.token_file = Some(path)),
            show: |admin| admin.tcp.as_ref().map(|tcp| path(&tcp.token_file)),
        }
    }
    /// The policy: which tenant may hold how much.
    policy: WrittenPolicy => PolicyConfig {
        name: String {
            unit: "a policy, see `sublet policy list`",
            default: Some("\"weights\""),
            sample: "\"mrc\"",
            why: "it holds nobody back while memory is free; weights decide when memory is short",
            help: "The Memory Manager's policy: it decides which tenant may hold how much",
            flag: Some("policy"),
            takes: KnobArgument::Value,
            set: |w, said| said.text().map(|name| w.name = name),
            means: {
                /// The policy's name.
                name: String = |w| w.name.clone(),
            },
            show: |policy| Some(policy.name.clone()),
        }
        knobs: Vec<String> {
            unit: "a list of knob=value",
            default: None,
            sample: "[\"p=0.75\"]",
            why: "each policy has its own knobs; `sublet policy show NAME` shows them and their defaults",
            help: "Settings of the policy's own knobs",
            flag: None,
            takes: KnobArgument::Values,
            set: |w, said| said.names().map(|knobs| w.knobs = knobs),
            means: {
                /// Its knobs, as `knob=value`.
                knobs: Vec<String> = |w| w.knobs.clone(),
            },
            show: |policy| Some(policy.knobs.join(", ")),
        }
        interval: u64 {
            unit: "seconds, 1 to 3600",
            default: Some("1"),
            sample: "5",
            why: "the value of SmarTmem and vMCA (§III): memory demands change within seconds",
            help: "Time from one decision to the next",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.count(1, 3600).map(|secs| w.interval = secs),
            means: {
                /// Time from one decision to the next.
                interval: Duration = |w| Duration::from_secs(w.interval),
            },
            show: |policy| Some(policy.interval.as_secs().to_string()),
        }
        shrink: ShrinkMode {
            unit: "active or never",
            default: Some("\"active\""),
            sample: "\"never\"",
            why: "a target that is not enforced has no effect; never is what the papers did, for comparison",
            help: "Whether the daemon brings a tenant down to its target when the tenant holds more",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.named_choice(&SHRINKING).map(|shrinking| w.shrink = shrinking),
            means: {
                /// What happens to a tenant that holds more than its target.
                shrinking: ShrinkMode = |w| w.shrink,
            },
            show: |policy| Some(word_of(&SHRINKING, policy.shrinking)),
        }
        log_file: Option<PathBuf> {
            unit: "a file",
            default: None,
            sample: "\"/var/log/sublet/decisions.jsonl\"",
            why: "the daemon keeps a day of decisions in memory; the file keeps more",
            help: "File to which the daemon also writes every decision, one JSON object per line",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.log_file = Some(path)),
            means: {
                /// The file to which decisions are also written.
                log_file: Option<PathBuf> = |w| w.log_file.clone(),
            },
            show: |policy| Some(path_or_none(policy.log_file.as_deref())),
        }
    }
    /// What all disks share.
    disk: WrittenDiskTable => DiskConfig {
        allow: Vec<PathBuf> {
            unit: "a list of folders",
            default: Some("[\"/var/lib/vm\", \"/var/lib/libvirt/images\"]"),
            sample: "[\"/srv/images\"]",
            why: "the folders where hosts keep the disks of their machines; a backing that a config file names may lie anywhere",
            help: "Folders for the backings of disks that are added while the daemon runs; `sublet disk allow` adds a folder live",
            flag: None,
            takes: KnobArgument::Values,
            set: |w, said| said.folders().map(|folders| w.allow = folders),
            means: {
                /// Where backings may lie of disks that are added while the daemon runs.
                allow: Vec<PathBuf> = |w| w.allow.clone(),
            },
            show: |disk| Some(listed(disk.allow.iter().map(|folder| folder.display()))),
        }
        dirty_max: Bytes {
            unit: "an amount from 2MiB to 1TiB",
            default: Some("\"256MiB\""),
            sample: "\"1GiB\"",
            why: "a backing that writes 100 MiB per second takes them in three seconds",
            help: "The most bytes of swapped pages that no backing has yet, of all disks together; they count as held",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| {
                said.amount_in(DIRTY_MIN, DIRTY_MAX)
                    .map(|amount| w.dirty_max = amount)
            },
            means: {
                /// The most bytes of pages that no backing has yet.
                dirty_max: Bytes = |w| w.dirty_max,
            },
            show: |disk| Some(disk.dirty_max.to_string()),
        }
    }
    /// Where metrics are read.
    metrics: WrittenMetrics => MetricsConfig {
        listen: Option<ListenAddress> {
            unit: "tcp:HOST:PORT or unix:PATH",
            default: None,
            sample: "\"tcp:127.0.0.1:9119\"",
            why: "off, because the names of tenants are private; the admin socket serves /metrics too",
            help: "Read-only listener for Prometheus at /metrics",
            flag: Some("metrics"),
            takes: KnobArgument::Value,
            set: |w, said| said.listen().map(|place| w.listen = Some(place)),
            means: {
                /// Where Prometheus reads.
                listen: Option<ListenAddress> = |w| w.listen.clone(),
            },
            show: |metrics| Some(metrics.listen.as_ref().map_or_else(none, ListenAddress::to_string)),
        }
    }
}
