//! What a disk counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What a disk did since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(super) struct DiskFigures {
            $($(#[$doc])* pub(super) $name: u64,)*
        }

        /// The counts of one thread. Only that thread writes them.
        #[derive(Debug, Default)]
        pub(super) struct DiskTally {
            $(pub(super) $name: ThreadCounter,)*
        }

        impl DiskFigures {
            fn add(&mut self, tally: &DiskTally) {
                $(self.$name += tally.$name.0.load(Ordering::Relaxed);)*
            }
        }
    };
}

figures! {
    /// Reads that were asked for.
    reads,
    /// Writes that were asked for.
    writes,
    /// Flushes that were asked for.
    flushes,
    /// Trims that were asked for.
    trims,
    /// Bytes that were read by clients.
    read_bytes,
    /// Bytes that were written by clients.
    written_bytes,
    /// Pages that clients found in memory.
    hits,
    /// Pages that came from lenders.
    far_hits,
    /// Pages that had to be read from the backing.
    misses,
    /// Pages that were read ahead.
    read_ahead,
    /// Pages that were written to the backing after they were acknowledged.
    written_behind,
    /// Pages of swap that were written to the backing at once.
    written_through,
    /// Requests that failed.
    faults,
}

/// A count that one thread changes and any thread reads.
#[derive(Debug, Default)]
pub(super) struct ThreadCounter(AtomicU64);

impl ThreadCounter {
    pub(super) fn add(&self, n: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now + n, Ordering::Relaxed);
    }
}

/// The tallies of all threads that serve a disk.
#[derive(Debug, Default)]
pub(super) struct DiskTallies(Mutex<Vec<Arc<DiskTally>>>);

impl DiskTallies {
    /// Adds the tally of one more thread.
    pub(super) fn open(&self) -> Arc<DiskTally> {
        let tally = Arc::new(DiskTally::default());
        self.0.lock().push(Arc::clone(&tally));
        tally
    }

    /// The sum of all.
    pub(super) fn sum(&self) -> DiskFigures {
        let mut sum = DiskFigures::default();
        for tally in self.0.lock().iter() {
            sum.add(tally);
        }
        sum
    }
}
