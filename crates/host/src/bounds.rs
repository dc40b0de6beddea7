//! What the named bounds cost at most, beside the arena.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sublet_frontends::memcached::instance::gathering_max;
use sublet_frontends::memcached::serve::HELD_MAX;
use sublet_frontends::{nbd, ring, vhost_user};
use sublet_types::{Bytes, DiskKind, DiskListen};

use crate::admin;
use crate::config::{Config, Listen};

/// Descriptors beside the clients': listeners, epolls, `/proc`, logs, what is read and closed again.
const DESCRIPTORS_OWN: u64 = 64;

/// Doors for whoever asks the daemon: its socket, TLS, and the one for metrics.
const ADMIN_DOORS: u64 = 3;

/// Descriptors of who comes in there: the socket, the same to end it by, and a file that is asked for.
const DESCRIPTORS_AN_ADMIN: u64 = 3;

/// Descriptors of a disk: its backing, its thread's, and its queues' over vhost-user.
const DESCRIPTORS_A_DISK: u64 = 64;

/// Descriptors of a disk's guest beside: each region of its memory is a file, and others may be taking their places.
const DESCRIPTORS_A_GUEST: u64 = 2 * vhost_user::map::REGIONS_MAX as u64;

/// Descriptors of a connection over NBD: its socket, the same to send memory by, and the two ends of a pipe.
const DESCRIPTORS_AN_NBD: u64 = 4;

/// Descriptors of a ring's connection: its socket, and what wakes its client.
const DESCRIPTORS_A_RING: u64 = 2;

/// The sum of the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) connections: u64,
    /// What all of them may hold in buffers.
    pub(crate) memory: Bytes,
    /// What page rings may take, shared with their programs.
    pub(crate) rings: Bytes,
    pub(crate) descriptors: u64,
}

impl Bounds {
    /// What this config's bounds sum up to.
    pub(crate) fn of(config: &Config) -> Bounds {
        let tenants = config.tenants.iter();
        // Nobody connects to one that is there for a disk or for those who log in elsewhere.
        let is_memcached = |place: &Listen| !matches!(place, Listen::Ring(_));
        let reached = tenants.filter(|tenant| tenant.listen.iter().any(is_memcached));
        let connections: u64 = reached
            .clone()
            .map(|tenant| tenant.connections as u64)
            .sum();
        let item_max = config.tenants.iter().map(|tenant| tenant.item_max).max();
        let per_worker = Bytes(HELD_MAX as u64) + item_max.unwrap_or_default() * 2;
        let gathering = reached.map(|tenant| gathering_max(tenant.item_max));
        let memory = per_worker * config.daemon.threads as u64 + gathering.sum();
        let (disks, rings) = (Bounds::of_disks(config), Bounds::of_rings(config));
        Bounds {
            connections: connections + disks.connections + rings.connections,
            memory: memory + disks.memory,
            rings: rings.rings,
            descriptors: connections
                + disks.descriptors
                + rings.descriptors
                + Bounds::descriptors_of_admin()
                + DESCRIPTORS_OWN,
        }
    }

    /// Each door lets in so many, and one waits for a place.
    fn descriptors_of_admin() -> u64 {
        ADMIN_DOORS * (admin::CONNECTIONS_MAX as u64 + 1) * DESCRIPTORS_AN_ADMIN
    }

    /// What the tenants' page rings add.
    fn of_rings(config: &Config) -> Bounds {
        let settings = ring::Settings::default();
        let is_ring = |place: &Listen| matches!(place, Listen::Ring(_));
        let tenants = config.tenants.iter();
        let groups = tenants.filter(|tenant| tenant.listen.iter().any(is_ring));
        let groups = groups.count() as u64;
        let connections = groups * u64::from(settings.connections_max);
        Bounds {
            connections,
            memory: Bytes::ZERO,
            rings: settings.memory_max() * groups,
            descriptors: connections * DESCRIPTORS_A_RING,
        }
    }

    /// What the disks that the config names add.
    fn of_disks(config: &Config) -> Bounds {
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
        Bounds {
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

    /// Asks the kernel for as many open files as the connections may need; says how many it allows.
    pub(crate) fn claim_descriptors(&self) -> Option<u64> {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = self.descriptors.min(maximum.unwrap_or(u64::MAX));
        if current.is_some_and(|current| current < wanted) {
            let raised = Rlimit {
                current: Some(wanted),
                maximum,
            };
            if let Err(error) = setrlimit(Resource::Nofile, raised) {
                tracing::warn!(%error, "the limit of open files stays as it is");
            }
        }
        getrlimit(Resource::Nofile).current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Said, Written, disk_asked};

    /// Who asks the daemon has two descriptors while it is there, on each of three doors.
    #[test]
    fn who_asks_the_daemon_is_among_the_descriptors() {
        let config = Written::defaults().meaning().expect("they make sense");
        let bounds = Bounds::of(&config);
        let asking = 3 * 2 * admin::CONNECTIONS_MAX as u64;
        let clients = bounds.connections;
        assert!(
            bounds.descriptors >= clients + asking + DESCRIPTORS_OWN,
            "{bounds:?}"
        );
    }

    /// Each region of a guest's memory is a file, and the old ones go once the new are there.
    #[test]
    fn the_regions_of_a_guest_are_among_the_descriptors() {
        let mut config = Written::defaults().meaning().expect("they make sense");
        let before = Bounds::of(&config).descriptors;
        let said = [
            ("tenant", Said::Text("db".to_owned())),
            ("backing", Said::Text("/x/db.img".to_owned())),
            (
                "listen",
                Said::List(vec!["vhost-user:/x/db.sock".to_owned()]),
            ),
        ];
        let said = said.map(|(key, said)| (key.to_owned(), said));
        let disk = disk_asked(&"db".parse().expect("a name"), said).expect("right");
        config.disks.push(disk);
        let grown = Bounds::of(&config).descriptors - before;
        assert!(grown >= 2 * 256, "{grown}");
    }
}
