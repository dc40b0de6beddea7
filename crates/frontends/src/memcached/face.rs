//! What all connections of one group of listeners share.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use sublet_types::{Bytes, Second, TenantId};

use super::connections::Connections;
use super::passwords::Passwords;
use super::settings::Settings;
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

/// User and system time of the process, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user_micros: u64,
    /// In the kernel.
    pub system_micros: u64,
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
    /// This face does not speak TLS.
    #[error("TLS is not enabled")]
    NoTls,
    /// The files could not be used; the old certificates stay.
    #[error("{0}")]
    Unusable(&'static str),
}

macro_rules! gauges {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Figures of the face that any thread moves.
        #[derive(Debug, Default)]
        pub struct Figures {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }
    };
}

gauges! {
    /// Connections that are open.
    curr_connections,
    /// Connections that were opened.
    total_connections,
    /// Connections refused because there were too many.
    rejected_connections,
    /// Times that accepting was stopped.
    listen_disabled,
    /// Microseconds in which accepting was stopped.
    listen_disabled_micros,
    /// Connections closed because they were idle.
    idle_kicks,
    /// Turns given up after too many requests in a row.
    conn_yields,
    /// TLS handshakes that failed.
    ssl_handshake_errors,
    /// TLS records that were wrong.
    ssl_proto_errors,
    /// TLS sessions made.
    ssl_new_sessions,
    /// Unix time at which the certificates were read.
    ssl_certs_read_unix,
}

/// What all connections of one group of listeners share.
pub struct Face {
    /// How the listeners behave.
    pub settings: Settings,
    /// The process around.
    pub host: Box<dyn Host>,
    /// Figures that any thread moves.
    pub figures: Figures,
    /// Who is connected.
    pub connections: Connections,
    passwords: RwLock<Passwords>,
    verbosity: AtomicU8,
    flushes: Mutex<Vec<Second>>,
    gathering: AtomicUsize,
}

impl Face {
    /// The face of a group of listeners that behave by `settings`.
    pub fn new(settings: Settings, host: Box<dyn Host>, passwords: Passwords) -> Face {
        Face {
            connections: Connections::default(),
            figures: Figures::default(),
            verbosity: AtomicU8::new(settings.verbosity),
            flushes: Mutex::default(),
            gathering: AtomicUsize::new(0),
            passwords: RwLock::new(passwords),
            settings,
            host,
        }
    }

    /// The chores of a second: flushes that were put off. Call it once a second.
    pub fn tick(&self, tenancy: &Tenancy) {
        let _ = (tenancy, &self.flushes, &self.gathering);
    }

    /// Who may come in from now on (a password file was read anew).
    pub fn set_passwords(&self, passwords: Passwords) {
        *self.passwords.write() = passwords;
    }

    /// How much is said in the log now.
    pub fn verbosity(&self) -> u8 {
        self.verbosity.load(Ordering::Relaxed)
    }
}
