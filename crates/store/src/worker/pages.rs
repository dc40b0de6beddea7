//! A thread's operations on pages: puts, gets and flushes.

use sublet_types::{ObjectId, PageIndex, PoolId, Second, TenantId};

use super::{Pin, Worker};
use crate::api::*;
use crate::arena::{PageKind, UnwrittenPage};
use crate::borrowing::AwayTicket;
use crate::pages::{
    Displacement, FrameSearch, PageAccess, PageMask, PageVerb, PutAttempt, Removal, Shortage,
    SiblingSearch,
};
use crate::reclaim::{BlockRequest, Reclaim};
use crate::store::PAGES;
use crate::tenants::Tenant;

/// Attempts to get a block before a put is refused. Others may take what was freed for it.
const ATTEMPTS_MAX: u32 = 1000;

impl Worker {
    /// Puts a page. If the page is stored, `fill` writes all its bytes, once. `fill` must not wait for anything.
    pub fn put_page(
        &self,
        tenant: TenantId,
        key: PageKey,
        now: Second,
        fill: impl FnOnce(&mut UnwrittenPage<'_>),
    ) -> PutOutcome {
        let Some(tenant) = self.store().tenants.get(tenant) else {
            return PutOutcome::Refused(PutRefused::NoPool);
        };
        let _pin = Pin::new(self);
        let fill = |page: &mut UnwrittenPage<'_>| self.with_borrow(|| fill(page));
        self.put_with_blocks(
            &self.page_access(tenant, now),
            key,
            Displacement::IfBound,
            fill,
        )
    }

    /// Puts a page, and finds blocks for it if it needs any.
    fn put_with_blocks<F: FnOnce(&mut UnwrittenPage<'_>)>(
        &self,
        access: &PageAccess<'_>,
        key: PageKey,
        displacing: Displacement,
        mut fill: F,
    ) -> PutOutcome {
        let mut search = FrameSearch::from(displacing);
        for _ in 0..ATTEMPTS_MAX {
            let shortage = match access.try_put(key, search, fill) {
                PutAttempt::Done(put) => return put,
                PutAttempt::Lacks(shortage, again) => {
                    fill = again;
                    shortage
                }
            };
            match shortage {
                Shortage::Block(owner, kind) => {
                    search = self.find_page_block(owner, kind, access.now).into();
                }
                Shortage::Frame => {
                    search.siblings = match access.bring_frame(key) {
                        true => SiblingSearch::TryLock,
                        false => SiblingSearch::Exhausted,
                    };
                }
            }
        }
        let search = FrameSearch {
            displacing: Displacement::Always,
            siblings: SiblingSearch::Exhausted,
        };
        match access.try_put(key, search, fill) {
            PutAttempt::Done(put) => put,
            PutAttempt::Lacks(..) => access.refuse(key),
        }
    }

    /// Gets a page. If the page is there, `visit` sees its bytes, once. `visit` must not wait for anything.
    pub fn get_page(
        &self,
        tenant: TenantId,
        key: PageKey,
        now: Second,
        visit: impl FnOnce(&[u8]),
    ) -> GetOutcome {
        let visit = |page: &[u8]| self.with_borrow(|| visit(page));
        self.with_page_access(tenant, now, |access| access.get(key, visit))
            .unwrap_or(GetOutcome::NoPool)
    }

    /// Puts pages, which is cheaper than as many single puts, above all if they are spread over much memory.
    ///
    /// Pages go in any order, but puts of the same page keep their order. `fill` writes the nth page if it is stored.
    /// `report` gets each outcome. Neither may wait for anything or call the store.
    pub fn put_pages(
        &self,
        tenant: TenantId,
        keys: &[PageKey],
        now: Second,
        mut fill: impl FnMut(usize, &mut UnwrittenPage<'_>),
        mut report: impl FnMut(usize, PutOutcome),
    ) {
        let Some(tenant) = self.store().tenants.get(tenant) else {
            return (0..keys.len())
                .for_each(|n| report(n, PutOutcome::Refused(PutRefused::NoPool)));
        };
        for (begin, keys) in batches(keys) {
            let _pin = Pin::new(self);
            let mut fill =
                |n, page: &mut UnwrittenPage<'_>| self.with_borrow(|| fill(begin + n, page));
            let mut report = |n, put| report(begin + n, put);
            let mut left = self.page_access(tenant, now).partition(keys);
            while !left.is_empty() {
                let access = self.page_access(tenant, now);
                for n in left.take_alone() {
                    let fill = |page: &mut UnwrittenPage<'_>| fill(n, page);
                    report(
                        n,
                        self.put_with_blocks(&access, keys[n], Displacement::IfBound, fill),
                    );
                }
                let group = access.lock_group(PageVerb::Put, keys, &left);
                if let Some((n, owner, kind)) = group.put(&mut left, &mut fill, &mut report) {
                    let displacing = self.find_page_block(owner, kind, now);
                    let fill = |page: &mut UnwrittenPage<'_>| fill(n, page);
                    report(n, self.put_with_blocks(&access, keys[n], displacing, fill));
                }
            }
        }
    }

    /// Gets pages, which is cheaper than as many single gets.
    ///
    /// Pages come in any order, but gets of the same page keep their order. `visit` sees the nth page if it is there.
    /// `report` gets each outcome. Neither may wait for anything or call the store.
    pub fn get_pages(
        &self,
        tenant: TenantId,
        keys: &[PageKey],
        now: Second,
        mut visit: impl FnMut(usize, &[u8]),
        mut report: impl FnMut(usize, GetOutcome),
    ) {
        let Some(tenant) = self.store().tenants.get(tenant) else {
            return (0..keys.len()).for_each(|n| report(n, GetOutcome::NoPool));
        };
        for (begin, keys) in batches(keys) {
            let _pin = Pin::new(self);
            let mut visit = |n, page: &[u8]| self.with_borrow(|| visit(begin + n, page));
            let mut report = |n, got| report(begin + n, got);
            let mut left = self.page_access(tenant, now).partition(keys);
            while !left.is_empty() {
                let access = self.page_access(tenant, now);
                for n in left.take_alone() {
                    report(n, access.get(keys[n], |page| visit(n, page)));
                }
                access.lock_group(PageVerb::Get, keys, &left).get(
                    &mut left,
                    &mut visit,
                    &mut report,
                );
            }
        }
    }

    /// Finds a block for a tenant's pages, or returns that the put may displace a page.
    fn find_page_block(&self, tenant: &Tenant, kind: PageKind, now: Second) -> Displacement {
        let need = BlockRequest {
            tenant,
            engine: PAGES,
            pins: kind == PageKind::Persistent,
        };
        let reclaiming = self.block_reclaim(now);
        match reclaiming.find_block(need, || self.open_block(&reclaiming, need, kind)) {
            true => Displacement::IfBound,
            false => Displacement::Always,
        }
    }

    /// Opens a free block for a tenant's pages, if the tenant may have one. Returns whether there was one.
    fn open_block(&self, reclaiming: &Reclaim<'_>, need: BlockRequest<'_>, kind: PageKind) -> bool {
        let pages = &self.store().pages;
        let open = || pages.open_block(need.tenant, kind, reclaiming.now);
        if !need.pins {
            return open();
        }
        let _pinning = self.store().tenants.pinning.lock();
        reclaiming.may_have(need) && open()
    }

    fn page_access<'a>(&'a self, tenant: &'a Tenant, now: Second) -> PageAccess<'a> {
        PageAccess {
            pages: &self.store().pages,
            tenant,
            now,
            random: self.moment(now).random,
            pattern: AccessPattern::Random,
            worker: self,
        }
    }

    pub(super) fn with_page_access<R>(
        &self,
        tenant: TenantId,
        now: Second,
        work: impl FnOnce(PageAccess<'_>) -> R,
    ) -> Option<R> {
        let tenant = self.store().tenants.get(tenant)?;
        let _pin = Pin::new(self);
        Some(work(self.page_access(tenant, now)))
    }

    /// Returns whether a get would find a page. It does not count as a use, and eviction does not learn of it.
    pub fn has_page(&self, tenant: TenantId, key: PageKey, now: Second) -> bool {
        self.with_page_access(tenant, now, |access| access.has(key)) == Some(true)
    }

    /// Returns whether a get would find a page without asking a lender. It does not count as a use.
    pub fn has_page_here(&self, tenant: TenantId, key: PageKey, now: Second) -> bool {
        self.with_page_access(tenant, now, |access| access.has_here(key)) == Some(true)
    }

    /// The ticket to fetch a page by, if a lender has it. It does not count as a use.
    pub fn away_ticket(&self, tenant: TenantId, key: PageKey, now: Second) -> Option<AwayTicket> {
        self.with_page_access(tenant, now, |access| access.away_ticket(key))
            .flatten()
    }

    /// Puts a run of an object's pages, which is cheaper than as many single puts.
    ///
    /// `fill` writes the nth page if it is stored. `report` gets each outcome. Neither may wait for anything.
    pub fn put_run(
        &self,
        tenant: TenantId,
        run: PageRun,
        now: Second,
        mut fill: impl FnMut(u32, &mut UnwrittenPage<'_>),
        mut report: impl FnMut(u32, PutOutcome),
    ) {
        let PageRun {
            first: key,
            count,
            pattern,
        } = run;
        let Some(charged) = self.store().tenants.get(tenant) else {
            return (0..count).for_each(|n| report(n, PutOutcome::Refused(PutRefused::NoPool)));
        };
        let within = run_len(key, count);
        let _pin = Pin::new(self);
        let mut fill = |n, page: &mut UnwrittenPage<'_>| self.with_borrow(|| fill(n, page));
        let mut next = 0;
        while next < within {
            let access = PageAccess {
                pattern,
                ..self.page_access(charged, now)
            };
            let (came_to, shortage) = access.put_part(key, next..within, &mut fill, &mut report);
            next = came_to;
            if let Some(shortage) = shortage {
                let displacing = match shortage {
                    Shortage::Block(owner, kind) => self.find_page_block(owner, kind, now),
                    Shortage::Frame => Displacement::IfBound,
                };
                let put = self
                    .put_with_blocks(&access, at(key, next), displacing, |page| fill(next, page));
                report(next, put);
                next += 1;
            }
        }
        (within..count).for_each(|n| report(n, PutOutcome::Refused(PutRefused::NoPool)));
    }

    /// Gets up to `count` pages of an object in order, from `key` on, until one is missing. Returns how many it got.
    ///
    /// `visit` sees the nth page and must not wait for anything. This is cheaper than as many single gets.
    pub fn get_run(
        &self,
        tenant: TenantId,
        key: PageKey,
        count: u32,
        now: Second,
        mut visit: impl FnMut(u32, &[u8]),
    ) -> u32 {
        let count = run_len(key, count);
        let visit = |n, page: &[u8]| self.with_borrow(|| visit(n, page));
        self.with_page_access(tenant, now, |access| access.get_run(key, count, visit))
            .unwrap_or(0)
    }

    /// Flushes a page. Once this returns, no get finds it. It succeeds even if there was no page. Returns whether the
    /// pool exists.
    pub fn flush_page(&self, tenant: TenantId, key: PageKey, now: Second) -> bool {
        self.with_page_access(tenant, now, |access| access.flush_page(key)) == Some(true)
    }

    /// Flushes an object's pages. Returns whether the pool exists.
    pub fn flush_object(
        &self,
        tenant: TenantId,
        pool: PoolId,
        object: ObjectId,
        now: Second,
    ) -> bool {
        self.remove_all(self.begin_flush_object(tenant, pool, object, now), now)
    }

    /// Ends a pool, or a handle on a shared one. Returns whether it existed.
    pub fn destroy_pool(&self, tenant: TenantId, pool: PoolId, now: Second) -> bool {
        self.remove_all(self.end_pool(tenant, pool, now), now)
    }

    /// Begins to flush an object's pages, if the pool exists. [`remove_some`](Worker::remove_some) does the rest.
    pub fn begin_flush_object(
        &self,
        tenant: TenantId,
        pool: PoolId,
        object: ObjectId,
        now: Second,
    ) -> Option<Removal> {
        self.with_page_access(tenant, now, |access| {
            access.begin_flush_object(pool, object)
        })?
    }

    /// Ends a pool, or a handle on a shared one, if it exists. From then on no get finds its pages (R-F1). They keep
    /// their frames until [`remove_some`](Worker::remove_some) removes them.
    pub fn end_pool(&self, tenant: TenantId, pool: PoolId, now: Second) -> Option<Removal> {
        self.with_page_access(tenant, now, |access| access.end_pool(pool))?
    }

    /// Removes some pages within some tenths of a millisecond. Returns whether there are more.
    pub fn remove_some(&self, removal: &mut Removal, now: Second) -> bool {
        let mut found = self.found.take();
        let tenant = removal.tenant();
        let some = |access: PageAccess<'_>| access.remove_some(removal, &mut found);
        // If their tenant is gone, no pages are left.
        let more = self.with_page_access(tenant, now, some) == Some(true);
        self.found.set(found);
        if !more {
            self.store().pages.end_removal(removal);
        }
        more
    }

    fn remove_all(&self, removal: Option<Removal>, now: Second) -> bool {
        let Some(mut removal) = removal else {
            return false;
        };
        while self.remove_some(&mut removal, now) {}
        true
    }
}

/// Splits keys into batches that a group can distinguish, each with the index of its first key.
fn batches(keys: &[PageKey]) -> impl Iterator<Item = (usize, &[PageKey])> {
    (0..).step_by(PageMask::MAX).zip(keys.chunks(PageMask::MAX))
}

/// How many of a run's pages have an index.
fn run_len(first: PageKey, count: u32) -> u32 {
    count.min((u32::MAX - first.index.0).saturating_add(1))
}

/// The key of a run's nth page.
fn at(first: PageKey, n: u32) -> PageKey {
    PageKey {
        index: PageIndex(first.index.0 + n),
        ..first
    }
}
