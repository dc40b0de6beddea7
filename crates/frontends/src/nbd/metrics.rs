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
        /// TLS handshakes that failed.
        tls_handshake_errors,
        /// TLS records that were wrong.
        tls_record_errors,
    }
    by turns {
        /// Clients that asked for a disk that is not there.
        unknown_exports,
        /// Requests refused before they reached a disk.
        refused,
    }
}

impl TlsFigures for Figures {
    /// What goes well is nothing to act on.
    fn session_made(&self) {}

    fn handshake_failed(&self) {
        self.tls_handshake_errors.bump();
    }

    fn record_failed(&self) {
        self.tls_record_errors.bump();
    }
}
