//! Figures of a group of listeners that no tenant has alone, and of the process.

use crate::doors::TlsFigures;
use crate::figures::Figure;

macro_rules! gauges {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Figures of the instance that any thread moves.
        #[derive(Debug, Default)]
        pub struct Figures {
            $($(#[$doc])* pub $name: Figure,)*
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
    /// TLS handshakes that failed.
    ssl_handshake_errors,
    /// TLS records that were wrong.
    ssl_proto_errors,
    /// TLS sessions made.
    ssl_new_sessions,
    /// Unix time at which the certificates were read.
    ssl_certs_read_unix,
}

impl TlsFigures for Figures {
    fn session_made(&self) {
        self.ssl_new_sessions.bump();
    }

    fn handshake_failed(&self) {
        self.ssl_handshake_errors.bump();
    }

    fn record_failed(&self) {
        self.ssl_proto_errors.bump();
    }
}

/// Where figures stood that only grow, when a tenant last asked for them to be counted anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Zero {
    pub(super) evictions: u64,
    pub(super) evicted_unfetched: u64,
    pub(super) reclaimed: u64,
    pub(super) expired_unfetched: u64,
    pub(super) total_connections: u64,
    pub(super) rejected_connections: u64,
    pub(super) listen_disabled: u64,
    pub(super) idle_kicks: u64,
}

/// User and system time of the process, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user_micros: u64,
    /// In the kernel.
    pub system_micros: u64,
}
