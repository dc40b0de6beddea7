//! The parts of the daemon that stand behind every protocol.

use std::sync::Arc;

use sublet_store::Store;

pub use crate::clock::{ManualClock, MonotonicClock};
use crate::tenancy::{Clock, Ledger};

/// What a thread that serves a protocol needs of the daemon.
#[derive(Clone)]
pub struct Backend {
    /// The store.
    pub store: Arc<Store>,
    /// The daemon's clock. Deadlines of connections go by it, too.
    pub clock: Clock,
    /// Holds the counters of all threads.
    pub ledger: Arc<Ledger>,
}
