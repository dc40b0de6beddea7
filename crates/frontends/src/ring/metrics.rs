//! What a listener counts.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What all workers counted for one listener since the start.
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
    };
}

figures! {
    /// Connections that are open now.
    connections,
    /// Connections that were made.
    connections_made,
    /// Connections refused because all places were taken.
    refused_full,
    /// Connections refused because of their user.
    refused_uid,
    /// Connections refused for want of memory or descriptors.
    refused_exhausted,
    /// Connections that ended because their ring held garbage, or their socket chatter.
    ended_garbage,
    /// Entries that were answered.
    entries,
    /// Entries that made no sense.
    faults,
    /// Pages put, stored or not.
    puts,
    /// Pages asked for.
    gets,
    /// Pages asked for that were there.
    hits,
    /// Clients' doorbells rung.
    bells_rung,
    /// Times that a client rang.
    bells_heard,
}

/// What one turn of a connection counts by itself, since many threads move a figure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) entries: u64,
    pub(super) faults: u64,
    pub(super) puts: u64,
    pub(super) gets: u64,
    pub(super) hits: u64,
    pub(super) bells_rung: u64,
}

impl Figures {
    /// Adds what a turn counted.
    pub(super) fn count(&self, tally: Tally) {
        let counted = [
            (&self.entries, tally.entries),
            (&self.faults, tally.faults),
            (&self.puts, tally.puts),
            (&self.gets, tally.gets),
            (&self.hits, tally.hits),
            (&self.bells_rung, tally.bells_rung),
        ];
        let moved = counted.into_iter().filter(|(_, n)| *n > 0);
        moved.for_each(|(figure, n)| figure.add(n));
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
