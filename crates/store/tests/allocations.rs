//! A put under memory pressure allocates nothing (P3): its frame is another page's, and so is its place in the
//! directory. Only where many pages change between places of their own and an extent's does a shard's directory grow,
//! by a quarter at a time.

use sublet_store::{PageKey, PageSettings, Put, Store, StoreSettings, Worker};
use sublet_types::{
    Bytes, ObjectId, PAGE_BYTES, PageIndex, PoolFlags, PoolId, Second, TenantId, TenantSettings,
};

const MEMORY: Bytes = Bytes::mib(64);
const NOW: Second = Second(2);

/// Of so many puts one may make a directory grow.
const GROWTH_ONE_IN: u64 = 1000;

/// Objects that the pages are spread over.
const OBJECTS: u64 = 512;

#[test]
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
    let counted = allocation_counter::measure(|| {
        displaced = (0..pages).filter(|_| put() == Put::Displaced).count() as u64;
    });
    assert!(displaced > pages / 2, "{displaced} of {pages}");
    let allocations = counted.count_total;
    assert!(
        allocations * GROWTH_ONE_IN <= displaced,
        "{allocations} for {displaced}"
    );
}

fn store() -> (Worker, TenantId, PoolId) {
    let store = Store::new(StoreSettings {
        capacity: MEMORY,
        limit: MEMORY,
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings::default(),
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
