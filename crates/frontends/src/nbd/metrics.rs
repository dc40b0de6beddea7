//! What a listener counts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::doors::TlsFigures;

macro_rules! figures {
    (
        { $($(#[$doc:meta])* $name:ident),* $(,)? }
        { $($(#[$turn_doc:meta])* $turn:ident),* $(,)? }
    ) => {
        /// What all workers counted for one listener since the start.
        #[derive(Debug, Default)]
        pub struct Figures {
            $($(#[$doc])* pub $name: Figure,)*
            $($(#[$turn_doc])* pub $turn: Figure,)*
        }

        /// What one turn of a connection counts by itself, since many threads move a figure.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Tally {
            $(pub(super) $turn: u64,)*
        }

        impl Figures {
            /// Every figure with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![
                    $((stringify!($name), self.$name.get()),)*
                    $((stringify!($turn), self.$turn.get()),)*
                ]
            }

            /// Adds what a turn counted.
            pub(super) fn count(&self, tally: Tally) {
                $(if tally.$turn > 0 {
                    self.$turn.add(tally.$turn);
                })*
            }
        }
    };
}

figures! {
    {
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
    {
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
        /// Bytes of replies that were spliced.
        bytes_spliced,
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

/// A figure that many threads move.
#[derive(Debug, Default)]
pub struct Figure(AtomicU64);

impl Figure {
    /// One more; says how many there were.
    pub fn bump(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// One less.
    pub fn drop_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
