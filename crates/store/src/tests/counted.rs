//! Compares what is counted as it comes and goes with what a walk through all memory finds.

use std::collections::HashMap;

use super::*;
use crate::arena::{BlockOwner, LiveTotals, PageKind};
use crate::engine::Engine;

/// Compares every counter with a walk through all blocks and frames. Nobody else uses the store meanwhile.
pub(super) fn assert_counted(store: &Store) {
    while store.pages.chores(NOW) {}
    store.arena.drain_limbo();
    let arena = &store.arena;
    let (mut found, mut owned) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
    for (id, block) in arena.blocks() {
        let living: &mut LiveTotals = match block.owner() {
            BlockOwner::None | BlockOwner::Lent => continue,
            BlockOwner::Items(tenant) | BlockOwner::Pages(tenant, _) => {
                found.entry(tenant).or_default()
            }
        };
        match block.owner() {
            BlockOwner::Pages(..) => living.pages += u64::from(block.live_items()),
            _ => {
                living.items += u64::from(block.live_items());
                living.bytes += u64::from(block.live_bytes());
            }
        }
        owned
            .entry(format!("{:?}", block.owner()))
            .or_default()
            .push(id);
    }
    for figures in store.tenants() {
        let counted = arena.live_totals(figures.id);
        let walked = found.get(&figures.id).copied().unwrap_or_default();
        assert_eq!(counted, walked, "of {}", figures.settings.name);
        let tenant = store.tenants.get(figures.id).expect("a tenant");
        let engines: [(&dyn Engine, _); 2] = [
            (&store.items, BlockOwner::Items(figures.id)),
            (
                &store.pages,
                BlockOwner::Pages(figures.id, PageKind::Ephemeral),
            ),
        ];
        for (engine, owner) in engines {
            let listed = engine.blocks_of(tenant);
            let listed = listed.map_or_else(Vec::new, |listed| listed.all_blocks(arena));
            let walked = owned.remove(&format!("{owner:?}")).unwrap_or_default();
            assert_eq!(listed, walked, "the blocks of {owner:?}");
        }
    }
    assert_pools(store);
}

/// Does the same for pools.
fn assert_pools(store: &Store) {
    let mut found: HashMap<u32, u64> = HashMap::new();
    let of_pages = |claimant| matches!(claimant, BlockOwner::Pages(..));
    let blocks = store.arena.blocks();
    let own = blocks.filter(|(_, block)| of_pages(block.owner()));
    for frame in own.flat_map(|(id, _)| store.pages.frames.of_block(id)) {
        let facts = store.pages.frames.get(frame);
        if facts.is_live() {
            *found.entry(facts.key().pool).or_default() += 1;
        }
    }
    let figures = store.all_figures();
    for pool in &figures.pools {
        let walked = found.get(&pool.id.slot).copied().unwrap_or(0);
        assert_eq!(pool.pages.0, walked, "pages of {pool:?}");
    }
    for tenant in &figures.tenants {
        let own = figures.pools.iter().filter(|pool| pool.tenant == tenant.id);
        assert_eq!(tenant.pools as usize, own.count(), "{tenant:?}");
        assert_eq!(tenant.pools as usize, store.pools(tenant.id).len());
    }
    for pool in 0..64 {
        let counted = store.pages.frames.of_pools().of(pool);
        let walked = found.get(&pool).copied().unwrap_or(0);
        assert_eq!(counted, walked, "pages of pool {pool}");
    }
}
