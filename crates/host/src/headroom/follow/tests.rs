use std::sync::atomic::{AtomicU64, Ordering};

use sublet_store::{Store, StoreSettings};
use sublet_types::{Expiry, TenantId, TenantSettings, Weight};

use super::*;
use crate::headroom::HostReadError;
use crate::observe::events::Actor;

/// A host whose programs take what the test says. The arena's own memory counts as used.
struct Replay {
    store: Arc<Store>,
    memory: Bytes,
    programs: Arc<AtomicU64>,
}

impl ReadHost for Replay {
    fn read(&mut self, at: Duration) -> Result<HostFigures, HostReadError> {
        let used = Bytes(self.programs.load(Ordering::Relaxed)) + self.store.figures().held;
        Ok(HostFigures {
            at,
            memory: self.memory,
            free: self.memory - used,
            ..HostFigures::default()
        })
    }
}

struct TestHost {
    follower: ArenaFollower<Replay>,
    programs: Arc<AtomicU64>,
    store: Arc<Store>,
    tenants: [TenantId; 2],
}

const MEMORY: Bytes = Bytes::mib(256);
/// A quarter of the memory.
const RESERVE: Bytes = Bytes::mib(64);

impl TestHost {
    fn new() -> TestHost {
        let store = Store::new(StoreSettings {
            capacity: MEMORY,
            limit: Bytes::ZERO,
            item_max: Bytes::mib(1),
            seed: 7,
            evicts: true,
            pages: sublet_store::PageSettings::default(),
        })
        .expect("a store");
        let tenants = ["web", "shop"].map(|name| {
            let settings = TenantSettings {
                name: name.parse().expect("a name"),
                weight: Weight::default(),
                floor: None,
                ceiling: None,
            };
            store.add_tenant(settings).expect("a tenant")
        });
        let programs = Arc::new(AtomicU64::new(0));
        let host = Replay {
            store: Arc::clone(&store),
            memory: MEMORY,
            programs: Arc::clone(&programs),
        };
        let worker = store.worker().expect("a worker");
        TestHost {
            follower: ArenaFollower::new(host, worker, Clock::start(), HeadroomSettings::default()),
            programs,
            store,
            tenants,
        }
    }

    fn fill(&self, tenant: TenantId, amount: Bytes) {
        let worker = self.store.worker().expect("a worker");
        let value = vec![b'v'; 100_000];
        for n in 0..amount.0 / value.len() as u64 {
            let new = sublet_store::NewItem {
                flags: 0,
                expiry: Expiry::Never,
                marks: Default::default(),
                cas: sublet_store::NewCas::Fresh,
                value: &[&value],
            };
            let key = format!("key-{n}");
            let now = sublet_types::Second(2);
            let _ = worker.update(tenant, key.as_bytes(), now, |entry| entry.store(&new));
        }
    }

    fn held(&self) -> Bytes {
        self.store.figures().held
    }

    fn allocate(&self, amount: Bytes) {
        self.programs.store(amount.0, Ordering::Relaxed);
    }
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_first_turn_sets_the_limit_to_all_but_the_reserve() {
    let mut scene = TestHost::new();
    scene.follower.iterate(at(0));
    assert_eq!(scene.store.figures().limit, MEMORY - RESERVE);
}

#[test]
fn what_the_host_takes_is_given_back() {
    let mut scene = TestHost::new();
    scene.follower.iterate(at(0));
    scene.fill(scene.tenants[0], Bytes::mib(150));
    let before = scene.held();
    scene.allocate(Bytes::mib(120));
    for turn in 0..3 {
        scene.follower.iterate(at(1000 + turn));
    }
    let most = MEMORY - Bytes::mib(120) - RESERVE;
    assert!(
        before > most && scene.held() <= most,
        "{} to {}",
        before,
        scene.held()
    );
    let figures = *scene.follower.figures().lock();
    assert!(figures.releases.ordered + figures.releases.fast > 0);
    assert_eq!(figures.held, scene.held());
}

#[test]
fn an_order_is_carried_out_and_held() {
    let mut scene = TestHost::new();
    scene.follower.iterate(at(0));
    scene.fill(scene.tenants[0], Bytes::mib(150));
    let before = scene.held();
    let order = ReleaseOrder {
        amount: Bytes::mib(100),
        mode: None,
        tenant: None,
        hold: Duration::from_secs(60),
        by: Actor::Daemon,
    };
    let took = scene
        .follower
        .release_by_hand(order, || at(1000))
        .expect("done");
    assert!(took.released.bytes >= Bytes::mib(100), "{took:?}");
    assert_eq!(took.mode, ReleaseMode::Ordered);
    scene.follower.iterate(at(30_000));
    assert_eq!(scene.store.figures().limit, before - Bytes::mib(100));
    scene.follower.iterate(at(61_100));
    scene.follower.iterate(at(62_100));
    assert!(scene.store.figures().limit > before - Bytes::mib(100));
}

#[test]
fn an_order_for_one_tenant_leaves_the_others_alone() {
    let mut scene = TestHost::new();
    scene.follower.iterate(at(0));
    scene.fill(scene.tenants[0], Bytes::mib(40));
    scene.fill(scene.tenants[1], Bytes::mib(40));
    let order = ReleaseOrder {
        amount: Bytes::gib(1),
        mode: Some(ReleaseMode::Fast),
        tenant: Some(scene.tenants[1]),
        hold: Duration::ZERO,
        by: Actor::Daemon,
    };
    scene
        .follower
        .release_by_hand(order, || at(1000))
        .expect("done");
    let left = scene.store.tenants();
    assert!(left[0].held >= Bytes::mib(38), "{}", left[0].held);
    assert!(left[1].held <= Bytes::mib(8), "{}", left[1].held);
}
