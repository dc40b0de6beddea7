//! What a tenant's pages are given, and what they are told to be: pools, targets, evictions.

use std::sync::Arc;

use sublet_types::{
    Bytes, EvictionKind, Giving, Pages, PoolFlags, PoolId, Second, SharedName, TenantId, Windows,
};

use super::Store;
use crate::api::*;
use crate::items::ItemUse;
use crate::pages::{Holdings, ShownEviction, Space};

impl Store {
    /// Makes a pool for a tenant. A persistent one needs a spill file.
    pub fn create_pool(
        &self,
        tenant: TenantId,
        flags: PoolFlags,
        spill: Option<Arc<dyn Spill>>,
    ) -> Result<PoolId, PoolError> {
        let tenant = self.tenants.get(tenant).ok_or(PoolError::NoTenant)?;
        if flags.shared {
            return Err(match flags.persistent {
                true => PoolError::SharedPersistent,
                false => PoolError::NameAndFlag,
            });
        }
        let space = match (flags.persistent, spill) {
            (false, _) => None,
            (true, Some(spill)) => Some(Arc::new(Space::new(spill))),
            (true, None) => return Err(PoolError::NoSpill),
        };
        self.pages.add_pool(tenant, flags, space)
    }

    /// Says what leaves with a page of a pool that is evicted: nothing, unless it is said.
    pub fn set_windows(&self, pool: PoolId, windows: Windows) {
        self.pages.pools.set_windows(pool, windows);
    }

    /// Allows `members`, and nobody else, to share a pool. Its pages are charged to the tenant `account`.
    pub fn allow_sharing(
        &self,
        name: SharedName,
        account: TenantId,
        members: Vec<TenantId>,
    ) -> Result<(), PoolError> {
        let tenant = self.tenants.get(account);
        let tenant = tenant.ok_or(PoolError::NoTenant)?;
        self.pages.allow_sharing(name, account, members)?;
        self.pages.keep_read(tenant);
        Ok(())
    }

    /// A handle for a tenant on a shared pool that it may share.
    pub fn join_pool(&self, tenant: TenantId, name: SharedName) -> Result<PoolId, PoolError> {
        self.tenants.get(tenant).ok_or(PoolError::NoTenant)?;
        self.pages.join(tenant, name)
    }

    /// The pools of a tenant, with what they promise.
    pub fn pools(&self, tenant: TenantId) -> Vec<(PoolId, PoolFlags)> {
        let pools = self.pages.pools.of_tenant(tenant);
        pools
            .into_iter()
            .map(|(id, pool)| (id, pool.flags))
            .collect()
    }

    /// Pages in memory of a pool; of a handle on a shared pool none. Those of memory that was released just now may count until it is
    /// swept.
    pub fn pool_pages(&self, pool: PoolId) -> Pages {
        match self.pages.pools.is_alive(pool) {
            true => Pages(self.pages.frames.of_pools().of(pool.slot)),
            false => Pages(0),
        }
    }

    /// Says how much a tenant may hold from now on, by policy; `None` leaves it to its ceiling. Who holds more
    /// is brought down by the chores, unless the store was told to leave that alone.
    pub fn set_target(&self, tenant: TenantId, target: Option<Bytes>) {
        if let Some(tenant) = self.tenants.get(tenant) {
            tenant.set_target(target);
        }
    }

    /// Has a tenant's memory be a part of one pool, of which the oldest goes first, whoever's it is; so much it keeps in any case, and gives
    /// the rest in its turn. `None` leaves to weights who gives way.
    pub fn set_guard(&self, tenant: TenantId, guard: Option<Bytes>, giving: Giving) {
        if let Some(tenant) = self.tenants.get(tenant) {
            tenant.set_guard(guard, giving);
        }
    }

    /// Refuses a tenant's new pages from now on, or takes them again. Gets, flushes and replacements go on (R-M1).
    pub fn freeze(&self, tenant: TenantId, frozen: bool) {
        if let Some(tenant) = self.tenants.get(tenant) {
            self.pages.holdings(tenant).freeze(frozen);
        }
    }

    /// Whether a tenant's new pages are refused.
    pub fn is_frozen(&self, tenant: TenantId) -> bool {
        let tenant = self.tenants.get(tenant);
        let holdings = tenant.and_then(|tenant| self.pages.known(tenant));
        holdings.is_some_and(|holdings| holdings.is_frozen())
    }

    /// Chooses the eviction of a tenant's ephemeral pages.
    pub fn set_eviction(&self, tenant: TenantId, kind: EvictionKind, now: Second) {
        if let Some(tenant) = self.tenants.get(tenant) {
            self.pages.set_eviction(tenant, kind, now);
        }
    }

    /// Which eviction was chosen for a tenant's ephemeral pages.
    pub fn eviction(&self, tenant: TenantId) -> EvictionKind {
        self.shown_eviction(tenant).chosen
    }

    /// Which eviction a tenant's ephemeral pages have: never [`EvictionKind::Auto`].
    pub fn ruling_eviction(&self, tenant: TenantId) -> EvictionKind {
        self.shown_eviction(tenant).ruling
    }

    fn shown_eviction(&self, tenant: TenantId) -> ShownEviction {
        let tenant = self.tenants.get(tenant);
        let holdings = tenant.and_then(|tenant| self.pages.known(tenant));
        holdings.map_or_else(ShownEviction::default, Holdings::eviction)
    }

    /// Moves what was noted of a tenant's followed pages since the last call to the end of `into`, in its order: one
    /// page in [`SAMPLE_ONE_IN`], by its hash.
    pub fn drain_samples(&self, tenant: TenantId, into: &mut Vec<(u64, SampledUse)>) {
        let tenant = self.tenants.get(tenant);
        if let Some(holdings) = tenant.and_then(|tenant| self.pages.known(tenant)) {
            holdings.samples().drain(into);
        }
    }

    /// The same of its items.
    pub fn drain_item_uses(&self, tenant: TenantId, into: &mut Vec<(u64, ItemUse)>) {
        if let Some(tenant) = self.tenants.get(tenant) {
            self.items.part(tenant).followed.drain(into);
        }
    }

    /// What a tenant's pages are, now.
    pub fn page_figures(&self, tenant: TenantId) -> PageFigures {
        let tenant = self.tenants.get(tenant);
        let figures = tenant.map(|tenant| self.pages.figures(tenant, self.arena.living(tenant.id)));
        figures.unwrap_or_default()
    }

    /// What the page store's own facts take.
    pub fn page_overhead(&self) -> PageOverhead {
        self.pages.overhead()
    }
}
