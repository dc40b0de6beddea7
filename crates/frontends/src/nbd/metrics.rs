//! What the daemon counts for each NBD listener.

use crate::figures::figures;
use crate::listeners::TlsFigures;

figures! {
    /// What all workers counted for one listener since the start.
    NbdFigures, NbdTally;
    at once {
        /// Connections that are open now.
        connections,
        /// Connections that were made.
        connections_made,
        /// Connections refused because the listener was full.
        refused_full,
        /// Connections that the daemon closed because they negotiated for too long.
        ended_late,
        /// Connections that the daemon closed because they sent something that is not NBD.
        ended_garbage,
        /// Connections that the daemon closed because they stalled while memory was short.
        ended_stalled,
        /// TLS handshakes that failed.
        tls_handshake_errors,
        /// TLS records that were invalid.
        tls_record_errors,
    }
    by turns {
        /// Clients that asked for an unknown disk.
        unknown_exports,
        /// Requests refused before they reached a disk.
        refused,
    }
}

impl TlsFigures for NbdFigures {
    /// Nobody acts on a success, so it is not counted.
    fn session_made(&self) {}

    fn handshake_failed(&self) {
        self.tls_handshake_errors.bump();
    }

    fn record_failed(&self) {
        self.tls_record_errors.bump();
    }
}
