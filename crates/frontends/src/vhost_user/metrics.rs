//! What the daemon counts for each disk's vhost-user socket.

use crate::figures::figures;

figures! {
    /// What all queues counted for one socket since the start.
    VhostUserFigures, VhostUserTally;
    at once {
        /// VMMs that are connected now: 0 or 1.
        connections,
        /// Connections that were made.
        connections_made,
        /// Connections that ended because their memory was not safe to touch.
        refused_memory,
        /// Queues that stopped because their rings made no sense.
        broken_rings,
    }
    by turns {
        /// Requests whose descriptors or buffers made no sense.
        faults,
    }
}
