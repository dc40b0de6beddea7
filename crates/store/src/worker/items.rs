//! A thread's operations on items.

use sublet_types::{Nanos, Second, TenantId};

use super::{BorrowGuard, Pin, Worker};
use crate::api::*;
use crate::giving::Giver;
use crate::items::Entry;
use crate::reclaim::BlockRequest;
use crate::store::ITEMS;
use crate::tenants::Tenant;

impl Worker {
    /// Makes the processor fetch what looking up these keys will touch, so that a batch does not wait for memory once
    /// per key. It takes at most [`PREFETCHED_KEYS_MAX`] keys, and pays from two keys on.
    pub fn prefetch(&self, tenant: TenantId, keys: &[&[u8]]) {
        self.pinned(|| self.items().prefetch(tenant, keys));
    }

    /// Looks an item up.
    pub fn read<R>(
        &self,
        tenant: TenantId,
        key: &[u8],
        now: Second,
        reading: ReadKind,
        visit: impl FnOnce(&Item<'_>) -> R,
    ) -> Lookup<R> {
        let Some(tenant) = self.store.tenants.get(tenant) else {
            return Lookup::Miss(Absence::Unknown);
        };
        let _pin = Pin::new(self);
        let _lent = BorrowGuard::new(self);
        self.items()
            .read(tenant, key, self.moment(now), reading, visit)
    }

    /// Looks at an item and changes it atomically. `decide` may run more than once; only its last run counts.
    pub fn update<R>(
        &self,
        tenant: TenantId,
        key: &[u8],
        now: Second,
        mut decide: impl FnMut(&mut Entry<'_>) -> R,
    ) -> Result<R, ItemRefused> {
        let tenant = self
            .store
            .tenants
            .get(tenant)
            .ok_or(ItemRefused::NoMemory)?;
        let _pin = Pin::new(self);
        let mut decide = |entry: &mut Entry<'_>| self.with_borrow(|| decide(entry));
        let mut make_room = |blocks| self.make_room(tenant, blocks, now);
        let (answer, written) =
            self.items()
                .update(tenant, key, self.moment(now), &mut decide, &mut make_room)?;
        if written > 0 {
            let giver = || self.block_reclaim(now).giver(tenant, 1);
            self.items()
                .work_ahead(tenant, &self.slot, written, now, giver);
        }
        Ok(answer)
    }

    /// Makes room for this many blocks of a tenant's items. Returns whether it is worth trying again.
    fn make_room(&self, tenant: &Tenant, blocks: u32, now: Second) -> bool {
        let need = BlockRequest {
            tenant,
            engine: ITEMS,
            pins: false,
        };
        let items = self.items();
        let mut evict = |giver: Giver<'_>| items.evict_for(tenant, blocks, giver, now, self);
        self.block_reclaim(now).make_room(need, blocks, &mut evict)
    }

    /// Hides everything that the tenant has stored so far. It replaces a deferred flush.
    pub fn flush(&self, tenant: TenantId, now: Second) {
        if let Some(tenant) = self.store.tenants.get(tenant) {
            self.items().tenant_items(tenant).deferred_flush.cancel();
            self.flush_tenant(tenant, now);
        }
    }

    pub(crate) fn flush_tenant(&self, tenant: &Tenant, now: Second) {
        let _pin = Pin::new(self);
        let segments = &self.items().tenant_items(tenant).segments;
        while !segments.try_flush(&self.store.arena, now) {
            self.unpinned(|| segments.await_full());
        }
    }

    /// Defers a flush until `due`. It replaces one that was deferred before.
    pub fn defer_flush(&self, tenant: TenantId, due: Nanos) {
        if let Some(tenant) = self.store.tenants.get(tenant) {
            self.items().tenant_items(tenant).deferred_flush.set(due);
        }
    }

    /// Returns whether a flush is deferred. If so, call [`flush_if_due`](Worker::flush_if_due) before each request.
    #[inline]
    pub fn has_deferred_flush(&self, tenant: TenantId) -> bool {
        let tenant = self.store.tenants.get(tenant);
        tenant.is_some_and(|tenant| self.items().tenant_items(tenant).deferred_flush.is_set())
    }

    /// Flushes if a flush was deferred until `moment` or before. When it returns, no flush is due.
    pub fn flush_if_due(&self, tenant: TenantId, moment: Nanos, now: Second) {
        let Some(tenant) = self.store.tenants.get(tenant) else {
            return;
        };
        let deferred = &self.items().tenant_items(tenant).deferred_flush;
        while deferred.is_due(moment) {
            self.pinned(|| {
                if !deferred.try_run(moment, || self.flush_tenant(tenant, now)) {
                    self.unpinned(|| deferred.await_flush());
                }
            });
        }
    }

    /// Visits a part of a tenant's items, in no order. Start with 0; it returns where to go on, or `None` at the end.
    /// If others write meanwhile, it may visit an item twice or not at all.
    pub fn scan(
        &self,
        tenant: TenantId,
        cursor: u64,
        now: Second,
        mut visit: impl FnMut(&Item<'_>),
    ) -> Option<u64> {
        let tenant = self.store.tenants.get(tenant)?;
        let _pin = Pin::new(self);
        self.with_borrow(|| self.items().scan(tenant, cursor, now, &mut visit))
    }

    /// Removes expired and flushed items from a part of a tenant's items and counts them in `reclaimed`. Start with 0;
    /// it returns where to go on, or `None` at the end. Eviction finds such items without this.
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
