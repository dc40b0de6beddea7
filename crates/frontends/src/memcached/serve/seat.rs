//! A connection's place among those that are open, from the moment it is accepted.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use sublet_types::Second;

use crate::doors::Place;
use crate::memcached::connections::Peer;
use crate::memcached::face::Face;

/// One of the connections that `-c` limits; free again when dropped.
pub(super) struct Seat {
    face: Arc<Face>,
    place: Place,
    peer: Arc<Peer>,
}

impl Seat {
    /// A seat for who comes by that socket; none where all are taken and nobody gives way.
    pub(super) fn take(
        face: &Arc<Face>,
        socket: &Arc<OwnedFd>,
        address: String,
        listener: String,
        now: Second,
    ) -> Option<Seat> {
        let figures = &face.figures;
        let Ok((place, gave_way)) = face.lobby.enter(socket, Instant::now()) else {
            figures.rejected_connections.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if gave_way.is_some() {
            figures.idle_kicks.fetch_add(1, Ordering::Relaxed);
        }
        figures.curr_connections.fetch_add(1, Ordering::Relaxed);
        figures.total_connections.fetch_add(1, Ordering::Relaxed);
        let fd = socket.as_raw_fd();
        let peer = face.connections.enter(fd, address, Some(listener), now);
        Some(Seat {
            face: Arc::clone(face),
            place,
            peer,
        })
    }

    pub(super) fn face(&self) -> &Arc<Face> {
        &self.face
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
        self.face.connections.leave(&self.peer);
        let open = &self.face.figures.curr_connections;
        open.fetch_sub(1, Ordering::Relaxed);
    }
}
