//! Miss-ratio curves beside a tier: a sample of what happens to it feeds each tenant's shadow, and
//! snapshots carry the curves that policies may ask for.

use sublet_policy::mrc::{Access, ENTRIES_MAX, Shadow, is_sampled};
use sublet_types::{Giving, Pages, Snapshot, TenantId};

use super::tier::{Census, Get, Pool, Put, Stamp, Tier, TierPage};
use crate::chance::mixed;
use crate::virtual_time::Moment;

/// A tier with shadows beside it.
pub(crate) struct Shadowed<'a> {
    tier: &'a mut dyn Tier,
    shadows: Vec<Shadow>,
}

impl<'a> Shadowed<'a> {
    /// Has a shadow follow each tenant of `tier`.
    pub(crate) fn of(tier: &'a mut dyn Tier) -> Shadowed<'a> {
        let Census { total, tenants, .. } = tier.census();
        let shadow = |_| Shadow::new(Moment::START.second(), total, ENTRIES_MAX);
        Shadowed {
            shadows: (0..tenants.len()).map(shadow).collect(),
            tier,
        }
    }

    fn feed(&mut self, page: TierPage, access: Access) {
        let object = mixed(page.object ^ u64::from(page.pool == Pool::Swap) << 63);
        let hash = mixed(object.wrapping_add(u64::from(page.index)));
        if is_sampled(hash) {
            self.shadows[usize::from(page.tenant.0)].feed(hash, access);
        }
    }
}

impl Tier for Shadowed<'_> {
    fn put(&mut self, page: TierPage, stamp: Stamp, now: Moment) -> Put {
        self.feed(page, Access::Put);
        self.tier.put(page, stamp, now)
    }

    fn get(&mut self, page: TierPage, now: Moment) -> Get {
        let access = match page.pool {
            Pool::Swap => Access::GetKeeping,
            Pool::File => Access::Get,
        };
        self.feed(page, access);
        self.tier.get(page, now)
    }

    fn flush_page(&mut self, page: TierPage, now: Moment) {
        self.feed(page, Access::Flush);
        self.tier.flush_page(page, now);
    }

    /// A shadow does not hear of it: what it keeps of the object grows old.
    fn flush_object(&mut self, tenant: TenantId, pool: Pool, object: u64, now: Moment) {
        self.tier.flush_object(tenant, pool, object, now);
    }

    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, now: Moment) {
        self.tier.set_target(tenant, target, now);
    }

    fn set_guard(&mut self, tenant: TenantId, guard: Option<Pages>, giving: Giving) {
        self.tier.set_guard(tenant, guard, giving);
    }

    fn resize(&mut self, total: Pages, now: Moment) {
        self.tier.resize(total, now);
    }

    fn chores(&mut self, now: Moment) {
        self.tier.chores(now);
    }

    fn snapshot(&mut self, now: Moment) -> Snapshot {
        let mut snapshot = self.tier.snapshot(now);
        let total = snapshot.total;
        for (tenant, shadow) in snapshot.tenants.iter_mut().zip(&mut self.shadows) {
            tenant.curve = Some(shadow.close(now.second(), tenant.gets, total));
        }
        snapshot
    }

    fn census(&self) -> Census {
        self.tier.census()
    }
}
