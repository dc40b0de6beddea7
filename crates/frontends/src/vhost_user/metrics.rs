//! What a disk's vhost-user socket counts.

use crate::figures::figures;

figures! {
    /// What all queues counted for one socket since the start.
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
        /// Requests that were answered.
        requests,
        /// Requests whose descriptors or buffers made no sense.
        faults,
        /// Requests answered by an error.
        errors,
        /// Reads.
        reads,
        /// Reads that memory answered at once.
        hits,
        /// Bytes read.
        bytes_read,
        /// Writes.
        writes,
        /// Bytes written.
        bytes_written,
        /// Flushes.
        flushes,
        /// Discards.
        discards,
        /// Times that a guest was notified.
        notifications,
    }
}
