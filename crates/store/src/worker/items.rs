//! What a thread does with items.

use sublet_types::{Nanos, Second, TenantId};

use super::{Lent, Pin, Worker};
use crate::api::*;
use crate::giving::Giver;
use crate::items::Entry;
use crate::reclaim::Need;
use crate::store::ITEMS;
use crate::tenants::Tenant;

impl Worker {
    /// Has the processor fetch what looking up these keys will touch, [`EXPECTED_MAX`] of them at the most, so
    /// that a batch does not wait for memory once for each. Worth it for two keys and more.
    pub fn expect(&self, tenant: TenantId, keys: &[&[u8]]) {
        self.pinned(|| self.items().expect(tenant, keys));
    }

    /// Looks an item up.
    pub fn read<R>(
        &self,
        tenant: TenantId,
        key: &[u8],
        now: Second,
        reading: Reading,
        visit: impl FnOnce(&Item<'_>) -> R,
    ) -> Lookup<R> {
        let Some(tenant) = self.store.tenants.get(tenant) else {
            return Lookup::Miss(Absence::Unknown);
        };
        let _pin = Pin::new(self);
        let _lent = Lent::new(self);
        self.items()
            .read(tenant, key, self.moment(now), reading, visit)
    }

    /// Looks at an item and changes it, with nobody in between. `decide` may run more than once;
    /// only its last run counts.
    pub fn update<R>(
        &self,
        tenant: TenantId,
        key: &[u8],
        now: Second,
        mut decide: impl FnMut(&mut Entry<'_>) -> R,
    ) -> Result<R, Refused> {
        let tenant = self.store.tenants.get(tenant).ok_or(Refused::NoMemory)?;
        let _pin = Pin::new(self);
        let mut decide = |entry: &mut Entry<'_>| self.lending(|| decide(entry));
        let mut make_room = |blocks| self.make_room(tenant, blocks, now);
        let (answer, written) =
            self.items()
                .update(tenant, key, self.moment(now), &mut decide, &mut make_room)?;
        if written > 0 {
            let giver = || self.reclaiming(now).giver(tenant, 1);
            self.items()
                .work_ahead(tenant, &self.slot, written, now, giver);
        }
        Ok(answer)
    }

    /// Makes room for so many blocks of a tenant's items. Says whether it is worth trying again.
    fn make_room(&self, tenant: &Tenant, blocks: u32, now: Second) -> bool {
        let need = Need {
            tenant,
            engine: ITEMS,
            pins: false,
        };
        let items = self.items();
        let mut evict = |giver: Giver<'_>| items.evict_for(tenant, blocks, giver, now, self);
        self.reclaiming(now).make_room(need, blocks, &mut evict)
    }

    /// Hides everything the tenant stored so far. Takes the place of a flush that was put off.
    pub fn flush(&self, tenant: TenantId, now: Second) {
        if let Some(tenant) = self.store.tenants.get(tenant) {
            self.items().part(tenant).deferred.cancel();
            self.flush_tenant(tenant, now);
        }
    }

    pub(crate) fn flush_tenant(&self, tenant: &Tenant, now: Second) {
        let _pin = Pin::new(self);
        let segments = &self.items().part(tenant).segments;
        while !segments.try_flush(&self.store.arena, now) {
            self.unpinned(|| segments.await_ring());
        }
    }

    /// Puts a flush off until `due`, in place of one that was put off before.
    pub fn defer_flush(&self, tenant: TenantId, due: Nanos) {
        if let Some(tenant) = self.store.tenants.get(tenant) {
            self.items().part(tenant).deferred.set(due);
        }
    }

    /// Whether a flush was put off: if so, [`flush_if_due`](Worker::flush_if_due) has to be asked before each request.
    #[inline]
    pub fn awaits_flush(&self, tenant: TenantId) -> bool {
        let tenant = self.store.tenants.get(tenant);
        tenant.is_some_and(|tenant| self.items().part(tenant).deferred.is_set())
    }

    /// Flushes, if that was put off until `moment` or before. When it returns, nothing is left that was due.
    pub fn flush_if_due(&self, tenant: TenantId, moment: Nanos, now: Second) {
        let Some(tenant) = self.store.tenants.get(tenant) else {
            return;
        };
        let deferred = &self.items().part(tenant).deferred;
        while deferred.is_due(moment) {
            self.pinned(|| {
                if !deferred.try_take(moment, || self.flush_tenant(tenant, now)) {
                    self.unpinned(|| deferred.await_flush());
                }
            });
        }
    }

    /// Visits a part of a tenant's items, in no order; returns where to go on, or nothing at the end.
    /// Start with 0. An item may be seen twice or not at all where others write meanwhile.
    pub fn scan(
        &self,
        tenant: TenantId,
        cursor: u64,
        now: Second,
        mut visit: impl FnMut(&Item<'_>),
    ) -> Option<u64> {
        let tenant = self.store.tenants.get(tenant)?;
        let _pin = Pin::new(self);
        self.lending(|| self.items().scan(tenant, cursor, now, &mut visit))
    }

    /// Removes what is expired or flushed from a part of a tenant's items, counting it in `reclaimed`; returns
    /// where to go on, or nothing at the end. Start with 0. Eviction finds such items without this.
    pub fn reclaim(
        &self,
        tenant: TenantId,
        cursor: u64,
        now: Second,
        reclaimed: &mut u64,
    ) -> Option<u64> {
        let tenant = self.store.tenants.get(tenant)?;
        let _pin = Pin::new(self);
        self.items().reclaim(tenant, cursor, now, reclaimed)
    }
}
