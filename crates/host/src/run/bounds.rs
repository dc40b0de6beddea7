//! What the named bounds cost at most, beside the arena.

use sublet_types::Bytes;

use crate::config::Config;

/// What one connection may have waiting: a request half received, a reply half sent, its session.
const CONNECTION_BYTES: Bytes = Bytes::kib(32);

/// Descriptors beside the clients': listeners, epolls, `/proc`, logs.
const DESCRIPTORS_OWN: u64 = 64;

/// The sum of the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) connections: u64,
    pub(super) memory: Bytes,
    pub(super) descriptors: u64,
}

impl Bounds {
    /// What this config's bounds sum up to.
    pub(super) fn of(config: &Config) -> Bounds {
        let connections = config
            .tenants
            .iter()
            .map(|tenant| tenant.connections as u64)
            .sum();
        Bounds {
            connections,
            memory: CONNECTION_BYTES * connections,
            descriptors: connections + DESCRIPTORS_OWN,
        }
    }
}
