//! Memory of lenders, as the threads that put and get pages see it.

use std::sync::Arc;
use std::time::Duration;

use sublet_frontends::far_pages::{FAR_PAGES_MAX, FarPagesFactory, FetchFarPages};
use sublet_lend::guard::{GuardPolicy, RING_MISS};
use sublet_store::AwayTicket;

use super::lease_routes::LeaseRoutes;
use super::page_fetcher::{
    FETCH_PAGES_MAX, FetchId, FetchLedger, FetchOutcome, FetcherSettings, PageFetcher,
};
use super::policy_wish::PolicyWish;

/// What rings fetch at once is one batch of the fetcher.
const _: () = assert!(FAR_PAGES_MAX == FETCH_PAGES_MAX);

/// Memory of lenders: the routes to its pages, and what was fetched of it. A host that does not borrow has none.
#[derive(Clone, Debug)]
pub struct FarMemory {
    routes: Arc<LeaseRoutes>,
    ledger: Arc<FetchLedger>,
    wish: Arc<PolicyWish>,
    guard: GuardPolicy,
}

impl FarMemory {
    /// Memory of no lender yet.
    pub fn new(guard: GuardPolicy) -> FarMemory {
        FarMemory {
            routes: Arc::default(),
            ledger: Arc::default(),
            wish: Arc::default(),
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

    /// What the policy in force asks of lenders.
    pub fn wish(&self) -> &Arc<PolicyWish> {
        &self.wish
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

    /// What makes a fetcher for each thread that serves rings. What a miss costs a ring's client is not known.
    pub fn for_rings(self) -> FarPagesFactory {
        Arc::new(move || {
            Box::new(RingFetches {
                fetcher: self.fetcher("rings", RING_MISS),
                batch: None,
            })
        })
    }
}

/// The fetcher of a thread that serves rings.
struct RingFetches {
    fetcher: PageFetcher,
    batch: Option<FetchId>,
}

impl FetchFarPages for RingFetches {
    fn fetch(&mut self, tickets: &[AwayTicket]) {
        self.batch = self.fetcher.begin(tickets);
        if let Some(batch) = self.batch {
            self.fetcher.wait(batch);
        }
    }

    fn take(&mut self, visit: &mut dyn FnMut(usize, Option<&[u8]>)) {
        let batch = self.batch.take();
        let batch = batch.expect("a thread of rings has one batch at a time");
        self.fetcher.take(batch, |n, outcome| match outcome {
            FetchOutcome::Page(page) => visit(n, Some(page)),
            // A ring has no backing. It may not see the page later, when the lender is quick again.
            FetchOutcome::Gone(_) | FetchOutcome::NotAsked => visit(n, None),
        });
    }
}
