//! The most that the named bounds cost, beside the arena.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sublet_frontends::memcached::instance::gathering_max;
use sublet_frontends::memcached::serve::HELD_MAX;
use sublet_frontends::{nbd, ring, vhost_user};
use sublet_lend::node::MEMBERS_MAX;
use sublet_types::{Bytes, DiskKind, DiskListen};

use crate::admin;
use crate::config::{Config, ListenAddress};

/// Descriptors beside the clients': listeners, epolls, `/proc`, logs, and files that are read and closed again.
const DESCRIPTORS_OWN: u64 = 64;

/// Listeners of the admin interface: its socket, TLS, and the one for metrics.
const ADMIN_DOORS: u64 = 3;

/// Descriptors of a caller there: its socket, the duplicate to end it by, and a file that the call reads.
const DESCRIPTORS_AN_ADMIN: u64 = 3;

/// Descriptors of a disk: its backing, its thread's, and those of its queues over vhost-user.
const DESCRIPTORS_A_DISK: u64 = 64;

/// Further descriptors of a disk's guest: each region of its memory is a file, and new files may be replacing the old
/// ones.
const DESCRIPTORS_A_GUEST: u64 = 2 * vhost_user::map::REGIONS_MAX as u64;

/// Descriptors of a connection over NBD: its socket, the duplicate to send memory by, and the two ends of a pipe.
const DESCRIPTORS_AN_NBD: u64 = 4;

/// Descriptors of a peer: its control connection, an attempt at another one, and the connections that carry pages.
const DESCRIPTORS_A_PEER: u64 = 6;

/// Descriptors of callers that say they are peers, of etcd, and of threads that look names up.
const DESCRIPTORS_OF_PEERING: u64 = 768;

/// Descriptors of a ring's connection: its socket, and the one that wakes its client.
const DESCRIPTORS_A_RING: u64 = 2;

/// The sum of the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceBounds {
    pub(crate) connections: u64,
    /// The most memory that all of them hold in buffers.
    pub(crate) memory: Bytes,
    /// The most memory of page rings, which they share with their programs.
    pub(crate) rings: Bytes,
    pub(crate) descriptors: u64,
}

impl ResourceBounds {
    /// The sum of this config's bounds.
    pub(crate) fn of(config: &Config) -> ResourceBounds {
        let tenants = config.tenants.iter();
        // Nobody connects to a tenant that is there for a disk, or for users who log in elsewhere.
        let is_memcached = |place: &ListenAddress| !matches!(place, ListenAddress::Ring(_));
        let reached = tenants.filter(|tenant| tenant.listen.iter().any(is_memcached));
        let connections: u64 = reached
            .clone()
            .map(|tenant| tenant.connections as u64)
            .sum();
        let item_max = config.tenants.iter().map(|tenant| tenant.item_max).max();
        let per_worker = Bytes(HELD_MAX as u64) + item_max.unwrap_or_default() * 2;
        let gathering = reached.map(|tenant| gathering_max(tenant.item_max));
        let memory = per_worker * config.daemon.threads as u64 + gathering.sum();
        let (disks, rings) = (
            ResourceBounds::of_disks(config),
            ResourceBounds::of_rings(config),
        );
        ResourceBounds {
            connections: connections + disks.connections + rings.connections,
            memory: memory + disks.memory,
            rings: rings.rings,
            descriptors: connections
                + disks.descriptors
                + rings.descriptors
                + ResourceBounds::descriptors_of_admin()
                + ResourceBounds::descriptors_of_peers(config)
                + DESCRIPTORS_OWN,
        }
    }

    /// Each listener lets in so many callers, and one more waits for a permit.
    fn descriptors_of_admin() -> u64 {
        ADMIN_DOORS * (admin::CONNECTIONS_MAX as u64 + 1) * DESCRIPTORS_AN_ADMIN
    }

    /// A leader has a connection with each member. Who that is, an election says.
    fn descriptors_of_peers(config: &Config) -> u64 {
        if config.peers.tls.is_none() {
            return 0;
        }
        let members = match config.peers.etcd {
            Some(_) => MEMBERS_MAX,
            None => config.peers.members.len(),
        };
        members as u64 * DESCRIPTORS_A_PEER + DESCRIPTORS_OF_PEERING
    }

