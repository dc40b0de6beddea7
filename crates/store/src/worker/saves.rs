//! Writes a tenant's state to a stream of bytes and reads it back: a save file, or anything else that keeps bytes in
//! order.

use std::io::{Read, Write};
use std::sync::Arc;

use sublet_types::{FreezeState, PoolId, Second, TenantId};

use super::{Pin, Worker};
use crate::api::*;
use crate::engine::{Engine, ReclaimCause};
use crate::pages::{Loader, RestoredPoolIds, SaveHead, check_save};
use crate::release_order::ReleaseMethod;

/// Attempts to load one page of a save file. After each, the tenant gives up a block of pages.
const LOAD_ATTEMPTS_MAX: u32 = 8;

impl Worker {
    /// Writes a tenant's pools and every persistent page in them (see `docs/pages.md`). Freeze the tenant first, so
    /// that nothing is added meanwhile. No block is held back while `out` waits. Returns how many pages were written.
    pub fn export(&self, tenant: TenantId, out: impl Write) -> std::io::Result<u64> {
        let tenant = self.store().tenants.get(tenant);
        let tenant = tenant.ok_or(std::io::ErrorKind::NotFound)?;
        let _pin = Pin::new(self);
        self.store().pages.export(tenant, self, out)
    }

    /// Reads a save to its end and returns what it holds or what is wrong with it. It changes nothing.
    pub fn check_save(&self, input: impl Read) -> Result<SaveFacts, RestoreError> {
        check_save(input, self.store().pages.page_bytes())
    }

    /// Makes the pools of a save for a tenant, or some of them, with all their pages.
    ///
    /// `spill` gives the file of a persistent pool. Returns each such pool of the save with the pool that stands for it
    /// now. It does not apply what the tenant was granted; the owner of the host decides that (see
    /// [`check_save`](Worker::check_save)).
    ///
    /// # Errors
    ///
    /// The save is wrong, or it does not fit as a whole. Nothing was changed.
    pub fn import(
        &self,
        tenant: TenantId,
        input: impl Read,
        now: Second,
        wanted: RestoredPools,
        spill: &mut dyn FnMut(&SavedPool) -> Option<Arc<dyn Spill>>,
    ) -> Result<Vec<(SavedPool, PoolId)>, RestoreError> {
        let page_bytes = self.store().pages.page_bytes();
        let (mut loader, head) = Loader::begin(input, page_bytes)?;
        let is_wanted = |pool: &&SavedPool| wanted == RestoredPools::All || pool.flags.persistent;
        let pools: Vec<SavedPool> = head.pools.iter().filter(is_wanted).copied().collect();
        let mut made = Vec::new();
        let result = self
            .make_pools(tenant, &pools, spill, &mut made)
            .and_then(|pools| self.load_pages(tenant, &mut loader, &head, &pools, now));
        if let Err(error) = result {
            for (_, pool) in made {
                self.destroy_pool(tenant, pool, now);
            }
            return Err(error);
        }
        // Its owner may have frozen it meanwhile, and only the owner thaws it.
        if head.frozen {
            self.store().set_freeze_state(tenant, FreezeState::Frozen);
        }
        Ok(made)
    }

    fn make_pools(
        &self,
        tenant: TenantId,
        pools: &[SavedPool],
        spill: &mut dyn FnMut(&SavedPool) -> Option<Arc<dyn Spill>>,
        made: &mut Vec<(SavedPool, PoolId)>,
    ) -> Result<RestoredPoolIds, RestoreError> {
        for pool in pools {
            let store = self.store();
            let id = match pool.shared {
                Some(name) => store.join_pool(tenant, name),
                None => store.create_pool(tenant, pool.flags, spill(pool)),
            };
            made.push((*pool, id.map_err(RestoreError::Pool)?));
        }
        Ok(made.iter().map(|(pool, id)| (pool.number, *id)).collect())
    }

    fn load_pages<R: Read>(
        &self,
        tenant: TenantId,
        loader: &mut Loader<R>,
        head: &SaveHead,
        pools: &RestoredPoolIds,
        now: Second,
    ) -> Result<(), RestoreError> {
        while let Some(loaded) = loader.page()? {
            let key = PageKey {
                pool: pools[&head.pool_of(&loaded)?.number],
                object: loaded.object,
                index: loaded.index,
            };
            if !self.load_page(tenant, key, &loaded.bytes, now)? {
                return Err(loader.repeated());
            }
        }
        Ok(())
    }

    /// Puts a page. If memory is short, pages of the tenant go to disk for it. Returns whether the page is new.
    fn load_page(
        &self,
        id: TenantId,
        key: PageKey,
        bytes: &[u8],
        now: Second,
    ) -> Result<bool, RestoreError> {
        let tenant = self.store().tenants.get(id);
        let tenant = tenant.ok_or(RestoreError::Pool(CreatePoolError::NoTenant))?;
        let mut why = PutRefused::NoMemory;
        for _ in 0..LOAD_ATTEMPTS_MAX {
            why = match self.put_page(id, key, now, |page| page.write(bytes)) {
                PutOutcome::Refused(refused) => refused,
                PutOutcome::Stored | PutOutcome::Displaced => return Ok(true),
                PutOutcome::Replaced => return Ok(false),
            };
            if !matches!(why, PutRefused::NoMemory | PutRefused::AtTarget) {
                break;
            }
            let cause = ReclaimCause::Release(ReleaseMethod::Ordered);
            let _pin = Pin::new(self);
            self.store()
                .pages
                .reclaim_blocks(tenant, 1, cause, now, self);
        }
        Err(RestoreError::NoPlace(why))
    }
}
