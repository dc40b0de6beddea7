//! What a ring needs of a tenancy.

use std::sync::Arc;

use sublet_client::ring::{Get, Key, Put, Refusal};
use sublet_store::{Blank, PageKey, PoolError, PutRefused, Removal, Spill};
use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName, TenantId};

use crate::tenancy::{Doorman, Tenancy};

/// The verbs of one tenant's pages, on one thread. Handles of other tenants' pools, and of pools that are
/// gone, are answered like those of pools that never were.
pub(crate) trait Pages {
    /// Pages that are to be removed, a piece at a time.
    type Removal;

    /// Runs `work`, which waits for nothing, with all blocks held still: many page verbs pay for that once.
    fn pinned<R>(&self, work: impl FnOnce() -> R) -> R;

    /// Makes a pool, or joins the shared one of that name. A persistent one needs a spill file.
    fn create_pool(
        &self,
        flags: PoolFlags,
        shared: Option<SharedName>,
        spill: Option<Arc<dyn Spill>>,
    ) -> Result<PoolId, Refusal>;

    /// Ends a pool, or leaves a shared one, if it is there: nothing of it can be had from then on, and its pages are to be
    /// removed.
    fn end_pool(&self, pool: PoolId) -> Option<Self::Removal>;

    /// Removes some of the pages. Says whether there are more.
    fn remove_some(&self, removal: &mut Self::Removal) -> bool;

    /// Stores pages, see [`Worker::put_pages`](sublet_store::Worker::put_pages): `fill` writes the nth, if it is stored, and `told` hears what became of it.
    fn put_pages(
        &self,
        keys: &[PageKey],
        fill: impl FnMut(usize, &mut Blank<'_>),
        told: impl FnMut(usize, Put),
    );

    /// Looks for pages, see [`Worker::get_pages`](sublet_store::Worker::get_pages): `visit` sees the nth, if it is there, and `told` hears what became of it.
    fn get_pages(
        &self,
        keys: &[PageKey],
        visit: impl FnMut(usize, &[u8]),
        told: impl FnMut(usize, Get),
    );

    /// Forgets a page.
    fn flush_page(&self, key: Key);

    /// Begins to forget all pages of an object.
    fn begin_flush_object(&self, pool: PoolId, object: ObjectId) -> Option<Self::Removal>;
}

/// Where a worker gets its tenancies.
pub(crate) trait Desk: 'static {
    /// One tenant's, for this thread.
    type Tenancy: Pages;

    /// A tenancy for `tenant`; opened once a thread and kept.
    fn open(&self, tenant: TenantId) -> Self::Tenancy;
}

impl Desk for Doorman {
    type Tenancy = Tenancy;

    fn open(&self, tenant: TenantId) -> Tenancy {
        Doorman::open(self, tenant)
    }
}

impl Pages for Tenancy {
    type Removal = Removal;

    fn pinned<R>(&self, work: impl FnOnce() -> R) -> R {
        let _batch = self.batch();
        work()
    }

    fn create_pool(
        &self,
        flags: PoolFlags,
        shared: Option<SharedName>,
        spill: Option<Arc<dyn Spill>>,
    ) -> Result<PoolId, Refusal> {
        let (worker, tenant, _) = self.acting();
        let made = match shared {
            Some(_) if flags.persistent => Err(PoolError::SharedPersistent),
            Some(_) if !flags.shared => Err(PoolError::NameAndFlag),
            Some(name) => worker.store().join_pool(tenant, name),
            None => worker.store().create_pool(tenant, flags, spill),
        };
        made.map_err(refusal_of_pool)
    }

    fn end_pool(&self, pool: PoolId) -> Option<Removal> {
        let (worker, tenant, now) = self.acting();
        worker.end_pool(tenant, pool, now)
    }

    fn remove_some(&self, removal: &mut Removal) -> bool {
        let (worker, _, now) = self.acting();
        worker.remove_some(removal, now)
    }

    fn put_pages(
        &self,
        keys: &[PageKey],
        fill: impl FnMut(usize, &mut Blank<'_>),
        mut told: impl FnMut(usize, Put),
    ) {
        use sublet_store::Put as Stored;
        let (worker, tenant, now) = self.acting();
        worker.put_pages(tenant, keys, now, fill, |n, put| {
            let put = match put {
                Stored::Stored | Stored::Displaced => Put::Stored,
                Stored::Replaced => Put::Replaced,
                Stored::Refused(why) => Put::Refused(refusal_of_put(why)),
            };
            told(n, put);
        });
    }

    fn get_pages(
        &self,
        keys: &[PageKey],
        visit: impl FnMut(usize, &[u8]),
        mut told: impl FnMut(usize, Get),
    ) {
        use sublet_store::Get as Got;
        let (worker, tenant, now) = self.acting();
        worker.get_pages(tenant, keys, now, visit, |n, got| {
            let got = match got {
                Got::Hit => Get::Hit,
                Got::Miss => Get::Miss,
                Got::NoPool => Get::Refused(Refusal::PoolEnded),
                Got::Failed => Get::Refused(Refusal::Failed),
            };
            told(n, got);
        });
    }

    fn flush_page(&self, key: Key) {
        let (worker, tenant, now) = self.acting();
        worker.flush_page(tenant, page_key(key), now);
    }

    fn begin_flush_object(&self, pool: PoolId, object: ObjectId) -> Option<Removal> {
        let (worker, tenant, now) = self.acting();
        worker.begin_flush_object(tenant, pool, object, now)
    }
}

/// A key as the store has it.
pub(super) fn page_key(key: Key) -> PageKey {
    PageKey {
        pool: key.pool,
        object: key.object,
        index: key.index,
    }
}

fn refusal_of_put(why: PutRefused) -> Refusal {
    match why {
        PutRefused::NoPool => Refusal::PoolEnded,
        PutRefused::NoMemory => Refusal::NoMemory,
        PutRefused::AtTarget => Refusal::AtTarget,
        PutRefused::SpillFull => Refusal::SpillFull,
        PutRefused::Frozen => Refusal::Frozen,
    }
}

fn refusal_of_pool(why: PoolError) -> Refusal {
    match why {
        PoolError::NoTenant => Refusal::NoTenant,
        PoolError::TooMany => Refusal::TooManyPools,
        PoolError::NoSpill => Refusal::NoSpill,
        // The first two are faults of an entry, which got no farther than its reading.
        PoolError::SharedPersistent | PoolError::NameAndFlag | PoolError::NotAllowed => {
            Refusal::NotPermitted
        }
    }
}
