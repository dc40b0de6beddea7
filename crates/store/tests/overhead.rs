//! What keys and records of pages take beside the pages, in a full store.

use sublet_store::{PageKey, PageSettings, Store, StoreSettings};
use sublet_types::{Bytes, ObjectId, PAGE_BYTES, PageIndex, PoolFlags, Second, TenantSettings};

const ARENA: Bytes = Bytes::mib(256);
const NOW: Second = Second(2);

/// Bytes of keys and records per byte of pages, when the arena is full of pages at these places.
fn share(place_of: impl Fn(u64) -> (u64, u32)) -> f64 {
    let store = Store::new(StoreSettings {
        capacity: ARENA,
        limit: ARENA,
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings::default(),
    });
    let store = store.expect("memory for a test");
    let tenant = store.add_tenant(TenantSettings {
        name: "ann".parse().expect("a name"),
        weight: Default::default(),
        floor: None,
        ceiling: None,
    });
    let tenant = tenant.expect("added");
    let pool = store.create_pool(tenant, PoolFlags::default(), None);
    let pool = pool.expect("a pool");
    let worker = store.worker().expect("a worker");
    let mut page = [7; PAGE_BYTES as usize];
    page[0] = 8;
    // Half as many again as there is room for, so that the arena is full and pages have left their places.
    for n in 0..ARENA.0 * 3 / 2 / PAGE_BYTES {
        let (object, index) = place_of(n);
        let key = PageKey {
            pool,
            object: ObjectId(object),
            index: PageIndex(index),
        };
        worker.put_page(tenant, key, NOW, |blank| blank.write(&page));
    }
    let (overhead, used) = (store.page_overhead(), store.page_figures(tenant).used);
    assert!(used.bytes().0 > ARENA.0 * 9 / 10, "it is full: {used}");
    (overhead.directory + overhead.frames) as f64 / used.bytes().0 as f64
}

#[test]
fn keys_and_facts_take_two_percent_where_objects_are_dense() {
    let dense = share(|n| (n / 512, (n % 512) as u32));
    assert!(dense <= 0.02, "{dense}");
}

#[test]
fn keys_and_facts_take_three_and_a_half_percent_where_every_page_stands_alone() {
    let sparse = share(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15), 0));
    assert!(sparse <= 0.035, "{sparse}");
    let scattered = share(|n| (n, (n.wrapping_mul(0x9E37_79B1) & 0xFFFF_FFFF) as u32));
    assert!(scattered <= 0.035, "{scattered}");
}
