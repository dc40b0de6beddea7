//! Targets bind what tenants have here and at lenders together.

use sublet_types::GiveWayOrder;

use super::far::{LEASE, settings};
use super::lender::FakeLender;
use super::*;

const BORROWED: u32 = 12;

/// What tenants may hold here: 10 blocks less the index and the reserve.
const HERE: u32 = 8;

struct TwoTenants {
    store: Arc<Store>,
    clients: [PoolClient; 2],
    lender: FakeLender,
    content: u32,
}

impl TwoTenants {
    fn new() -> TwoTenants {
        let (store, _) = store_with(10, settings(BORROWED));
        let clients = ["ann", "ben"].map(|name| {
            let tenant = tenant(&store, name, 100);
            PoolClient::new(&store, tenant, KEEPING)
        });
        let mut lender = FakeLender::new();
        assert!(lender.lend(&store, LEASE, BORROWED));
        TwoTenants {
            store,
            clients,
            lender,
            content: 0,
        }
    }

    fn set_target(&self, tenant: usize, blocks: u32) {
        let target = Bytes(u64::from(blocks) * BLOCK as u64);
        self.store
            .set_target(self.clients[tenant].tenant, Some(target));
    }

    /// Puts new pages of some tenants, and lets the lender have what is evicted.
    fn put(&mut self, tenants: &[usize], pages: u32) {
        for _ in 0..pages {
            self.content += 1;
            for tenant in tenants {
                let client = &self.clients[*tenant];
                assert!(client.put(1, self.content, 7).is_stored());
            }
            self.lender.settle_all(&self.clients[0].worker, LEASE);
            self.clients[0].worker.keep_far_blocks_ready();
        }
    }

    /// Blocks that a tenant has here and at lenders.
    fn held(&self, tenant: usize) -> (u32, u32) {
        let figures = self.store.tenant_figures(self.clients[tenant].tenant);
        let far = figures.pages.held_at_lenders.0 / 16;
        ((figures.held.0 / BLOCK as u64) as u32, far as u32)
    }
}

/// The far part of a target is target × borrowed ÷ total. What it has here is the rest.
#[test]
fn a_target_is_divided_as_memory_is() {
    for (ann, ben) in [(15, 5), (10, 10), (4, 16), (0, 20)] {
        let mut both = TwoTenants::new();
        both.set_target(0, ann);
        both.set_target(1, ben);
        both.put(&[1], 500);
        if ann > 0 {
            both.put(&[0, 1], 1000);
        }
        while both.clients[0].worker.upkeep(Second(NOW.0 + 1)) {}
        for (tenant, target) in [(0, ann), (1, ben)] {
            let (here, far) = both.held(tenant);
            let part = target * BORROWED / (HERE + BORROWED);
            assert!(
                far <= part && far + 1 >= part,
                "{far} of {part} of {target}"
            );
            assert!(here + far <= target, "{here} and {far} of {target}");
        }
    }
}

/// A tenant that wants more than its part makes room among its own far blocks. The others' pages stay.
#[test]
fn a_tenant_beyond_its_far_part_drops_its_own() {
    let mut both = TwoTenants::new();
    both.set_target(0, 8);
    both.set_target(1, 12);
    both.put(&[0, 1], 400);
    let at_lenders = |both: &TwoTenants| both.clients[1].figures().at_lenders;
    let before = at_lenders(&both);
    assert!(before.0 >= 4 * 16, "{before}");
    let evicted = both.clients[0].figures().tally.evictions;
    both.put(&[0], 1000);
    assert!(both.clients[0].figures().tally.evictions >= evicted + 900);
    assert_eq!(at_lenders(&both), before);
    // It still has young pages there.
    assert!(both.clients[0].figures().at_lenders.0 >= 2 * 16);
}

/// A target that falls takes the oldest far blocks, without a put.
#[test]
fn a_lower_target_takes_far_blocks() {
    let mut both = TwoTenants::new();
    both.set_target(0, 20);
    both.put(&[0], 600);
    assert!(both.held(0).1 >= 11);
    both.set_target(0, 10);
    both.clients[0].worker.keep_far_blocks_ready();
    assert_eq!(both.held(0).1, 6);
}

/// A guard is a part of all memory. Here it keeps that part of what is here, so that no floor is cut for it.
#[test]
fn a_guard_keeps_its_part_of_what_is_here() {
    let both = TwoTenants::new();
    let blocks = |blocks: u32| Bytes(u64::from(blocks) * BLOCK as u64);
    let tenant = both.clients[0].tenant;
    both.store
        .set_guard(tenant, Some(blocks(10)), GiveWayOrder::ByAge);
    let guarded = |both: &TwoTenants| {
        let tenant = both.store.tenants.get(tenant).expect("a tenant");
        tenant.floor_blocks()
    };
    assert_eq!(guarded(&both), 4, "10 of 20 blocks are 4 of 8");
    both.store.end_lease(LEASE);
    both.store
        .set_guard(tenant, Some(blocks(4)), GiveWayOrder::ByAge);
    assert_eq!(guarded(&both), 4, "without a lender, all of it is here");
}
