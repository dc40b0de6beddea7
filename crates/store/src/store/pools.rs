//! The settings of a tenant's pages: pools, targets, evictions.

use std::sync::Arc;

use sublet_types::{
    Bytes, EvictionKind, FreezeState, GiveWayOrder, Pages, PoolFlags, PoolId, Second, SharedName,
    TenantId, WindowEviction,
};

use super::Store;
use crate::api::*;
use crate::items::ItemUse;
use crate::pages::{ShownEviction, SpillSpace, TenantPages};

impl Store {
    /// Makes a pool for a tenant. A persistent one needs a spill file.
    pub fn create_pool(
        &self,
        tenant: TenantId,
        flags: PoolFlags,
        spill: Option<Arc<dyn Spill>>,
    ) -> Result<PoolId, CreatePoolError> {
        let tenant = self.tenants.get(tenant).ok_or(CreatePoolError::NoTenant)?;
        if flags.shared {
            return Err(match flags.persistent {
                true => CreatePoolError::SharedPersistent,
                false => CreatePoolError::NameAndFlag,
            });
        }
        let space = match (flags.persistent, spill) {
            (false, _) => None,
            (true, Some(spill)) => Some(Arc::new(SpillSpace::new(spill))),
            (true, None) => return Err(CreatePoolError::NoSpill),
        };
        self.pages.add_pool(tenant, flags, space)
    }

    /// Sets what leaves with a page of a pool that is evicted. The default is nothing.
    pub fn set_windows(&self, pool: PoolId, windows: WindowEviction) {
        self.pages.pools.set_windows(pool, windows);
    }

    /// Sets whether evicted pages of a pool go to lenders. The default is that they do.
    pub fn set_sending(&self, pool: PoolId, sending: PageSending) {
        self.pages.pools.set_sending(pool, sending);
    }

    /// Allows only `members` to share a pool. Its pages are charged to the tenant `account`.
    pub fn allow_sharing(
        &self,
        name: SharedName,
        account: TenantId,
        members: Vec<TenantId>,
    ) -> Result<(), CreatePoolError> {
        let tenant = self.tenants.get(account);
        let tenant = tenant.ok_or(CreatePoolError::NoTenant)?;
        self.pages.allow_sharing(name, account, members)?;
        self.pages.set_keeping(tenant);
        Ok(())
    }

    /// Makes a handle for a tenant on a shared pool that it may share.
    pub fn join_pool(&self, tenant: TenantId, name: SharedName) -> Result<PoolId, CreatePoolError> {
        self.tenants.get(tenant).ok_or(CreatePoolError::NoTenant)?;
        self.pages.join(tenant, name)
    }

    /// The pools of a tenant, with their flags.
    pub fn pools(&self, tenant: TenantId) -> Vec<(PoolId, PoolFlags)> {
        let pools = self.pages.pools.of_tenant(tenant);
        pools
            .into_iter()
            .map(|(id, pool)| (id, pool.flags))
            .collect()
    }

    /// The pages in memory of a pool. A handle on a shared pool has none. Pages of memory that was just released may
    /// count until the store has swept it.
    pub fn pool_pages(&self, pool: PoolId) -> Pages {
        match self.pages.pools.is_alive(pool) {
            true => Pages(self.pages.frames.of_pools().of(pool.slot)),
            false => Pages(0),
        }
    }

    /// Sets a tenant's policy target. `None` leaves the tenant to its ceiling. The chores bring a tenant that holds
    /// more down to it, unless the store was told not to.
    ///
    /// The target binds what the tenant has here and at lenders together. At lenders it may have the part of it that
    /// borrowed blocks are of all that tenants may hold.
    pub fn set_target(&self, tenant: TenantId, target: Option<Bytes>) {
        if let Some(tenant) = self.tenants.get(tenant) {
            tenant.set_target(target);
        }
    }

    /// Makes a tenant's memory part of one pool, from which the oldest content goes first, whoever owns it. The tenant
    /// keeps `guard` in any case and gives the rest in its turn. `None` lets weights decide which tenant gives way.
    ///
    /// A guard is a part of all that tenants may hold, here and at lenders. It keeps the same part of what is here.
    pub fn set_guard(&self, tenant: TenantId, guard: Option<Bytes>, giving: GiveWayOrder) {
        if let Some(tenant) = self.tenants.get(tenant) {
            let guard = guard.map(|guard| self.part_here(guard));
            tenant.set_guard(guard, giving);
        }
    }

    /// Refuses a tenant's new pages from now on, or takes them again. Gets, flushes and replacements go on (R-M1).
    pub fn set_freeze_state(&self, tenant: TenantId, state: FreezeState) {
        if let Some(tenant) = self.tenants.get(tenant) {
            self.pages.tenant_pages(tenant).set_freeze_state(state);
        }
    }

    /// Returns whether a tenant's new pages are refused.
    pub fn is_frozen(&self, tenant: TenantId) -> bool {
        let tenant = self.tenants.get(tenant);
        let tenant_pages = tenant.and_then(|tenant| self.pages.existing_tenant_pages(tenant));
        tenant_pages.is_some_and(|tenant_pages| tenant_pages.is_frozen())
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

    /// The eviction that a tenant's ephemeral pages have. This is never [`EvictionKind::Auto`].
    pub fn ruling_eviction(&self, tenant: TenantId) -> EvictionKind {
        self.shown_eviction(tenant).ruling
    }

    fn shown_eviction(&self, tenant: TenantId) -> ShownEviction {
        let tenant = self.tenants.get(tenant);
        let tenant_pages = tenant.and_then(|tenant| self.pages.existing_tenant_pages(tenant));
        tenant_pages.map_or_else(ShownEviction::default, TenantPages::eviction)
    }

    /// Moves the uses of a tenant's sampled pages since the last call to the end of `into`, in order. The sample is one
    /// page in [`SAMPLE_ONE_IN`], by hash.
    pub fn drain_samples(&self, tenant: TenantId, into: &mut Vec<(u64, SampledUse)>) {
        let tenant = self.tenants.get(tenant);
        if let Some(tenant_pages) =
            tenant.and_then(|tenant| self.pages.existing_tenant_pages(tenant))
        {
            tenant_pages.samples().drain(into);
        }
    }

    /// Does the same for its items.
    pub fn drain_item_uses(&self, tenant: TenantId, into: &mut Vec<(u64, ItemUse)>) {
        if let Some(tenant) = self.tenants.get(tenant) {
            self.items.tenant_items(tenant).samples.drain(into);
        }
    }

    /// The figures of a tenant's pages now.
    pub fn page_figures(&self, tenant: TenantId) -> PageFigures {
        let tenant = self.tenants.get(tenant);
        let figures = tenant.map(|tenant| {
            self.pages
                .figures(tenant, self.arena.live_totals(tenant.id))
        });
        figures.unwrap_or_default()
    }

    /// The memory that the page store takes for its own bookkeeping.
    pub fn page_overhead(&self) -> PageOverhead {
        self.pages.overhead()
    }
}