    /// What the tenants' page rings add.
    fn of_rings(config: &Config) -> ResourceBounds {
        let settings = ring::Settings::default();
        let is_ring = |place: &ListenAddress| matches!(place, ListenAddress::Ring(_));
        let tenants = config.tenants.iter();
        let groups = tenants.filter(|tenant| tenant.listen.iter().any(is_ring));
        let groups = groups.count() as u64;
        let connections = groups * u64::from(settings.connections_max);
        ResourceBounds {
            connections,
            memory: Bytes::ZERO,
            rings: settings.memory_max() * groups,
            descriptors: connections * DESCRIPTORS_A_RING,
        }
    }

    /// What the config's disks add.
    fn of_disks(config: &Config) -> ResourceBounds {
        let nbd = |place: &&DiskListen| !matches!(place, DiskListen::VhostUser(_));
        let listeners = config.disks.iter().flat_map(|disk| &disk.listen);
        let guests = listeners.clone().count() as u64;
        let listeners = listeners.filter(nbd).count() as u64;
        let guests = guests - listeners;
        let connections = listeners * u64::from(nbd::Settings::default().connections_max);
        let held = match listeners {
            0 => Bytes::ZERO,
            _ => Bytes(nbd::HELD_MAX as u64) * config.daemon.threads as u64,
        };
        let has_swap = config.disks.iter().any(|disk| disk.kind == DiskKind::Swap);
        ResourceBounds {
            connections,
            memory: held
                + if has_swap {
                    config.disk.dirty_max
                } else {
                    Bytes::ZERO
                },
            rings: Bytes::ZERO,
            descriptors: connections * DESCRIPTORS_AN_NBD
                + guests * DESCRIPTORS_A_GUEST
                + config.disks.len() as u64 * DESCRIPTORS_A_DISK,
        }
    }

    /// Asks the kernel for as many open files as the connections may need. Returns how many it allows.
    pub(crate) fn claim_descriptors(&self) -> Option<u64> {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = self.descriptors.min(maximum.unwrap_or(u64::MAX));
        if current.is_some_and(|current| current < wanted) {
            let raised = Rlimit {
                current: Some(wanted),
                maximum,
            };
            if let Err(error) = setrlimit(Resource::Nofile, raised) {
                tracing::warn!(
                    limit = current,
                    wanted = self.descriptors,
                    %error,
                    "the daemon cannot raise its limit of open files and serves on; some connections will wait: raise `ulimit -n` (LimitNOFILE=), or allow fewer connections"
                );
            }
        }
        getrlimit(Resource::Nofile).current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RawValue, WrittenConfig, parse_requested_disk};

    /// A caller has two descriptors while it is there, on each of three listeners.
    #[test]
    fn who_asks_the_daemon_is_among_the_descriptors() {
        let config = WrittenConfig::defaults()
            .resolve()
            .expect("they make sense");
        let bounds = ResourceBounds::of(&config);
        let asking = 3 * 2 * admin::CONNECTIONS_MAX as u64;
        let clients = bounds.connections;
        assert!(
            bounds.descriptors >= clients + asking + DESCRIPTORS_OWN,
            "{bounds:?}"
        );
    }

    /// Each region of a guest's memory is a file. The old ones go once the new ones are there.
    #[test]
    fn the_regions_of_a_guest_are_among_the_descriptors() {
        let mut config = WrittenConfig::defaults()
            .resolve()
            .expect("they make sense");
        let before = ResourceBounds::of(&config).descriptors;
        let said = [
            ("tenant", RawValue::Text("db".to_owned())),
            ("backing", RawValue::Text("/x/db.img".to_owned())),
            (
                "listen",
                RawValue::List(vec!["vhost-user:/x/db.sock".to_owned()]),
            ),
        ];
        let said = said.map(|(key, said)| (key.to_owned(), said));
        let disk = parse_requested_disk(&"db".parse().expect("a name"), said).expect("right");
        config.disks.push(disk);
        let grown = ResourceBounds::of(&config).descriptors - before;
        assert!(grown >= 2 * 256, "{grown}");
    }
}
