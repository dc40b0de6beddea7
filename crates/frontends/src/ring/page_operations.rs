//! The interface between a ring and a tenancy.

use std::sync::Arc;

use sublet_client::ring::{GetOutcome, Key, PutOutcome, Refusal};
use sublet_store::{
    CreatePoolError, GetOutcome as StoreGet, PageKey, PutRefused, Removal, Spill, UnwrittenPage,
};
use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName, TenantId};

use crate::tenancy::{StoreHandle, Tenancy};

/// The verbs of one tenant's pages, on one thread. A handle of another tenant's pool, or of a pool that is gone, gets
/// the same answer as a handle that never existed.
pub(crate) trait PageOperations {
    /// A removal of pages, which goes piece by piece.
    type Removal;

    /// Runs `work` while all blocks are pinned, so that many page verbs pay for the pin once. `work` must not wait for
    /// anything, except by [`Worker::wait_unpinned`](sublet_store::Worker::wait_unpinned).
    fn pinned<R>(&self, work: impl FnOnce() -> R) -> R;

    /// Makes a pool, or joins the shared pool of that name. A persistent pool needs a spill file.
    fn create_pool(
        &self,
        flags: PoolFlags,
        shared: Option<SharedName>,
        spill: Option<Arc<dyn Spill>>,
    ) -> Result<PoolId, Refusal>;

    /// Ends a pool, or leaves a shared one, if it is there. From then on nobody gets anything of it. The caller must
    /// remove its pages.
    fn end_pool(&self, pool: PoolId) -> Option<Self::Removal>;

    /// Removes some of the pages. Returns whether there are more.
    fn remove_some(&self, removal: &mut Self::Removal) -> bool;

    /// Stores pages; see [`Worker::put_pages`](sublet_store::Worker::put_pages). `fill` writes the nth page if it is
    /// stored. `on_outcome` gets the outcome of each page.
    fn put_pages(
        &self,
        keys: &[PageKey],
        fill: impl FnMut(usize, &mut UnwrittenPage<'_>),
        on_outcome: impl FnMut(usize, PutOutcome),
    );

    /// Looks for pages; see [`Worker::get_pages`](sublet_store::Worker::get_pages). `visit` sees the nth page if it is
    /// there. `on_outcome` gets the outcome of each page.
    fn get_pages(
        &self,
        keys: &[PageKey],
        visit: impl FnMut(usize, &[u8]),
        on_outcome: impl FnMut(usize, GetOutcome),
    );

    /// Flushes a page.
    fn flush_page(&self, key: Key);

    /// Begins to flush all pages of an object.
    fn begin_flush_object(&self, pool: PoolId, object: ObjectId) -> Option<Self::Removal>;
}

/// Opens tenancies for a worker.
pub(crate) trait TenancyFactory: 'static {
    /// The tenancy of one tenant, on this thread.
    type Tenancy: PageOperations;

    /// A tenancy for `tenant`. Each thread opens it once and keeps it.
    fn open(&self, tenant: TenantId) -> Self::Tenancy;
}

impl TenancyFactory for StoreHandle {
    type Tenancy = Tenancy;

    fn open(&self, tenant: TenantId) -> Tenancy {
        StoreHandle::open(self, tenant)
    }
}

