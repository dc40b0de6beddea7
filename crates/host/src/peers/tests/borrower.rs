//! A borrower with a store, a courier and a fetcher.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sublet_frontends::tenancy::Clock;
use sublet_lend::guard::GuardPolicy;
use sublet_lend::ids::{LeaseId, PeerId};
use sublet_lend::seal::{Cipher, LeaseKey};
use sublet_store::{AwayTicket, EvictAheadScope, GetOutcome, LeaseSlot, PageKey, Store, Worker};
use sublet_types::{
    Bytes, ObjectId, PageIndex, PoolFlags, PoolId, Second, TenantId, TenantSettings, Weight,
};

use super::*;
use crate::peers::courier::Courier;
use crate::peers::lease_routes::{LeaseRoute, LeaseRoutes};
use crate::peers::lender_session::LenderSession;
use crate::peers::page_fetcher::{
    FetchLedger, FetchOutcome, FetcherSettings, GoneCause, PageFetcher,
};
use crate::peers::ticket_check::TicketCheck;
use crate::wait_until::wait_until;

pub(in crate::peers) const LEASE: LeaseSlot = LeaseSlot(0);

/// More pages than there is memory for here.
pub(super) const PAGES: u32 = 4096;

/// The first round trip of a lender that gets much time. No guard counts more than some seconds.
pub(in crate::peers) const PATIENT: Duration = Duration::from_millis(400);

/// What a get came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Here(u64),
    Fetched(u64),
    Gone(GoneCause),
    NotAsked,
    Miss,
}

/// A session with a lender. `round_trip` sets its first time limit.
pub(in crate::peers) fn session(
    address: SocketAddr,
    round_trip: Duration,
    session: SessionId,
) -> Arc<LenderSession> {
    let session = lender_session(PeerId(0), address, session);
    session.set_round_trip(round_trip);
    session
}

pub(in crate::peers) struct TestBorrower {
    pub(in crate::peers) worker: Worker,
    tenant: TenantId,
    pool: PoolId,
    now: Second,
    pub(in crate::peers) routes: Arc<LeaseRoutes>,
    pub(in crate::peers) courier: Option<Courier>,
    pub(super) fetcher: PageFetcher,
    pub(super) ledger: Arc<FetchLedger>,
}

pub(super) fn fetcher(
    routes: &Arc<LeaseRoutes>,
    ledger: &Arc<FetchLedger>,
    miss: Duration,
) -> PageFetcher {
    let settings = FetcherSettings {
        guard: GuardPolicy::Relative,
        miss,
        backing: "disk".into(),
    };
    PageFetcher::new(Arc::clone(routes), Arc::clone(ledger), settings)
}

impl TestBorrower {
    /// A borrower to whom a lender has lent blocks under a lease.
    pub(in crate::peers) fn new(address: SocketAddr, lease: LeaseId, blocks: u32) -> TestBorrower {
        let store: Arc<Store> = store(Bytes::mib(12), 16);
        let settings = TenantSettings {
            name: "t".parse().expect("a name"),
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        };
        let tenant = store.add_tenant(settings).expect("a tenant");
        let flags = PoolFlags {
            persistent: false,
            shared: false,
            keeping: true,
        };
        let pool = store.create_pool(tenant, flags, None).expect("a pool");
        let added = store.add_to_lease(LEASE, 0, 0..blocks);
        added.expect("room for the blocks");
        let routes = Arc::new(LeaseRoutes::default());
        let ledger = Arc::new(FetchLedger::default());
        let key = LeaseKey::new(Cipher::Aegis128X2, &[9; 32]);
        let route = LeaseRoute {
            session: session(address, PATIENT, SESSION),
            lease,
            key: Arc::new(key),
            lost_writes: Arc::default(),
            tickets: TicketCheck::new(Arc::clone(&store)),
        };
        routes.set(LEASE, route);
        TestBorrower {
            worker: store.worker().expect("a worker"),
            tenant,
            pool,
            now: Clock::start().now(),
            courier: Some(Courier::start(&store, &routes, ledger.faults()).expect("it starts")),
            fetcher: fetcher(&routes, &ledger, 4 * PATIENT),
            routes,
            ledger,
        }
    }

