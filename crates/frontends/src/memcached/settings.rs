//! The settings of memcached: everything on which a listener's behaviour depends.

use std::path::PathBuf;
use std::time::Duration;

use crate::listeners::SILENCE_MAX;
pub use crate::listeners::{ClientCertificateDemand, TlsSettings, TlsVersion};

/// The protocol that a connection may speak (`-B`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The first byte decides.
    Auto,
    /// Text and meta only.
    Ascii,
    /// Binary only.
    Binary,
}

/// The state of the crawler in `stats settings`. Expired items are found without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crawler {
    On,
    Off,
}

/// Settings of one group of listeners that serve one tenant.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest item including its head, in bytes (`-I`).
    pub item_max: u64,
    /// Whether a full store evicts (off with `-M`).
    pub evictions: bool,
    /// Whether cas uniques are kept (off with `-C`).
    pub cas: bool,
    /// Whether `flush_all` is allowed (off with `-F`).
    pub flush: bool,
    /// Whether `shutdown` is allowed (on with `-A`).
    pub shutdown: bool,
    /// Whether `stats cachedump`, `metadump` and `stats detail` are allowed (off with `-X`).
    pub dump: bool,
    /// Whether `watch` is allowed (off with `-W`).
    pub watch: bool,
    /// Whether item sizes are tracked (`-o track_sizes`).
    pub track_sizes: bool,
    /// Whether listings of all items are allowed from the start (off with `-o no_lru_crawler`).
    pub crawler: bool,
    /// Whether `stats detail` collects from the start (`-D`).
    pub detail: bool,
    /// The delimiter between a key's prefix and its rest (`-D`).
    pub prefix_delimiter: u8,
    /// The protocol that clients may speak (`-B`).
    pub protocol: Protocol,
    /// Whether SASL PLAIN is required on the binary protocol (`-S`).
    pub sasl: bool,
    /// User and password file of the text protocol's authentication (`-Y`).
    pub auth_file: Option<PathBuf>,
    /// The most connections at once (`-c`).
    pub connections_max: usize,
    /// How long a silent peer keeps its permit from others while permits are scarce.
    pub silence_max: Duration,
    /// Commands of one connection before other connections get a turn (`-R`).
    pub requests_per_turn: usize,
    /// Worker threads (`-t`).
    pub threads: usize,
    /// TCP port, 0 for none (`-p`).
    pub port: u16,
    /// Addresses to listen on, as they were written (`-l`).
    pub inter: Option<String>,
    /// Unix socket (`-s`).
    pub unix_socket: Option<PathBuf>,
    /// Unix socket's mode (`-a`).
    pub unix_mode: u32,
    /// The backlog of `listen` (`-b`).
    pub backlog: u32,
    /// Idle connections are closed after this time; never if `None`.
    pub idle_timeout: Option<Duration>,
    /// The level of the log: 1 for `-v`, 2 for `-vv`.
    pub verbosity: u8,
    /// The settings of TLS; `None` if the listener does not speak it.
    pub tls: Option<TlsSettings>,
    /// The value of `ssl_wbuf_size` in `stats settings`, in bytes. It has no other meaning here.
    pub tls_write_buffer: u64,
}

impl Default for Settings {
    /// Returns memcached's own defaults.
    fn default() -> Settings {
        Settings {
            item_max: 1 << 20,
            evictions: true,
            cas: true,
            flush: true,
            shutdown: false,
            dump: true,
            watch: true,
            track_sizes: false,
            crawler: true,
            detail: false,
            prefix_delimiter: b':',
            protocol: Protocol::Auto,
            sasl: false,
            auth_file: None,
            connections_max: 1024,
            silence_max: SILENCE_MAX,
            requests_per_turn: 20,
            threads: 4,
            port: 11211,
            inter: None,
            unix_socket: None,
            unix_mode: 0o700,
            backlog: 1024,
            idle_timeout: None,
            verbosity: 0,
            tls: None,
            tls_write_buffer: 16 << 10,
        }
    }
}