impl PageOperations for Tenancy {
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
        let (worker, tenant, _) = self.worker_tenant_now();
        let made = match shared {
            Some(_) if flags.persistent => Err(CreatePoolError::SharedPersistent),
            Some(_) if !flags.shared => Err(CreatePoolError::NameAndFlag),
            Some(name) => worker.store().join_pool(tenant, name),
            None => worker.store().create_pool(tenant, flags, spill),
        };
        made.map_err(refusal_of_pool)
    }

    fn end_pool(&self, pool: PoolId) -> Option<Removal> {
        let (worker, tenant, now) = self.worker_tenant_now();
        worker.end_pool(tenant, pool, now)
    }

    fn remove_some(&self, removal: &mut Removal) -> bool {
        let (worker, _, now) = self.worker_tenant_now();
        worker.remove_some(removal, now)
    }

    fn put_pages(
        &self,
        keys: &[PageKey],
        fill: impl FnMut(usize, &mut UnwrittenPage<'_>),
        mut on_outcome: impl FnMut(usize, PutOutcome),
    ) {
        use sublet_store::PutOutcome as Stored;
        let (worker, tenant, now) = self.worker_tenant_now();
        worker.put_pages(tenant, keys, now, fill, |n, put| {
            let put = match put {
                Stored::Stored | Stored::Displaced => PutOutcome::Stored,
                Stored::Replaced => PutOutcome::Replaced,
                Stored::Refused(why) => PutOutcome::Refused(refusal_of_put(why)),
            };
            on_outcome(n, put);
        });
    }

    fn get_pages(
        &self,
        keys: &[PageKey],
        mut visit: impl FnMut(usize, &[u8]),
        mut on_outcome: impl FnMut(usize, GetOutcome),
    ) {
        let (worker, tenant, now) = self.worker_tenant_now();
        let mut far = self.far_gets();
        far.iter_mut().for_each(|far| far.clear());
        // A get waits for one lender only. What it is told as a miss must be one later, too.
        let end = |n: usize, mut got: StoreGet, visit: &mut dyn FnMut(usize, &[u8])| {
            while let StoreGet::Away(ticket) = got {
                got = worker.gone(tenant, keys[n], &ticket, now, |page| visit(n, page));
            }
            outcome_of_get(got)
        };
        let mut unfetched = Vec::new();
        worker.get_pages(tenant, keys, now, &mut visit, |n, got| {
            match (got, &mut far) {
                (StoreGet::Away(ticket), Some(far)) => far.push(n, ticket),
                (StoreGet::Away(ticket), None) => unfetched.push((n, ticket)),
                (got, _) => on_outcome(n, outcome_of_get(got)),
            }
        });
        // This thread asks no lender, so they count as gone from now on.
        for (n, ticket) in unfetched {
            on_outcome(n, end(n, StoreGet::Away(ticket), &mut visit));
        }
        let Some(far) = &mut far else {
            return;
        };
        while far.are_waiting() {
            worker.wait_unpinned(|| far.fetch_some());
            far.take(|n, ticket, page| {
                let got = match page {
                    Some(page) => {
                        worker.arrived(tenant, keys[n], ticket, page, now, |page| visit(n, page))
                    }
                    None => worker.gone(tenant, keys[n], ticket, now, |page| visit(n, page)),
                };
                on_outcome(n, end(n, got, &mut visit));
            });
        }
    }

    fn flush_page(&self, key: Key) {
        let (worker, tenant, now) = self.worker_tenant_now();
        worker.flush_page(tenant, page_key(key), now);
    }

    fn begin_flush_object(&self, pool: PoolId, object: ObjectId) -> Option<Removal> {
        let (worker, tenant, now) = self.worker_tenant_now();
        worker.begin_flush_object(tenant, pool, object, now)
    }
}

/// The store's form of a key.
pub(super) fn page_key(key: Key) -> PageKey {
    PageKey {
        pool: key.pool,
        object: key.object,
        index: key.index,
    }
}

/// The outcome for the client.
fn outcome_of_get(got: StoreGet) -> GetOutcome {
    match got {
        StoreGet::Hit => GetOutcome::Hit,
        StoreGet::Miss | StoreGet::Away(_) => GetOutcome::Miss,
        StoreGet::NoPool => GetOutcome::Refused(Refusal::PoolEnded),
        StoreGet::Failed => GetOutcome::Refused(Refusal::Failed),
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

fn refusal_of_pool(why: CreatePoolError) -> Refusal {
    match why {
        CreatePoolError::NoTenant => Refusal::NoTenant,
        CreatePoolError::TooMany => Refusal::TooManyPools,
        CreatePoolError::NoSpill => Refusal::NoSpill,
        // The first two are faults of an entry, so parsing refuses them earlier.
        CreatePoolError::SharedPersistent
        | CreatePoolError::NameAndFlag
        | CreatePoolError::NotAllowed => Refusal::NotPermitted,
    }
}
