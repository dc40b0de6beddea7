//! A borrower: a store whose evicted pages the daemon's courier carries to a lender. There is no control connection.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sublet_frontends::tenancy::Clock;
use sublet_host::peers::courier::{Courier, CourierFigures};
use sublet_host::peers::far_memory::FarMemory;
use sublet_host::peers::lease_routes::LeaseRoute;
use sublet_host::peers::ticket_check::TicketCheck;
use sublet_lend::guard::GuardPolicy;
use sublet_lend::seal::{Cipher, LeaseKey};
use sublet_store::{
    AwayTicket, EvictAheadScope, GetOutcome, LeaseSlot, PageKey, PageSettings, Store,
    StoreSettings, UnwrittenPage, Worker,
};
use sublet_types::{
    BLOCK_BYTES, Bytes, ObjectId, PageIndex, PoolFlags, PoolId, TenantId, TenantSettings, Weight,
};

use super::error::LendBenchError;
use super::lender_store::LentPlace;
use super::session;
use super::test_page::TestPage;

const LEASE: LeaseSlot = LeaseSlot(0);

/// Memory of the store, which holds few pages beside those at the lender.
const MEMORY: Bytes = Bytes::mib(32);

/// Puts after which the store evicts ahead, as the daemon does after some milliseconds.
const PUTS_AHEAD: u32 = 64;

/// Pages in the outbox above which puts wait: half of what one lease may have there. A full outbox would drop pages.
const OUTBOUND_MAX: u32 = 256;

/// How long the courier may take to empty the outbox.
const CARRY_MAX: Duration = Duration::from_secs(10);

/// A borrower. Its threads end with it.
pub(super) struct BorrowerStore {
    worker: Worker,
    clock: Clock,
    tenant: TenantId,
    pool: PoolId,
    courier: Courier,
    /// The pages at its lender.
    pub(super) far: FarMemory,
}

impl BorrowerStore {
    /// A borrower with the lease.
    pub(super) fn new(lent: LentPlace) -> Result<BorrowerStore, LendBenchError> {
        let store = Store::new(StoreSettings {
            capacity: MEMORY + Bytes(u64::from(lent.blocks) * BLOCK_BYTES),
            limit: MEMORY,
            item_max: Bytes::mib(1),
            seed: 2,
            evicts: true,
            pages: PageSettings {
                shards: 1,
                far_blocks: lent.blocks,
                ..PageSettings::default()
            },
        })?;
        let tenant = store.add_tenant(TenantSettings {
            name: "bench".parse()?,
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        })?;
        let flags = PoolFlags {
            persistent: false,
            shared: false,
            keeping: true,
        };
        let pool = store.create_pool(tenant, flags, None)?;
        store.add_to_lease(LEASE, 0, lent.first..lent.first + lent.blocks)?;
        // The records of the blocks and the outbox take none of the memory for pages.
        store.set_limit(MEMORY + store.far_overhead());
        let far = FarMemory::new(GuardPolicy::Relative);
        let route = LeaseRoute {
            session: session::lender_session(lent.address),
            lease: lent.lease,
            key: Arc::new(LeaseKey::new(Cipher::Aegis128X2, &[9; 32])),
            lost_writes: Arc::default(),
            tickets: TicketCheck::new(Arc::clone(&store)),
        };
        far.routes().set(LEASE, route);
        Ok(BorrowerStore {
            worker: store.worker()?,
            clock: Clock::start(),
            tenant,
            pool,
            courier: Courier::start(&store, far.routes(), far.ledger().faults())?,
            far,
        })
    }

    fn key(&self, page: TestPage) -> PageKey {
        PageKey {
            pool: self.pool,
            object: ObjectId(1),
            index: PageIndex(page.0),
        }
    }

    /// Puts a page. Before that it waits as long as the outbox has many pages. The courier carries what the put displaces.
    pub(super) fn put(&self, page: TestPage) -> io::Result<()> {
        if page.0.is_multiple_of(PUTS_AHEAD) {
            self.worker
                .evict_ahead(EvictAheadScope::All, self.clock.now());
            self.await_outbox(OUTBOUND_MAX)?;
        }
        let write = |place: &mut UnwrittenPage<'_>| place.write(&page.bytes());
        let now = self.clock.now();
        self.worker
            .put_page(self.tenant, self.key(page), now, write);
        Ok(())
    }

    /// Waits until no more pages than this are on their way.
    pub(super) fn await_outbox(&self, most: u32) -> io::Result<()> {
        let until = Instant::now() + CARRY_MAX;
        while self.worker.store().lease_figures(LEASE).outbound > most {
            if Instant::now() > until {
                return Err(io::Error::other("the courier carries nothing"));
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// What the courier has done.
    pub(super) fn carried(&self) -> CourierFigures {
        self.courier.figures()
    }

    /// The ticket of a page, if the lender has the page.
    pub(super) fn ticket(&self, page: TestPage) -> Option<AwayTicket> {
        let now = self.clock.now();
        let got = self
            .worker
            .get_page(self.tenant, self.key(page), now, |_| {});
        match got {
            GetOutcome::Away(ticket) => Some(ticket),
            _ => None,
        }
    }
}
