//! An accepted connection's permit and its entry in the table of connections.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use sublet_types::Second;

use crate::memcached::connections::Peer;
use crate::memcached::instance::Instance;
use crate::serving::GroupPermit;

/// One of the connections that `-c` limits, and its entry in the table of open connections.
pub(super) struct AdmittedPeer {
    permit: GroupPermit<Instance>,
    peer: Arc<Peer>,
}

impl AdmittedPeer {
    /// Adds the peer behind `socket` to the table. The peer holds `permit`.
    pub(super) fn enter(
        permit: GroupPermit<Instance>,
        socket: &Arc<OwnedFd>,
        address: String,
        listener: String,
        now: Second,
    ) -> AdmittedPeer {
        let fd = socket.as_raw_fd();
        let connections = &permit.group().connections;
        let peer = connections.enter(fd, address, Some(listener), now);
        AdmittedPeer { permit, peer }
    }

    pub(super) fn instance(&self) -> &Arc<Instance> {
        self.permit.group()
    }

    /// Marks the peer as having made a request that it may make. It is never displaced from now on.
    pub(super) fn mark_spoken(&self) {
        self.permit.mark_spoken();
    }

    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }
}

impl Drop for AdmittedPeer {
    fn drop(&mut self) {
        self.instance().connections.leave(&self.peer);
    }
}
