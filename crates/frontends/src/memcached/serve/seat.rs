//! A connection's place among those that are open, from the moment it is accepted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sublet_types::Second;

use crate::memcached::connections::Peer;
use crate::memcached::face::Face;

/// One of the connections that `-c` limits; free again when dropped.
pub(super) struct Seat {
    face: Arc<Face>,
    peer: Arc<Peer>,
}

impl Seat {
    /// A seat; none where all are taken.
    pub(super) fn take(
        face: &Arc<Face>,
        fd: i32,
        address: String,
        listener: String,
        now: Second,
    ) -> Option<Seat> {
        let figures = &face.figures;
        let open = figures.curr_connections.fetch_add(1, Ordering::Relaxed);
        if open >= face.settings.connections_max as u64 {
            figures.curr_connections.fetch_sub(1, Ordering::Relaxed);
            figures.rejected_connections.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        figures.total_connections.fetch_add(1, Ordering::Relaxed);
        let peer = face.connections.enter(fd, address, Some(listener), now);
        Some(Seat {
            face: Arc::clone(face),
            peer,
        })
    }

    pub(super) fn face(&self) -> &Arc<Face> {
        &self.face
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
