//! The operations put, get and flush.

use std::ops::Range;

use sublet_types::{ObjectId, PageIndex, PoolId, Second};

use super::PageStore;
use super::arrivals::{Arrivals, TOGETHER_MAX};
use super::directory::Whereabouts;
use super::frame_source::{Displacement, FrameSearch, NO_POOL, PutAttempt, Shortage};
use super::locked_shard::LockedShard;
use super::pending_removal::Removal;
use crate::api::{AccessPattern, GetOutcome, PageKey, PutOutcome, PutRefused};
use crate::arena::{UnwrittenPage, prefetch_for_write};
use crate::borrowing::AwayTicket;
use crate::frames::{EXTENT_PAGES, StoredKey};
use crate::pinned_thread::PinnedThread;
use crate::tenants::Tenant;

/// The most pages of a run that are copied while their shard stays locked. They take some microseconds for a thread
/// that waits.
const LOCKED_RUN: u32 = TOGETHER_MAX as u32;

/// One tenant's access to the page store, at one moment. Its worker is pinned.
pub(crate) struct PageAccess<'a> {
    pub(crate) pages: &'a PageStore,
    pub(crate) tenant: &'a Tenant,
    pub(crate) now: Second,
    /// A number that differs from call to call.
    pub(crate) random: u64,
    /// The pattern of the pages that it puts.
    pub(crate) pattern: AccessPattern,
    pub(crate) worker: &'a dyn PinnedThread,
}

/// A buffer for the pages of an object, reused from call to call.
#[derive(Default)]
pub(crate) struct FoundPages(pub(super) Vec<(StoredKey, Whereabouts)>);

impl FoundPages {
    /// A buffer with room for an extent. That is enough if there is no memory for more (R-F3).
    pub(crate) fn new() -> FoundPages {
        FoundPages(Vec::with_capacity(EXTENT_PAGES as usize))
    }
}

