//! Figures of the store, its tenants and its pools at one moment.
//!
//! A caller reads counters that others move. It waits for nobody who puts, gets or releases. It costs the same however
//! much memory there is.

use std::collections::HashMap;

use sublet_types::{Bytes, Pages, PoolId, Second, TenantId};

use super::Store;
use crate::api::{AllFigures, PoolFigures, StoreFigures, TenantFigures};
use crate::arena::LiveTotals;
use crate::pages::Pool;
use crate::tenants::Tenant;

impl Store {
    /// All figures now. The cost grows with tenants and pools only.
    pub fn all_figures(&self) -> AllFigures {
        let (tenants, all) = self.each_tenant();
        AllFigures {
            store: self.figures_with(all),
            tenants,
            pools: self.pool_figures(),
        }
    }

    /// Every tenant now.
    pub fn tenants(&self) -> Vec<TenantFigures> {
        self.each_tenant().0
    }

    /// Every tenant, and the live amounts of all tenants, including removed ones.
    fn each_tenant(&self) -> (Vec<TenantFigures>, LiveTotals) {
        let weights = self.tenants.weights();
        let mut all = LiveTotals::default();
        let mut tenants = Vec::with_capacity(self.tenants.len());
        for tenant in self.tenants.iter() {
            let living = self.arena.live_totals(tenant.id);
            all += living;
            if !tenant.is_gone() {
                tenants.push(self.figures_of(tenant, living, weights));
            }
        }
        (tenants, all)
    }

    /// One tenant now. Its number must come from [`add_tenant`](Store::add_tenant).
    pub fn tenant_figures(&self, id: TenantId) -> TenantFigures {
        let tenant = self.tenants.get(id).expect("a tenant of this store");
        self.figures_of(tenant, self.arena.live_totals(id), self.tenants.weights())
    }

    /// The whole store now.
    pub fn figures(&self) -> StoreFigures {
        let living = self.tenants.iter();
        let living = living.map(|tenant| self.arena.live_totals(tenant.id));
        self.figures_with(living.sum())
    }

    fn figures_with(&self, all: LiveTotals) -> StoreFigures {
        let arena = &self.arena;
        StoreFigures {
            limit: self.bytes(arena.limit()),
            held: self.bytes(arena.held()),
            free: self.bytes(arena.ready()),
            limbo: self.bytes(arena.in_limbo() as u32),
            index: self.bytes(self.items.index_blocks() as u32),
            reserve: self.bytes(arena.reserve() as u32),
            used: Bytes(all.bytes),
            items: all.items,
            far: self.pages.far_figures(),
        }
    }

    /// When the oldest of a tenant's items was stored, or last moved to make room. This is precise to within the other
    /// items of its block. It takes the locks of the tenant's open segments.
    pub fn oldest_item(&self, id: TenantId) -> Option<Second> {
        let tenant = self.tenants.get(id)?;
        let has_items = self.arena.live_totals(id).items > 0;
        let segments = &self.items.tenant_items(tenant).segments;
        has_items.then(|| segments.oldest_opened(&self.arena))?
    }

    fn figures_of(&self, tenant: &Tenant, living: LiveTotals, weights: u64) -> TenantFigures {
        let tally = &self.items.tenant_items(tenant).tally;
        let (gave, got) = tenant.traded();
        let tenant_pages = self.pages.existing_tenant_pages(tenant);
        let eviction = tenant_pages.map(|tenant_pages| tenant_pages.eviction());
        let eviction = eviction.unwrap_or_default();
        TenantFigures {
            id: tenant.id,
            settings: tenant.settings(),
            held: self.bytes(tenant.held()),
            used: Bytes(living.bytes),
            items: living.items,
            evictions: tally.evictions.get(),
            displaced: tally.displaced.get(),
            evicted_unfetched: tally.evicted_unfetched.get(),
            reclaimed: tally.reclaimed.get(),
            expired_unfetched: tally.expired_unfetched.get(),
            target: tenant.target(),
            gave: self.bytes_of(gave),
            got: self.bytes_of(got),
            pages: self.pages.figures(tenant, living),
            pools: self.pages.pools.count(tenant.id),
            eviction: eviction.chosen,
            ruling_eviction: eviction.ruling,
            borrowing: self.pages.borrowing(tenant),
            is_frozen: tenant_pages.is_some_and(|tenant_pages| tenant_pages.is_frozen()),
            fairness: tenant.fairness(weights, self.arena.limit()),
        }
    }

    /// Every pool, in the order of their slots. A shared pool belongs to the tenant that is charged; handles on it have
    /// no pages of their own.
    fn pool_figures(&self) -> Vec<PoolFigures> {
        let mut sharers: HashMap<u32, u32> = HashMap::new();
        let counted = self.pages.frames.of_pools();
        let look = |(id, tenant, pool): (PoolId, TenantId, Pool)| {
            let is_handle = pool.base != id.slot;
            if is_handle {
                *sharers.entry(pool.base).or_default() += 1;
            }
            let pages = (!is_handle).then(|| counted.of(id.slot));
            PoolFigures {
                id,
                tenant,
                pages: Pages(pages.unwrap_or(0)),
                sharers: 0,
            }
        };
        let mut pools: Vec<PoolFigures> = self.pages.pools.all().map(look).collect();
        for pool in &mut pools {
            pool.sharers = sharers.get(&pool.id.slot).copied().unwrap_or(0);
        }
        pools
    }
}

impl AllFigures {
    /// Pages in memory that each tenant is charged for and that two or more tenants share: Synergy's shared pages.
    pub fn shared_pages(&self) -> HashMap<TenantId, Pages> {
        let mut shared: HashMap<TenantId, Pages> = HashMap::new();
        for pool in self.pools.iter().filter(|pool| pool.sharers > 1) {
            shared.entry(pool.tenant).or_default().0 += pool.pages.0;
        }
        shared
    }
}
