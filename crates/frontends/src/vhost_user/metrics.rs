//! What a disk's vhost-user socket counts.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What all queues counted for one socket since the start.
        #[derive(Debug, Default)]
        pub struct Figures {
            $($(#[$doc])* pub $name: Figure,)*
        }

        impl Figures {
            /// Every figure with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)*]
            }
        }

        /// What one turn of a queue counts by itself, since many threads move a figure.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Tally {
            $(pub(super) $name: u64,)*
        }

        impl Figures {
            /// Adds what a turn counted.
            pub(super) fn count(&self, tally: &mut Tally) {
                let counted = std::mem::take(tally);
                $(if counted.$name > 0 {
                    self.$name.add(counted.$name);
                })*
            }
        }
    };
}

figures! {
    /// VMMs that are connected now: 0 or 1.
    connections,
    /// Connections that were made.
    connections_made,
    /// Connections that ended because their memory was not safe to touch.
    refused_memory,
    /// Queues that stopped because their rings made no sense.
    broken_rings,
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
    /// Times that a guest kicked.
    kicks,
}

/// A figure that many threads move.
#[derive(Debug, Default)]
pub struct Figure(AtomicU64);

impl Figure {
    /// One more.
    pub fn bump(&self) {
        self.add(1);
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
