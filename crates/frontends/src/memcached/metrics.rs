//! Figures of a group of listeners that belong to no single tenant, and figures of the process.

use crate::figures::AtomicFigure;
use crate::listeners::TlsFigures;

macro_rules! gauges {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Figures of the instance that any thread changes.
        #[derive(Debug, Default)]
        pub struct InstanceFigures {
            $($(#[$doc])* pub $name: AtomicFigure,)*
        }
    };
}

gauges! {
    /// Connections that are open.
    curr_connections,
    /// Connections that were opened.
    total_connections,
    /// Connections refused because the limit was reached.
    rejected_connections,
    /// How often accepting was paused.
    listen_disabled,
    /// Microseconds for which accepting was paused.
    listen_disabled_micros,
    /// Connections closed because they were idle.
    idle_kicks,
    /// TLS handshakes that failed.
    ssl_handshake_errors,
    /// TLS records that were wrong.
    ssl_proto_errors,
    /// TLS sessions that resumed no earlier one.
    ssl_new_sessions,
    /// The Unix time at which the certificates were read.
    ssl_certs_read_unix,
}

impl TlsFigures for InstanceFigures {
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

/// The values of figures that only grow, at the time when a tenant last reset its statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FigureBaseline {
    pub(super) evictions: u64,
    pub(super) evicted_unfetched: u64,
    pub(super) reclaimed: u64,
    pub(super) expired_unfetched: u64,
    pub(super) total_connections: u64,
    pub(super) rejected_connections: u64,
    pub(super) listen_disabled: u64,
    pub(super) idle_kicks: u64,
}

/// User and system time of the process, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user_micros: u64,
    /// In the kernel.
    pub system_micros: u64,
}
