//! The store's figure of what it holds matches what the process has in memory.

use sublet_store::{NewCas, NewItem, Release, Store, StoreSettings, Worker};
use sublet_types::{Bytes, Expiry, PAGE_BYTES, ReleaseMode, Second, TenantId, TenantSettings};

const ARENA: Bytes = Bytes::mib(192);
const NOW: Second = Second(2);

/// The test's own memory and the allocator's.
const SLACK: Bytes = Bytes::mib(8);

fn resident() -> Bytes {
    let text = std::fs::read_to_string("/proc/self/statm").expect("a Linux");
    let pages = text.split(' ').nth(1).expect("a second figure");
    Bytes(pages.parse::<u64>().expect("pages") * PAGE_BYTES)
}

fn fill(worker: &Worker, tenant: TenantId) {
    let value = vec![b'v'; 50_000];
    let new = NewItem {
        flags: 0,
        expiry: Expiry::Never,
        marks: Default::default(),
        cas: NewCas::Fresh,
        value: &[&value],
    };
    for key in 0..5000u32 {
        let stored = worker.update(tenant, &key.to_le_bytes(), NOW, |entry| entry.store(&new));
        stored.expect("room");
    }
}

#[test]
fn memory_that_is_given_back_leaves_the_process() {
    let store = Store::new(StoreSettings {
        capacity: ARENA,
        limit: ARENA,
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: sublet_store::PageSettings::default(),
    })
    .expect("memory for a test");
    let tenant = store.add_tenant(TenantSettings {
        name: "ann".parse().expect("a name"),
        weight: Default::default(),
        floor: None,
        ceiling: None,
    });
    let tenant = tenant.expect("added");
    let worker = store.worker().expect("a worker");
    let empty = resident() - store.figures().held;
    let agrees = || {
        let (held, resident) = (store.figures().held, resident() - empty);
        let apart = Bytes(held.0.abs_diff(resident.0));
        assert!(apart <= SLACK, "{held} held, {resident} resident");
    };
    fill(&worker, tenant);
    assert!(store.figures().held >= ARENA - SLACK);
    agrees();
    for mode in [ReleaseMode::Fast, ReleaseMode::Ordered] {
        let amount = Bytes::mib(64);
        store.set_limit(store.figures().held - amount);
        let release = Release {
            amount,
            mode,
            tenant: None,
        };
        assert_eq!(worker.release(release, NOW).bytes, amount, "{mode:?}");
        agrees();
    }
}
