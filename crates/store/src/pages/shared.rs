//! Shared pools: one pool for several tenants (R-T2, R-T4).
//!
//! The owner of the host decides in advance which tenants may share a pool. Its pages are charged to an account of its
//! own, a get leaves them, and each sharer has a handle. When a sharer leaves, the objects that it touched last go with
//! it. When the last one leaves, all objects go. If a pool has more objects than are tracked, everything goes, which
//! ephemeral pages may.

use std::collections::HashMap;

use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName, TenantId};

use super::PageStore;
use super::page_access::PageAccess;
use super::pending_removal::Removal;
use super::shared_pools::{SharedPool, SharedPools};
use crate::api::{CreatePoolError, PageKey};

/// The most tenants that may share one pool.
pub const SHARERS_MAX: usize = 256;

/// The most objects of one pool that are tracked: 2 MiB of them.
const TOUCHED_MAX: usize = 1 << 16;

const FLAGS: PoolFlags = PoolFlags {
    persistent: false,
    shared: true,
    keeping: true,
};

impl PageStore {
    /// Allows `members` to share a pool from now on and charges `account` for its pages. A tenant that was allowed
    /// before and is not among them keeps its handles.
    pub(crate) fn allow_sharing(
        &self,
        name: SharedName,
        account: TenantId,
        members: Vec<TenantId>,
    ) -> Result<(), CreatePoolError> {
        if members.len() > SHARERS_MAX {
            return Err(CreatePoolError::TooMany);
        }
        let mut shared = self.shared.lock();
        let pool = shared.pools.entry(name).or_insert_with(|| SharedPool {
            account,
            members: Vec::new(),
            base: None,
            handles: Vec::new(),
            touched: HashMap::new(),
            lost_track: false,
        });
        pool.members = members;
        Ok(())
    }

    /// Makes a handle for a tenant on a shared pool.
    pub(crate) fn join(
        &self,
        tenant: TenantId,
        name: SharedName,
    ) -> Result<PoolId, CreatePoolError> {
        let mut shared = self.shared.lock();
        let SharedPools { pools, of_handle } = &mut *shared;
        let pool = pools
            .get_mut(&name)
            .filter(|pool| pool.members.contains(&tenant))
            .ok_or(CreatePoolError::NotAllowed)?;
        let base = match pool.base {
            Some(base) => base,
            None => self.pools.add(pool.account, FLAGS, None, None)?,
        };
        pool.base = Some(base);
        self.frames.of_pools().begin(base.slot);
        let handle = self.pools.add(tenant, FLAGS, Some(base.slot), None)?;
        pool.handles.push(handle);
        of_handle.insert(handle, name);
        Ok(handle)
    }

    /// The name of the shared pool that a handle is on.
    pub(crate) fn shared_name(&self, handle: PoolId) -> Option<SharedName> {
        self.shared.lock().of_handle.get(&handle).copied()
    }

    /// Takes a handle out of its pool. The objects that it touched last go, and the pool itself if that was the last
    /// handle.
    fn leave(&self, handle: PoolId) -> Option<(PoolId, TenantId, RemovalScope)> {
        let mut shared = self.shared.lock();
        let name = shared.of_handle.remove(&handle)?;
        let pool = shared.pools.get_mut(&name)?;
        pool.handles.retain(|other| *other != handle);
        let base = pool.base?;
        if pool.handles.is_empty() {
            pool.base = None;
            pool.forget();
            return Some((base, pool.account, RemovalScope::All));
        }
        if pool.lost_track {
            pool.forget();
            return Some((base, pool.account, RemovalScope::Content));
        }
        let own = pool.touched.extract_if(|_, slot| *slot == handle.slot);
        let objects = own.map(|(object, _)| object).collect();
        Some((base, pool.account, RemovalScope::Objects(objects)))
    }
}

/// What goes when a sharer leaves.
enum RemovalScope {
    /// These objects.
    Objects(Vec<ObjectId>),
    /// Every page. The pool stays.
    Content,
    /// The whole pool.
    All,
}

impl PageAccess<'_> {
    /// Begins to track an object of a shared pool before a page is put there. Without that, the page would stay behind
    /// if its putter left meanwhile and no other sharer had touched the object.
    pub(super) fn track_object(&self, key: PageKey) {
        self.update_toucher(key, |touched| {
            touched.entry(key.object).or_insert(key.pool.slot);
        });
    }

    /// Records which handle touched an object of a shared pool last.
    pub(super) fn record_toucher(&self, key: PageKey) {
        self.update_toucher(key, |touched| {
            touched.insert(key.object, key.pool.slot);
        });
    }

    fn update_toucher(&self, key: PageKey, note: impl FnOnce(&mut HashMap<ObjectId, u32>)) {
        let pool = self.pages.pools.check(key.pool, self.tenant.id);
        if !pool.is_some_and(|pool| pool.flags.shared) {
            return;
        }
        let mut shared = self.pages.shared.lock();
        let SharedPools { pools, of_handle } = &mut *shared;
        let name = of_handle.get(&key.pool);
        let Some(pool) = name.and_then(|name| pools.get_mut(name)) else {
            return;
        };
        match pool.touched.len() < TOUCHED_MAX || pool.touched.contains_key(&key.object) {
            true => note(&mut pool.touched),
            false => pool.lost_track = true,
        }
    }

    /// Ends a pool, or a handle on a shared one. Once this returns, no get finds its pages (R-F1). It returns what is
    /// to be removed, or `None` if the handle was not alive.
    pub(crate) fn end_pool(&self, id: PoolId) -> Option<Removal> {
        let pool = self.pages.pools.check(id, self.tenant.id)?;
        if !self.pages.pools.end(id) {
            return None;
        }
        let left = match pool.flags.shared {
            false => Removal::of_pool(self.tenant.id, pool),
            true => self.leave_shared(id),
        };
        Some(left.then_vacate(id.slot))
    }

    fn leave_shared(&self, handle: PoolId) -> Removal {
        let Some((base, account, left)) = self.pages.leave(handle) else {
            return Removal::of_nothing(self.tenant.id);
        };
        let pool = self.pages.pools.check(base, account);
        match (left, pool) {
            (RemovalScope::Objects(objects), _) => {
                Removal::of_objects(account, base, None, objects)
            }
            (RemovalScope::Content, Some(pool)) => Removal::of_pool(account, pool),
            (RemovalScope::All, Some(pool)) if self.pages.pools.end(base) => {
                Removal::of_pool(account, pool).then_vacate(base.slot)
            }
            (RemovalScope::Content | RemovalScope::All, _) => Removal::of_nothing(account),
        }
    }
}
