//! A connection's place among those that are open, from the moment it is accepted.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use sublet_types::Second;

use crate::memcached::connections::Peer;
use crate::memcached::instance::Instance;
use crate::serving::Permit;

/// One of the connections that `-c` limits, and its line in the table of those that are open.
pub(super) struct Seat {
    permit: Permit<Instance>,
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
        let permit = Permit::take(instance, socket)?;
        let fd = socket.as_raw_fd();
        let peer = instance.connections.enter(fd, address, Some(listener), now);
        Some(Seat { permit, peer })
    }

    pub(super) fn instance(&self) -> &Arc<Instance> {
        self.permit.group()
    }

    /// Its owner has asked for something, and may: it gives way to nobody from now on.
    pub(super) fn keep(&self) {
        self.permit.keep();
    }

    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.instance().connections.leave(&self.peer);
    }
}
