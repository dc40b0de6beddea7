//! A flush never fails for want of memory (R-F3, B8), even if every allocation fails.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;

use sublet_store::{GetOutcome, PageKey, PageSettings, Spill, Store, StoreSettings, Worker};
use sublet_types::{
    Bytes, EvictionKind, ObjectId, PageIndex, PoolFlags, PoolId, Second, SharedName, TenantId,
    TenantSettings,
};

thread_local! {
    static EXHAUSTED: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, which can be made to fail for a thread.
struct FailingAllocator;

impl FailingAllocator {
    fn is_exhausted() -> bool {
        EXHAUSTED.try_with(Cell::get).unwrap_or_default()
    }
}

// SAFETY: memory is the system's, or none.
unsafe impl GlobalAlloc for FailingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match FailingAllocator::is_exhausted() {
            true => null_mut(),
            // SAFETY: as the caller promises.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static HEAP: FailingAllocator = FailingAllocator;

/// Runs `work` while every allocation fails. Code that cannot bear that aborts.
fn without_memory<T>(work: impl FnOnce() -> T) -> T {
    EXHAUSTED.set(true);
    let done = work();
    EXHAUSTED.set(false);
    done
}

const NOW: Second = Second(2);
const NAME: SharedName = SharedName(7);

/// Pages of an object: more than a worker has room for without more memory.
const PAGES: u32 = 1500;

/// Accepts every page and gives none back.
struct BottomlessSpill;

impl Spill for BottomlessSpill {
    fn slots(&self) -> u32 {
        1 << 20
    }

    fn write(&self, _: u32, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }

    fn read(&self, _: u32, _: &mut [u8]) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn r_f3_b8_a_flush_works_where_every_allocation_fails() {
    let (worker, tenant) = store();
    let pools = pools(worker.store(), tenant);
    for (pool, eviction) in pools
        .into_iter()
        .flat_map(|pool| EVICTIONS.map(|kind| (pool, kind)))
    {
        worker.store().set_eviction(tenant, eviction, NOW);
        // Dense, sparse, and so far apart that a flush finds the object by a look at every page.
        for stride in [1, 1000, 1 << 21] {
            for object in [1, 2] {
                fill(&worker, tenant, pool, object, stride);
            }
            if pool == pools[PERSISTENT] && stride > 1 {
                go_to_disk(&worker, tenant);
            }
            let flushed = without_memory(|| {
                (0..PAGES).all(|n| worker.flush_page(tenant, key(pool, 1, n * stride), NOW))
                    && worker.flush_object(tenant, pool, ObjectId(2), NOW)
            });
            assert!(flushed);
            for (object, n) in [1, 2]
                .into_iter()
                .flat_map(|o| (0..PAGES).map(move |n| (o, n)))
            {
                let got = worker.get_page(tenant, key(pool, object, n * stride), NOW, |_| ());
                assert_eq!(
                    got,
                    GetOutcome::Miss,
                    "stride {stride}, object {object}, page {n}"
                );
            }
        }
    }
}

/// The usual eviction, one without ghosts, and one that remembers files.
const EVICTIONS: [EvictionKind; 3] = [EvictionKind::XS3h, EvictionKind::Lru, EvictionKind::File];

/// Which of the pools is persistent.
const PERSISTENT: usize = 1;

/// A pool that takes what is got, a persistent one, one that keeps, and a shared one.
fn pools(store: &Arc<Store>, tenant: TenantId) -> [PoolId; 4] {
    let account = store.add_tenant(settings("account")).expect("the second");
    store
        .allow_sharing(NAME, account, vec![tenant])
        .expect("allowed");
    let none = PoolFlags::default();
    let keeping = PoolFlags {
        keeping: true,
        ..none
    };
    let persistent = PoolFlags {
        persistent: true,
        ..none
    };
    let spill = Some(Arc::new(BottomlessSpill) as Arc<dyn Spill>);
    let made = [
        store.create_pool(tenant, none, None),
        store.create_pool(tenant, persistent, spill),
        store.create_pool(tenant, keeping, None),
        store.join_pool(tenant, NAME),
    ];
    made.map(|pool| pool.expect("a pool"))
}

fn key(pool: PoolId, object: u64, index: u32) -> PageKey {
    PageKey {
        pool,
        object: ObjectId(object),
        index: PageIndex(index),
    }
}

fn fill(worker: &Worker, tenant: TenantId, pool: PoolId, object: u64, stride: u32) {
    for n in 0..PAGES {
        let key = key(pool, object, n * stride);
        let put = worker.put_page(tenant, key, NOW, |page| page[0] = 2);
        assert!(put.is_stored());
    }
}

/// Makes a tenant's persistent pages leave memory, and lets the tenant grow again.
fn go_to_disk(worker: &Worker, tenant: TenantId) {
    let store = worker.store();
    store.set_target(tenant, Some(Bytes::ZERO));
    for second in 3..60 {
        worker.upkeep(Second(second));
    }
    let on_disk = store.page_figures(tenant).on_disk.0;
    assert_eq!(on_disk, 2 * u64::from(PAGES));
    store.set_target(tenant, None);
}

fn settings(name: &str) -> TenantSettings {
    TenantSettings {
        name: name.parse().expect("a name"),
        weight: Default::default(),
        floor: None,
        ceiling: None,
    }
}

fn store() -> (Worker, TenantId) {
    let memory = Bytes::mib(64);
    let store = Store::new(StoreSettings {
        capacity: memory,
        limit: memory,
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings::default(),
    });
    let store = store.expect("addresses");
    let tenant = store.add_tenant(settings("web")).expect("the first");
    (store.worker().expect("the first"), tenant)
}
