//! Memory of lenders, as the threads that put and get pages see it.

use std::sync::Arc;
use std::time::Duration;

use sublet_lend::guard::GuardPolicy;

use super::lease_routes::LeaseRoutes;
use super::page_fetcher::{FetchLedger, FetcherSettings, PageFetcher};

/// Memory of lenders: the routes to its pages, and what was fetched of it. A host that does not borrow has none.
#[derive(Clone, Debug)]
pub struct FarMemory {
    routes: Arc<LeaseRoutes>,
    ledger: Arc<FetchLedger>,
    guard: GuardPolicy,
}

impl FarMemory {
    /// Memory of no lender yet.
    pub fn new(guard: GuardPolicy) -> FarMemory {
        FarMemory {
            routes: Arc::default(),
            ledger: Arc::default(),
            guard,
        }
    }

    /// Where the pages are.
    pub fn routes(&self) -> &Arc<LeaseRoutes> {
        &self.routes
    }

    /// What was fetched.
    pub fn ledger(&self) -> &Arc<FetchLedger> {
        &self.ledger
    }

    /// A fetcher for a thread. `backing` is what a miss is read from, and `miss` what that is expected to cost at first.
    pub fn fetcher(&self, backing: &str, miss: Duration) -> PageFetcher {
        let settings = FetcherSettings {
            guard: self.guard,
            miss,
            backing: backing.into(),
        };
        PageFetcher::new(Arc::clone(&self.routes), Arc::clone(&self.ledger), settings)
    }
}
