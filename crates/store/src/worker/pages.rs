//! What a thread does with pages: puts, gets and flushes.

use sublet_types::{ObjectId, PageIndex, PoolId, Second, TenantId};

use super::{Pin, Worker};
use crate::api::*;
use crate::arena::{Blank, PageKind};
use crate::pages::{
    Desk, Displacing, PageVerb, Places, PutAttempt, Removal, Shortage, Siblings, Terms,
};
use crate::reclaim::{Need, Reclaim};
use crate::store::PAGES;
use crate::tenants::Tenant;

/// Attempts at a block before a put is refused: others may take what was freed for it.
const ATTEMPTS_MAX: u32 = 1000;

impl Worker {
    /// Puts a page: `fill` writes all its bytes, once, if it is stored. It must not wait for anything.
    pub fn put_page(
        &self,
        tenant: TenantId,
        key: PageKey,
        now: Second,
        fill: impl FnOnce(&mut Blank<'_>),
    ) -> Put {
        let Some(tenant) = self.store().tenants.get(tenant) else {
            return Put::Refused(PutRefused::NoPool);
        };
        let _pin = Pin::new(self);
        let fill = |page: &mut Blank<'_>| self.lending(|| fill(page));
        self.put_at(&self.desk(tenant, now), key, Displacing::IfBound, fill)
    }

    /// Puts a page, with blocks found for it where that is needed.
    fn put_at<F: FnOnce(&mut Blank<'_>)>(
        &self,
        desk: &Desk<'_>,
        key: PageKey,
        displacing: Displacing,
        mut fill: F,
    ) -> Put {
        let mut terms = Terms::from(displacing);
        for _ in 0..ATTEMPTS_MAX {
            let shortage = match desk.try_put(key, terms, fill) {
                PutAttempt::Done(put) => return put,
                PutAttempt::Lacks(shortage, again) => {
                    fill = again;
                    shortage
                }
            };
            match shortage {
                Shortage::Block(owner, kind) => {
                    terms = self.page_block(owner, kind, desk.now).into();
                }
                Shortage::Frame => {
                    terms.siblings = match desk.bring_frame(key) {
                        true => Siblings::Asked,
                        false => Siblings::Exhausted,
                    };
                }
            }
        }
        let terms = Terms {
            displacing: Displacing::Always,
            siblings: Siblings::Exhausted,
        };
        match desk.try_put(key, terms, fill) {
            PutAttempt::Done(put) => put,
            PutAttempt::Lacks(..) => desk.refuse(key),
        }
    }

    /// Gets a page: `visit` sees its bytes, once, if it is there. It must not wait for anything.
    pub fn get_page(
        &self,
        tenant: TenantId,
        key: PageKey,
        now: Second,
        visit: impl FnOnce(&[u8]),
    ) -> Get {
        let visit = |page: &[u8]| self.lending(|| visit(page));
        self.at_desk(tenant, now, |desk| desk.get(key, visit))
            .unwrap_or(Get::NoPool)
    }

    /// Puts pages, in any order, but each as often as it is named in that order: `fill` writes the nth, if it is stored,
    /// and `told` hears what became of it. Neither may wait for anything, or ask the store. Cheaper than as many single
    /// puts, the more so where they are spread over much memory.
    pub fn put_pages(
        &self,
        tenant: TenantId,
        keys: &[PageKey],
        now: Second,
        mut fill: impl FnMut(usize, &mut Blank<'_>),
        mut told: impl FnMut(usize, Put),
    ) {
        let Some(tenant) = self.store().tenants.get(tenant) else {
            return (0..keys.len()).for_each(|n| told(n, Put::Refused(PutRefused::NoPool)));
        };
        for (begin, keys) in parts(keys) {
            let _pin = Pin::new(self);
            let mut fill = |n, page: &mut Blank<'_>| self.lending(|| fill(begin + n, page));
            let mut told = |n, put| told(begin + n, put);
            let mut left = self.desk(tenant, now).sort(keys);
            while !left.is_empty() {
                let desk = self.desk(tenant, now);
                for n in left.take_alone() {
                    let fill = |page: &mut Blank<'_>| fill(n, page);
                    told(n, self.put_at(&desk, keys[n], Displacing::IfBound, fill));
                }
                let group = desk.gather(PageVerb::Put, keys, &left);
                if let Some((n, owner, kind)) = group.put(&mut left, &mut fill, &mut told) {
                    let displacing = self.page_block(owner, kind, now);
                    let fill = |page: &mut Blank<'_>| fill(n, page);
                    told(n, self.put_at(&desk, keys[n], displacing, fill));
                }
            }
        }
    }

    /// Gets pages, in any order, but each as often as it is named in that order: `visit` sees the nth, if it is there, and
    /// `told` hears what became of it. Neither may wait for anything, or ask the store. Cheaper than as many single gets.
    pub fn get_pages(
        &self,
        tenant: TenantId,
        keys: &[PageKey],
        now: Second,
        mut visit: impl FnMut(usize, &[u8]),
        mut told: impl FnMut(usize, Get),
    ) {
        let Some(tenant) = self.store().tenants.get(tenant) else {
            return (0..keys.len()).for_each(|n| told(n, Get::NoPool));
        };
        for (begin, keys) in parts(keys) {
            let _pin = Pin::new(self);
            let mut visit = |n, page: &[u8]| self.lending(|| visit(begin + n, page));
            let mut told = |n, got| told(begin + n, got);
            let mut left = self.desk(tenant, now).sort(keys);
            while !left.is_empty() {
                let desk = self.desk(tenant, now);
                for n in left.take_alone() {
                    told(n, desk.get(keys[n], |page| visit(n, page)));
                }
                desk.gather(PageVerb::Get, keys, &left)
                    .get(&mut left, &mut visit, &mut told);
            }
        }
    }

    /// Finds a block for a tenant's pages, or says that the put may displace one.
    fn page_block(&self, tenant: &Tenant, kind: PageKind, now: Second) -> Displacing {
        let need = Need {
            tenant,
            engine: PAGES,
            pins: kind == PageKind::Persistent,
        };
        let reclaiming = self.reclaiming(now);
        match reclaiming.block(need, || self.open_block(&reclaiming, need, kind)) {
            true => Displacing::IfBound,
            false => Displacing::Always,
        }
    }

    /// Opens a free block for a tenant's pages, if it may have one. Says whether there was one.
    fn open_block(&self, reclaiming: &Reclaim<'_>, need: Need<'_>, kind: PageKind) -> bool {
        let pages = &self.store().pages;
        let open = || pages.open_block(need.tenant, kind, reclaiming.now);
        if !need.pins {
            return open();
        }
        let _pinning = self.store().tenants.pinning.lock();
        reclaiming.may_have(need) && open()
    }

    fn desk<'a>(&'a self, tenant: &'a Tenant, now: Second) -> Desk<'a> {
        Desk {
            pages: &self.store().pages,
            tenant,
            now,
            luck: self.moment(now).luck,
            worker: self,
        }
    }

    fn at_desk<R>(
        &self,
        tenant: TenantId,
        now: Second,
        work: impl FnOnce(Desk<'_>) -> R,
    ) -> Option<R> {
        let tenant = self.store().tenants.get(tenant)?;
        let _pin = Pin::new(self);
        Some(work(self.desk(tenant, now)))
    }

    /// Whether a get would find a page. No use of it: nothing is counted, and its eviction hears nothing.
    pub fn has_page(&self, tenant: TenantId, key: PageKey, now: Second) -> bool {
        self.at_desk(tenant, now, |desk| desk.has(key)) == Some(true)
    }

    /// Puts `count` pages of an object, from `key` on: `fill` writes the nth, if it is stored, and `told` hears what
    /// became of it. Neither may wait for anything. Cheaper than as many single puts.
    pub fn put_run(
        &self,
        tenant: TenantId,
        key: PageKey,
        count: u32,
        now: Second,
        mut fill: impl FnMut(u32, &mut Blank<'_>),
        mut told: impl FnMut(u32, Put),
    ) {
        let Some(charged) = self.store().tenants.get(tenant) else {
            return (0..count).for_each(|n| told(n, Put::Refused(PutRefused::NoPool)));
        };
        let within = run_len(key, count);
        let _pin = Pin::new(self);
        let mut fill = |n, page: &mut Blank<'_>| self.lending(|| fill(n, page));
        let mut next = 0;
        while next < within {
            let desk = self.desk(charged, now);
            let (came_to, shortage) = desk.put_part(key, next..within, &mut fill, &mut told);
            next = came_to;
            if let Some(shortage) = shortage {
                let displacing = match shortage {
                    Shortage::Block(owner, kind) => self.page_block(owner, kind, now),
                    Shortage::Frame => Displacing::IfBound,
                };
                let put = self.put_at(&desk, at(key, next), displacing, |page| fill(next, page));
                told(next, put);
                next += 1;
            }
        }
        (within..count).for_each(|n| told(n, Put::Refused(PutRefused::NoPool)));
    }

    /// Gets up to `count` pages of an object in their order, from `key` on, until one is not there; says how many it
    /// got. `visit` sees the nth; it must not wait for anything. Cheaper than as many single gets.
    pub fn get_run(
        &self,
        tenant: TenantId,
        key: PageKey,
        count: u32,
        now: Second,
        mut visit: impl FnMut(u32, &[u8]),
    ) -> u32 {
        let count = run_len(key, count);
        let visit = |n, page: &[u8]| self.lending(|| visit(n, page));
        self.at_desk(tenant, now, |desk| desk.get_run(key, count, visit))
            .unwrap_or(0)
    }

    /// Flushes a page: from the answer on it cannot be had. Finding none is as good. Says whether the pool is there.
    pub fn flush_page(&self, tenant: TenantId, key: PageKey, now: Second) -> bool {
        self.at_desk(tenant, now, |desk| desk.flush_page(key)) == Some(true)
    }

    /// Flushes an object's pages. Says whether the pool is there.
    pub fn flush_object(
        &self,
        tenant: TenantId,
        pool: PoolId,
        object: ObjectId,
        now: Second,
    ) -> bool {
        self.remove_all(self.begin_flush_object(tenant, pool, object, now), now)
    }

    /// Ends a pool, or a handle on a shared one. Says whether it was there.
    pub fn destroy_pool(&self, tenant: TenantId, pool: PoolId, now: Second) -> bool {
        self.remove_all(self.end_pool(tenant, pool, now), now)
    }

    /// Begins to flush an object's pages, if the pool is there: the rest is done by [`remove_some`](Worker::remove_some).
    pub fn begin_flush_object(
        &self,
        tenant: TenantId,
        pool: PoolId,
        object: ObjectId,
        now: Second,
    ) -> Option<Removal> {
        self.at_desk(tenant, now, |desk| desk.begin_flush_object(pool, object))?
    }

    /// Ends a pool, or a handle on a shared one, if it is there. Nothing of it can be had any more (R-F1); its pages keep their
    /// frames until they are removed, by [`remove_some`](Worker::remove_some).
    pub fn end_pool(&self, tenant: TenantId, pool: PoolId, now: Second) -> Option<Removal> {
        self.at_desk(tenant, now, |desk| desk.end_pool(pool))?
    }

    /// Removes some pages, in some tenths of a millisecond. Says whether there are more.
    pub fn remove_some(&self, removal: &mut Removal, now: Second) -> bool {
        let mut found = self.found.take();
        let tenant = removal.tenant();
        let some = |desk: Desk<'_>| desk.remove_some(removal, &mut found);
        // Where nobody is left whose pages they are, none is.
        let more = self.at_desk(tenant, now, some) == Some(true);
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

/// Keys as many at a time as are told apart, with the place of the first.
fn parts(keys: &[PageKey]) -> impl Iterator<Item = (usize, &[PageKey])> {
    (0..).step_by(Places::MAX).zip(keys.chunks(Places::MAX))
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
