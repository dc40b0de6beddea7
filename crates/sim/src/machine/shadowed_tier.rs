//! Miss-ratio curves beside a tier. A sample of its events feeds each tenant's shadow, and snapshots carry the curves
//! that policies may ask for.

use sublet_policy::mrc::{ENTRIES_MAX, PageAccess, Shadow, is_sampled};
use sublet_types::{GiveWayOrder, Pages, Snapshot, TenantId};

use super::tier::{
    PageStamp, PoolKind, Tier, TierCounts, TierGetOutcome, TierPage, TierPutOutcome,
};
use crate::rng::mixed;
use crate::virtual_time::VirtualInstant;

/// A tier with shadows beside it.
pub(crate) struct ShadowedTier<'a> {
    tier: &'a mut dyn Tier,
    shadows: Vec<Shadow>,
}

impl<'a> ShadowedTier<'a> {
    /// Makes a shadow follow each tenant of `tier`.
    pub(crate) fn of(tier: &'a mut dyn Tier) -> ShadowedTier<'a> {
        let TierCounts { total, tenants, .. } = tier.counts();
        let shadow = |_| Shadow::new(VirtualInstant::START.second(), total, ENTRIES_MAX);
        ShadowedTier {
            shadows: (0..tenants.len()).map(shadow).collect(),
            tier,
        }
    }

    fn feed(&mut self, page: TierPage, access: PageAccess) {
        let object = mixed(page.object ^ u64::from(page.pool == PoolKind::Swap) << 63);
        let hash = mixed(object.wrapping_add(u64::from(page.index)));
        if is_sampled(hash) {
            self.shadows[usize::from(page.tenant.0)].feed(hash, access);
        }
    }
}

impl Tier for ShadowedTier<'_> {
    fn put(&mut self, page: TierPage, stamp: PageStamp, now: VirtualInstant) -> TierPutOutcome {
        self.feed(page, PageAccess::Put);
        self.tier.put(page, stamp, now)
    }

    fn get(&mut self, page: TierPage, now: VirtualInstant) -> TierGetOutcome {
        let access = match page.pool {
            PoolKind::Swap => PageAccess::GetKeeping,
            PoolKind::File => PageAccess::Get,
        };
        self.feed(page, access);
        self.tier.get(page, now)
    }

    fn is_far(&self, page: TierPage) -> bool {
        self.tier.is_far(page)
    }

    fn flush_page(&mut self, page: TierPage, now: VirtualInstant) {
        self.feed(page, PageAccess::Flush);
        self.tier.flush_page(page, now);
    }

    /// A shadow does not learn of it: what it keeps of the object grows old.
    fn flush_object(&mut self, tenant: TenantId, pool: PoolKind, object: u64, now: VirtualInstant) {
        self.tier.flush_object(tenant, pool, object, now);
    }

    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, now: VirtualInstant) {
        self.tier.set_target(tenant, target, now);
    }

    fn set_guard(&mut self, tenant: TenantId, guard: Option<Pages>, giving: GiveWayOrder) {
        self.tier.set_guard(tenant, guard, giving);
    }

    fn resize(&mut self, total: Pages, now: VirtualInstant) {
        self.tier.resize(total, now);
    }

    fn chores(&mut self, now: VirtualInstant) {
        self.tier.chores(now);
    }

    fn snapshot(&mut self, now: VirtualInstant) -> Snapshot {
        let mut snapshot = self.tier.snapshot(now);
        let total = snapshot.total;
        for (tenant, shadow) in snapshot.tenants.iter_mut().zip(&mut self.shadows) {
            tenant.curve = Some(shadow.close(now.second(), tenant.gets, total));
        }
        snapshot
    }

    fn counts(&self) -> TierCounts {
        self.tier.counts()
    }
}
