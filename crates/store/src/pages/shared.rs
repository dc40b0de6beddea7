//! Shared pools: one pool, several tenants (R-T2, R-T4).
//!
//! Who may share a pool is said beforehand, by the owner of the host; nobody else may. Its pages are charged
//! to an account of its own, a get leaves them, and each sharer has a handle. When a sharer leaves, the
//! objects that it touched last go with it; when the last one leaves, all do. Of a pool with more objects than are
//! followed everything goes: ephemeral pages may.

use std::collections::HashMap;

use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName, TenantId};

use super::Pages;
use super::desk::Desk;
use super::shared_pools::{SharedPool, SharedPools};
use super::to_remove::Removal;
use crate::api::{PageKey, PoolError};

/// Tenants that may share one pool, at the most.
pub const SHARERS_MAX: usize = 256;

/// Objects of one pool that are followed, at the most: 2 MiB of them.
const TOUCHED_MAX: usize = 1 << 16;

const FLAGS: PoolFlags = PoolFlags {
    persistent: false,
    shared: true,
    keeping: true,
};

impl Pages {
    /// Allows `members` to share a pool, from now on; `account` is charged for its pages. Who was allowed before and
    /// is not among them keeps the handles that it has.
    pub(crate) fn allow_sharing(
        &self,
        name: SharedName,
        account: TenantId,
        members: Vec<TenantId>,
    ) -> Result<(), PoolError> {
        if members.len() > SHARERS_MAX {
            return Err(PoolError::TooMany);
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

    /// A handle for a tenant on a shared pool.
    pub(crate) fn join(&self, tenant: TenantId, name: SharedName) -> Result<PoolId, PoolError> {
        let mut shared = self.shared.lock();
        let SharedPools { pools, of_handle } = &mut *shared;
        let pool = pools
            .get_mut(&name)
            .filter(|pool| pool.members.contains(&tenant))
            .ok_or(PoolError::NotAllowed)?;
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

    /// Takes a handle out of its pool: the objects that it touched last, and the pool itself if that was the last
    /// handle.
    fn leave(&self, handle: PoolId) -> Option<(PoolId, TenantId, Left)> {
        let mut shared = self.shared.lock();
        let name = shared.of_handle.remove(&handle)?;
        let pool = shared.pools.get_mut(&name)?;
        pool.handles.retain(|other| *other != handle);
        let base = pool.base?;
        if pool.handles.is_empty() {
            pool.base = None;
            pool.forget();
            return Some((base, pool.account, Left::All));
        }
        if pool.lost_track {
            pool.forget();
            return Some((base, pool.account, Left::Content));
        }
        let own = pool.touched.extract_if(|_, slot| *slot == handle.slot);
        let objects = own.map(|(object, _)| object).collect();
        Some((base, pool.account, Left::Objects(objects)))
    }
}

/// What goes with a sharer.
enum Left {
    /// These objects.
    Objects(Vec<ObjectId>),
    /// Every page; the pool stays.
    Content,
    /// The whole pool.
    All,
}

impl Desk<'_> {
    /// Has an object of a shared pool followed before a page is put there: else, if who puts it left meanwhile and nobody
    /// else had touched the object, the page would stay behind.
    pub(super) fn follow(&self, key: PageKey) {
        self.touch(key, |touched| {
            touched.entry(key.object).or_insert(key.pool.slot);
        });
    }

    /// Notes who touched an object of a shared pool last.
    pub(super) fn note_toucher(&self, key: PageKey) {
        self.touch(key, |touched| {
            touched.insert(key.object, key.pool.slot);
        });
    }

    fn touch(&self, key: PageKey, note: impl FnOnce(&mut HashMap<ObjectId, u32>)) {
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

    /// Ends a pool, or a handle on a shared one: from the answer on nothing of it can be had (R-F1), and what it leaves
    /// is to be removed. Nothing if it was not alive.
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
            (Left::Objects(objects), _) => Removal::of_objects(account, base, None, objects),
            (Left::Content, Some(pool)) => Removal::of_pool(account, pool),
            (Left::All, Some(pool)) if self.pages.pools.end(base) => {
                Removal::of_pool(account, pool).then_vacate(base.slot)
            }
            (Left::Content | Left::All, _) => Removal::of_nothing(account),
        }
    }
}
