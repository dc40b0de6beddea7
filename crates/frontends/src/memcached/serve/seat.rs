//! A connection's place among those that are open, from the moment it is accepted.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use sublet_types::Second;

use crate::doors::Place;
use crate::memcached::connections::Peer;
use crate::memcached::instance::Instance;

/// One of the connections that `-c` limits; free again when dropped.
pub(super) struct Seat {
    instance: Arc<Instance>,
    place: Place,
    peer: Arc<Peer>,
}

impl Seat {
    /// A seat for who comes by that socket; none where all are taken and nobody gives way.
    pub(super) fn take(
        instance: &Arc<Instance>,
        socket: &Arc<OwnedFd>,
        address: String,
        listener: String,
        now: Second,
    ) -> Option<Seat> {
        let figures = &instance.figures;
        let Ok((place, gave_way)) = instance.lobby.enter(socket, Instant::now()) else {
            figures.rejected_connections.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if gave_way.is_some() {
            figures.idle_kicks.fetch_add(1, Ordering::Relaxed);
        }
        figures.curr_connections.fetch_add(1, Ordering::Relaxed);
        figures.total_connections.fetch_add(1, Ordering::Relaxed);
        let fd = socket.as_raw_fd();
        let peer = instance.connections.enter(fd, address, Some(listener), now);
        Some(Seat {
            instance: Arc::clone(instance),
            place,
            peer,
        })
    }

    pub(super) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// Its owner has asked for something, and may: it gives way to nobody from now on.
    pub(super) fn keep(&self) {
        self.place.speak();
    }

    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.instance.connections.leave(&self.peer);
        let open = &self.instance.figures.curr_connections;
        open.fetch_sub(1, Ordering::Relaxed);
    }
}
