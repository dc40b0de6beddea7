//! A put under memory pressure allocates nothing (P3). Its frame is another page's, and so is its place in the
//! directory. A shard's directory grows only now and then, as extents come and go. A flush never allocates (R-F3, B8),
//! so it cannot fail for want of memory.
//!
//! The whole process is counted, so the checks run one after the other and nothing else runs.

use std::alloc::System;
use std::cell::Cell;
use std::sync::Arc;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use sublet_store::{
    EvictAheadScope, GetOutcome, LeaseSlot, PageKey, PageSettings, PutOutcome, SealTag,
    SendOutcome, Spill, Store, StoreSettings, Worker,
};
use sublet_types::{
    Bytes, ObjectId, PAGE_BYTES, PageIndex, PoolFlags, PoolId, Second, TenantId, TenantSettings,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MEMORY: Bytes = Bytes::mib(64);
const NOW: Second = Second(2);

/// Of this many puts, one may make a directory grow.
const GROWTH_ONE_IN: u64 = 1000;

/// Objects that the pages are spread over.
const OBJECTS: u64 = 512;

fn main() {
    a_put_that_displaces_a_page_allocates_nothing();
    r_f3_b8_a_flush_allocates_nothing();
    pages_that_go_to_a_lender_and_back_allocate_nothing();
}

/// Allocations and reallocations of this process during `work`.
fn allocated(work: impl FnOnce()) -> u64 {
    let before = ALLOCATOR.stats();
    work();
    let made = ALLOCATOR.stats() - before;
    (made.allocations + made.reallocations) as u64
}

fn a_put_that_displaces_a_page_allocates_nothing() {
    let (worker, tenant, pool) = store();
    let pages = 4 * MEMORY.0 / PAGE_BYTES;
    let mut seed = 1u64;
    let mut put = || {
        seed = seed
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let number = (seed >> 33) % pages;
        let key = PageKey {
            pool,
            object: ObjectId(number % OBJECTS),
            index: PageIndex((number / OBJECTS) as u32),
        };
        worker.put_page(tenant, key, NOW, |page| page[0] = number as u8)
    };
    (0..10 * pages).for_each(|_| {
        put();
    });
    let mut displaced = 0;
    let allocations = allocated(|| {
        displaced = (0..pages)
            .filter(|_| put() == PutOutcome::Displaced)
            .count() as u64;
    });
    assert!(displaced > pages / 2, "{displaced} of {pages}");
    assert!(
        allocations * GROWTH_ONE_IN <= displaced,
        "{allocations} for {displaced}"
    );
}

/// The spill file of a pool whose pages all stay in memory.
struct UnusedSpill;

impl Spill for UnusedSpill {
    fn slots(&self) -> u32 {
        1 << 20
    }

    fn write(&self, _: u32, _: &[u8]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn read(&self, _: u32, _: &mut [u8]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

fn r_f3_b8_a_flush_allocates_nothing() {
    let (worker, tenant, ephemeral) = store();
    let flags = PoolFlags {
        persistent: true,
        ..PoolFlags::default()
    };
    let persistent = worker
        .store()
        .create_pool(tenant, flags, Some(Arc::new(UnusedSpill)));
    for pool in [ephemeral, persistent.expect("a pool")] {
        let key = |number: u64| PageKey {
            pool,
            object: ObjectId(number % OBJECTS),
            index: PageIndex((number / OBJECTS) as u32),
        };
        let pages = MEMORY.0 / PAGE_BYTES / 2;
        for number in 0..pages {
            let put = worker.put_page(tenant, key(number), NOW, |page| page[0] = 1);
            assert!(put.is_stored());
        }
        let allocations = allocated(|| {
            // Page by page in an order that empties leaves and slots bit by bit; then what is left, by objects.
            (0..pages)
                .filter(|number| number % 10 != 3)
                .for_each(|number| {
                    assert!(worker.flush_page(tenant, key(number), NOW));
                });
        });
        assert_eq!(allocations, 0);
        let allocations = allocated(|| {
            (0..OBJECTS).for_each(|object| {
                assert!(worker.flush_object(tenant, pool, ObjectId(object), NOW));
            });
        });
        assert_eq!(allocations, 0);
        assert_eq!(worker.store().page_figures(tenant).used.0, 0);
    }
}

/// The far blocks of the lender.
const FAR_BLOCKS: u32 = 64;

/// Pages that each pass puts. Memory here has room for a third of them, and the lender for another third.
const FAR_PAGES: u64 = 3 * 64 * 512;

/// P3: an eviction into the outbox, a get by a ticket, and a flush of a page away allocate nothing.
fn pages_that_go_to_a_lender_and_back_allocate_nothing() {
    const LEASE: LeaseSlot = LeaseSlot(0);
    let (worker, tenant, pool) = store_with(PageSettings {
        far_blocks: FAR_BLOCKS,
        ..PageSettings::default()
    });
    let store = worker.store();
    store
        .add_to_lease(LEASE, 0, 0..FAR_BLOCKS)
        .expect("room for the blocks");
    let key = |number: u64| PageKey {
        pool,
        object: ObjectId(number % OBJECTS),
        index: PageIndex((number / OBJECTS) as u32),
    };
    let mut under_way = Vec::with_capacity(1024);
    let mut send = || {
        worker.take_outbound(LEASE, 32, |page, _| under_way.push(page));
        let answered = under_way.drain(..);
        answered.for_each(|page| worker.settle(page, SendOutcome::Taken(SealTag::default())));
    };
    let (sent, fetched) = (Cell::new(0), Cell::new(0));
    let mut pass = || {
        for number in 0..FAR_PAGES {
            let put = worker.put_page(tenant, key(number), NOW, |page| page[0] = 1);
            assert!(put.is_stored());
            if number % 32 == 0 {
                send();
            }
        }
        sent.set(store.page_figures(tenant).at_lenders.0);
        for number in (0..FAR_PAGES).step_by(3) {
            if let GetOutcome::Away(ticket) = worker.get_page(tenant, key(number), NOW, |_| {}) {
                let page = [0; PAGE_BYTES as usize];
                let key = key(number);
                let got = worker.arrived(tenant, key, &ticket, &page, NOW, |_| {});
                fetched.set(fetched.get() + u64::from(got == GetOutcome::Hit));
            }
        }
        for number in (0..FAR_PAGES).step_by(5) {
            assert!(worker.flush_page(tenant, key(number), NOW));
        }
    };
    pass();
    while worker.evict_ahead(EvictAheadScope::All, NOW) {}
    pass();
    while worker.evict_ahead(EvictAheadScope::All, NOW) {}
    let before = fetched.get();
    let allocations = allocated(&mut pass);
    assert!(
        sent.get() > 1000 && fetched.get() - before > 1000,
        "{sent:?} {fetched:?}"
    );
    assert!(
        allocations * GROWTH_ONE_IN <= FAR_PAGES,
        "{allocations} for {FAR_PAGES}"
    );
}

fn store() -> (Worker, TenantId, PoolId) {
    store_with(PageSettings::default())
}

fn store_with(pages: PageSettings) -> (Worker, TenantId, PoolId) {
    let store = Store::new(StoreSettings {
        capacity: MEMORY,
        limit: MEMORY,
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages,
    });
    let store = store.expect("addresses");
    let tenant = TenantSettings {
        name: "web".parse().expect("a name"),
        weight: Default::default(),
        floor: None,
        ceiling: None,
    };
    let tenant = store.add_tenant(tenant).expect("the first");
    let pool = store.create_pool(tenant, PoolFlags::default(), None);
    (
        store.worker().expect("the first"),
        tenant,
        pool.expect("the first"),
    )
}