impl<'a> PageAccess<'a> {
    /// Locks the shard of a key, if its pool is this tenant's. The guard is built in place, because moving what was
    /// just written would wait for it.
    #[inline(always)]
    pub(super) fn lock_page(
        &self,
        id: PoolId,
        object: ObjectId,
        index: PageIndex,
    ) -> Option<LockedShard<'a>> {
        let pages = self.pages;
        let pool = pages.pools.check(id, self.tenant.id)?;
        let owner = match pool.owner == self.tenant.id {
            true => self.tenant,
            false => pages.tenants.get(pool.owner)?,
        };
        let tenant_pages = pages.tenant_pages(owner);
        let hash = pages.seed.object(pool.base, object);
        let shard = tenant_pages.shard(hash);
        // All of it is needed, so fetch it at once, not line by line from the core that had it last.
        prefetch_for_write(shard);
        let shard = shard.lock();
        pages.pools.is_alive(id).then_some(LockedShard {
            pages,
            owner,
            tenant_pages,
            id: Some(id),
            pool,
            object: hash,
            key: StoredKey {
                pool: pool.base,
                object,
                index,
            },
            shard,
            now: self.now,
            random: self.random,
            pattern: self.pattern,
            worker: self.worker,
        })
    }

    /// Puts a page, if a frame can be had without leaving the shard.
    pub(crate) fn try_put<F: FnOnce(&mut UnwrittenPage<'_>)>(
        &self,
        key: PageKey,
        search: FrameSearch,
        fill: F,
    ) -> PutAttempt<'a, F> {
        self.track_object(key);
        let Some(mut open) = self.lock_page(key.pool, key.object, key.index) else {
            return PutAttempt::Done(NO_POOL);
        };
        open.prefetch_put();
        let mut arrivals = Arrivals::new(self.pages, open.tenant_pages);
        let attempt = open.put(search, &mut arrivals, fill);
        arrivals.publish();
        if let PutAttempt::Done(put) = attempt {
            open.count_put(put);
            drop(open);
            if put.is_stored() {
                self.record_toucher(key);
            }
        }
        attempt
    }

    /// Refuses a put for want of a frame. The old page must not outlive it (R-P3).
    pub(crate) fn refuse(&self, key: PageKey) -> PutOutcome {
        let Some(mut open) = self.lock_page(key.pool, key.object, key.index) else {
            return NO_POOL;
        };
        let refused = PutOutcome::Refused(PutRefused::NoMemory);
        open.flush();
        open.count_put(refused);
        refused
    }

    /// Puts a part of a run of an object's pages under one lock, as far as frames can be had there. `report` gets each
    /// outcome. Returns how far it came, and what the next page lacks.
    pub(crate) fn put_part(
        &self,
        key: PageKey,
        part: Range<u32>,
        fill: &mut impl FnMut(u32, &mut UnwrittenPage<'_>),
        report: &mut impl FnMut(u32, PutOutcome),
    ) -> (u32, Option<Shortage<'a>>) {
        let part = part.start..part.end.min(part.start + LOCKED_RUN);
        self.track_object(key);
        let Some(mut open) = self.lock_page(key.pool, key.object, key.index) else {
            part.clone().for_each(|n| report(n, NO_POOL));
            return (part.end, None);
        };
        let (mut stored, mut shortage) = (false, None);
        let mut arrivals = Arrivals::new(self.pages, open.tenant_pages);
        let stopped = part.clone().find(|n| {
            open.move_to(key.index.0 + n);
            open.prefetch_put();
            match open.put(Displacement::IfBound.into(), &mut arrivals, |page| {
                fill(*n, page)
            }) {
                PutAttempt::Done(put) => {
                    open.count_put(put);
                    stored |= put.is_stored();
                    report(*n, put);
                }
                PutAttempt::Lacks(what, _) => shortage = Some(what),
            }
            shortage.is_some()
        });
        arrivals.publish();
        drop(open);
        if stored {
            self.record_toucher(key);
        }
        (stopped.unwrap_or(part.end), shortage)
    }

    /// Gets a page.
    pub(crate) fn get(&self, key: PageKey, visit: impl FnOnce(&[u8])) -> GetOutcome {
        self.get_by(key, |open| open.get(visit))
    }

    fn get_by(
        &self,
        key: PageKey,
        get: impl FnOnce(&mut LockedShard<'_>) -> GetOutcome,
    ) -> GetOutcome {
        match self.lock_page(key.pool, key.object, key.index) {
            None => GetOutcome::NoPool,
            Some(mut open) => {
                let got = get(&mut open);
                drop(open);
                if got == GetOutcome::Hit {
                    self.record_toucher(key);
                }
                got
            }
        }
    }

    /// Ends a get by a ticket whose page has come.
    pub(crate) fn arrived(
        &self,
        key: PageKey,
        ticket: &AwayTicket,
        page: &[u8],
        visit: impl FnOnce(&[u8]),
    ) -> GetOutcome {
        self.get_by(key, |open| open.arrived(ticket, page, visit))
    }

    /// Ends a get by a ticket whose page is gone.
    pub(crate) fn gone(
        &self,
        key: PageKey,
        ticket: &AwayTicket,
        visit: impl FnOnce(&[u8]),
    ) -> GetOutcome {
        self.get_by(key, |open| open.gone(ticket, visit))
    }

    /// Gets `count` pages of an object in order, from `key` on, until one is missing. `visit` sees the nth page.
    /// Returns how many it got.
    pub(crate) fn get_run(
        &self,
        key: PageKey,
        count: u32,
        mut visit: impl FnMut(u32, &[u8]),
    ) -> u32 {
        let mut got = 0;
        while got < count {
            let part = got..count.min(got + LOCKED_RUN);
            let end = part.end;
            got = self.get_part(key, part, &mut visit);
            if got < end {
                break;
            }
        }
        got
    }

    /// Gets a part of a run under one lock. Returns how far it came.
    fn get_part(&self, key: PageKey, part: Range<u32>, visit: &mut impl FnMut(u32, &[u8])) -> u32 {
        let Some(mut open) = self.lock_page(key.pool, key.object, key.index) else {
            return part.start;
        };
        let mut here = part.clone();
        let missed = here.find(|n| {
            if n + 1 < part.end {
                open.move_to(key.index.0 + n + 1);
                open.prefetch();
            }
            open.move_to(key.index.0 + n);
            open.get(|bytes| visit(*n, bytes)) != GetOutcome::Hit
        });
        drop(open);
        let end = missed.unwrap_or(part.end);
        if end > part.start {
            self.record_toucher(key);
        }
        end
    }

    /// Returns whether a get would find a page.
    pub(crate) fn has(&self, key: PageKey) -> bool {
        let open = self.lock_page(key.pool, key.object, key.index);
        open.is_some_and(|open| open.is_there())
    }

    /// Returns whether a get would find a page without asking a lender.
    pub(crate) fn has_here(&self, key: PageKey) -> bool {
        let open = self.lock_page(key.pool, key.object, key.index);
        open.is_some_and(|open| open.is_here())
    }

    /// The ticket of a page that a lender has.
    pub(crate) fn away_ticket(&self, key: PageKey) -> Option<AwayTicket> {
        let open = self.lock_page(key.pool, key.object, key.index)?;
        open.away_ticket()
    }

    /// Flushes a page. It succeeds even if there was none. Returns whether the pool exists.
    pub(crate) fn flush_page(&self, key: PageKey) -> bool {
        let open = self.lock_page(key.pool, key.object, key.index);
        open.map(|mut open| open.flush()).is_some()
    }

    /// Begins to flush an object. `None` if the pool does not exist.
    pub(crate) fn begin_flush_object(&self, pool: PoolId, object: ObjectId) -> Option<Removal> {
        self.pages.pools.check(pool, self.tenant.id)?;
        let (tenant, object) = (self.tenant.id, Some(object));
        Some(Removal::of_objects(tenant, pool, object, Vec::new()))
    }
}
