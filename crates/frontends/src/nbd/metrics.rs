//! What a listener counts.

use crate::doors::TlsFigures;
use crate::figures::figures;

figures! {
    /// What all workers counted for one listener since the start.
    at once {
        /// Connections that are open now.
        connections,
        /// Connections that were made.
        connections_made,
        /// Connections refused because all places were taken.
        refused_full,
        /// Connections that haggled for too long.
        ended_late,
        /// Connections that ended because what they sent was not NBD.
        ended_garbage,
        /// Connections that ended because they stalled while memory was short.
        ended_stalled,
        /// TLS sessions made.
        tls_sessions,
        /// TLS handshakes that failed.
        tls_handshake_errors,
        /// TLS records that were wrong.
        tls_record_errors,
    }
    by turns {
        /// Clients that asked for a disk that is not there.
        unknown_exports,
        /// Reads.
        reads,
        /// Writes.
        writes,
        /// Flushes.
        flushes,
        /// Trims.
        trims,
        /// Writes of zeroes.
        zeroes,
        /// Prefetches.
        prefetches,
        /// Questions which parts have bytes.
        block_statuses,
        /// Requests answered from memory at once.
        at_once,
        /// Requests refused before they reached a disk.
        refused,
        /// Requests that a disk failed.
        faults,
        /// Bytes read.
        bytes_read,
        /// Bytes written.
        bytes_written,
    }
}

impl TlsFigures for Figures {
    fn session_made(&self) {
        self.tls_sessions.bump();
    }

    fn handshake_failed(&self) {
        self.tls_handshake_errors.bump();
    }

    fn record_failed(&self) {
        self.tls_record_errors.bump();
    }
}
