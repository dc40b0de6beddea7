//! What every protocol stands in front of.

use std::sync::Arc;

use sublet_store::Store;

use crate::tenancy::{Clock, Ledger};

/// What whoever serves needs of the daemon.
#[derive(Clone)]
pub struct Backend {
    /// The store.
    pub store: Arc<Store>,
    /// The daemon's clock.
    pub clock: Clock,
    /// Where counters are kept.
    pub ledger: Arc<Ledger>,
}