    /// Goes over to another session with the lender, whose first round trip is this.
    pub(super) fn route_by(&self, session: Arc<LenderSession>) {
        let route = self.routes.find(LEASE).expect("a route");
        self.routes.set(LEASE, LeaseRoute { session, ..route });
    }

    fn key(&self, index: u32) -> PageKey {
        PageKey {
            pool: self.pool,
            object: ObjectId(1),
            index: PageIndex(index),
        }
    }

    pub(in crate::peers) fn put(&self, index: u32, content: u64) {
        let write = |page: &mut sublet_store::UnwrittenPage<'_>| page.write(&page_of(content));
        let put = self
            .worker
            .put_page(self.tenant, self.key(index), self.now, write);
        assert!(put.is_stored());
    }

    pub(in crate::peers) fn outbound(&self) -> u32 {
        self.worker.store().lease_figures(LEASE).outbound
    }

    /// Evicts ahead, and makes far blocks ready.
    pub(in crate::peers) fn evict_ahead(&self) {
        self.worker.evict_ahead(EvictAheadScope::All, self.now);
    }

    /// Puts pages whose content is their index and more, and lets the courier carry what is evicted.
    pub(super) fn fill(&self, more: u64) {
        for index in 0..PAGES {
            self.put(index, u64::from(index) + more);
            if index % 128 == 0 {
                self.evict_ahead();
                wait_until("the outbox is empty", || self.outbound() == 0);
            }
        }
        wait_until("the outbox is empty", || self.outbound() == 0);
    }

    pub(super) fn at_lenders(&self) -> u64 {
        self.worker.store().page_figures(self.tenant).at_lenders.0
    }

    /// The pages that the lender has, each with its ticket.
    pub(super) fn away(&self) -> Vec<(u32, AwayTicket)> {
        let ticket = |index| {
            let got = self
                .worker
                .get_page(self.tenant, self.key(index), self.now, |_| {});
            match got {
                GetOutcome::Away(ticket) => Some((index, ticket)),
                _ => None,
            }
        };
        (0..PAGES).filter_map(ticket).collect()
    }

    /// Ends gets by their tickets, all together.
    pub(super) fn fetch(&mut self, away: &[(u32, AwayTicket)]) -> Vec<Got> {
        let tickets: Vec<AwayTicket> = away.iter().map(|(_, ticket)| *ticket).collect();
        let mut came = vec![None; away.len()];
        self.fetcher.fetch(&tickets, |n, outcome| {
            let got = match outcome {
                FetchOutcome::Page(page) => Got::Fetched(content_of(page)),
                FetchOutcome::Gone(cause) => Got::Gone(cause),
                FetchOutcome::NotAsked => Got::NotAsked,
            };
            assert_eq!(came[n].replace(got), None, "answered once");
        });
        let came = came.into_iter().map(|got| got.expect("answered"));
        came.zip(away)
            .map(|(got, away)| self.end_get(away, got))
            .collect()
    }

    fn end_get(&self, (index, ticket): &(u32, AwayTicket), came: Got) -> Got {
        let (key, mut seen) = (self.key(*index), None);
        let visit = |page: &[u8]| seen = Some(content_of(page));
        let (tenant, now) = (self.tenant, self.now);
        match came {
            Got::Fetched(content) => {
                let page = page_of(content);
                let got = self.worker.arrived(tenant, key, ticket, &page, now, visit);
                assert_eq!((got, seen), (GetOutcome::Hit, Some(content)));
            }
            Got::Gone(_) => {
                let got = self.worker.gone(tenant, key, ticket, now, visit);
                assert_eq!(got, GetOutcome::Miss);
            }
            _ => {}
        }
        came
    }

    /// Gets a page that may be anywhere.
    pub(super) fn get(&mut self, index: u32) -> Got {
        let mut seen = None;
        let visit = |page: &[u8]| seen = Some(content_of(page));
        let got = self
            .worker
            .get_page(self.tenant, self.key(index), self.now, visit);
        match got {
            GetOutcome::Away(ticket) => self.fetch(&[(index, ticket)])[0],
            _ => seen.map_or(Got::Miss, Got::Here),
        }
    }
}
