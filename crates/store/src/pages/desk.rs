//! The verbs: put, get, flush.

use std::ops::Range;

use sublet_types::{ObjectId, PageIndex, PoolId, Second};

use super::Pages;
use super::arrivals::{Arrivals, TOGETHER_MAX};
use super::directory::Whereabouts;
use super::frame_source::{Displacing, NO_POOL, PutAttempt, Shortage, Terms};
use super::locked_shard::LockedShard;
use super::to_remove::Removal;
use crate::api::{Get, PageKey, Put, PutRefused};
use crate::arena::{Blank, claim};
use crate::frames::{EXTENT_PAGES, Key};
use crate::tenants::Tenant;
use crate::thread::Thread;

/// Pages of a run that are copied while their shard stays locked, at the most: some microseconds for who waits.
const LOCKED_RUN: u32 = TOGETHER_MAX as u32;

/// One tenant's access to the page store, at one moment. Its worker is pinned.
pub(crate) struct Desk<'a> {
    pub(crate) pages: &'a Pages,
    pub(crate) tenant: &'a Tenant,
    pub(crate) now: Second,
    /// A number that differs from call to call.
    pub(crate) luck: u64,
    pub(crate) worker: &'a dyn Thread,
}

/// Room for the pages of an object, for one call after the other.
#[derive(Default)]
pub(crate) struct FoundPages(pub(super) Vec<(Key, Whereabouts)>);

impl FoundPages {
    /// With room for an extent: that is enough where there is no memory for more (R-F3).
    pub(crate) fn new() -> FoundPages {
        FoundPages(Vec::with_capacity(EXTENT_PAGES as usize))
    }
}

impl<'a> Desk<'a> {
    /// Locks the shard of a key, if its pool is this tenant's. Made where it is used: who moves what was just written
    /// waits for it.
    #[inline(always)]
    pub(super) fn open(
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
        let holdings = pages.holdings(owner);
        let hash = pages.seed.object(pool.base, object);
        let shard = holdings.shard(hash);
        // All of it is needed: let it not come line by line from who had it last.
        claim(shard);
        let shard = shard.lock();
        pages.pools.is_alive(id).then_some(LockedShard {
            pages,
            owner,
            holdings,
            id: Some(id),
            pool,
            object: hash,
            key: Key {
                pool: pool.base,
                object,
                index,
            },
            shard,
            now: self.now,
            luck: self.luck,
            worker: self.worker,
        })
    }

    /// Puts a page, if a frame can be had without leaving the shard.
    pub(crate) fn try_put<F: FnOnce(&mut Blank<'_>)>(
        &self,
        key: PageKey,
        terms: Terms,
        fill: F,
    ) -> PutAttempt<'a, F> {
        self.follow(key);
        let Some(mut open) = self.open(key.pool, key.object, key.index) else {
            return PutAttempt::Done(NO_POOL);
        };
        open.expect_put();
        let mut arrivals = Arrivals::new(self.pages, open.holdings);
        let attempt = open.put(terms, &mut arrivals, fill);
        arrivals.settle();
        if let PutAttempt::Done(put) = attempt {
            open.count_put(put);
            drop(open);
            if put.is_stored() {
                self.note_toucher(key);
            }
        }
        attempt
    }

    /// Refuses a put for want of a frame. The old page must not outlive it (R-P3).
    pub(crate) fn refuse(&self, key: PageKey) -> Put {
        let Some(mut open) = self.open(key.pool, key.object, key.index) else {
            return NO_POOL;
        };
        let refused = Put::Refused(PutRefused::NoMemory);
        open.flush();
        open.count_put(refused);
        refused
    }

    /// Puts a part of a run of an object's pages under one lock, as far as frames can be had there; `told` hears what
    /// became of each. Says how far it came, and what the next page lacks.
    pub(crate) fn put_part(
        &self,
        key: PageKey,
        part: Range<u32>,
        fill: &mut impl FnMut(u32, &mut Blank<'_>),
        told: &mut impl FnMut(u32, Put),
    ) -> (u32, Option<Shortage<'a>>) {
        let part = part.start..part.end.min(part.start + LOCKED_RUN);
        self.follow(key);
        let Some(mut open) = self.open(key.pool, key.object, key.index) else {
            part.clone().for_each(|n| told(n, NO_POOL));
            return (part.end, None);
        };
        let (mut stored, mut shortage) = (false, None);
        let mut arrivals = Arrivals::new(self.pages, open.holdings);
        let stopped = part.clone().find(|n| {
            open.turn_to(key.index.0 + n);
            open.expect_put();
            match open.put(Displacing::IfBound.into(), &mut arrivals, |page| {
                fill(*n, page)
            }) {
                PutAttempt::Done(put) => {
                    open.count_put(put);
                    stored |= put.is_stored();
                    told(*n, put);
                }
                PutAttempt::Lacks(what, _) => shortage = Some(what),
            }
            shortage.is_some()
        });
        arrivals.settle();
        drop(open);
        if stored {
            self.note_toucher(key);
        }
        (stopped.unwrap_or(part.end), shortage)
    }

    /// Gets a page.
    pub(crate) fn get(&self, key: PageKey, visit: impl FnOnce(&[u8])) -> Get {
        match self.open(key.pool, key.object, key.index) {
            None => Get::NoPool,
            Some(mut open) => {
                let got = open.get(visit);
                drop(open);
                if got == Get::Hit {
                    self.note_toucher(key);
                }
                got
            }
        }
    }

    /// Gets `count` pages of an object in their order, from `key` on, up to the first that is not there. Says how many
    /// it got; `visit` sees the nth.
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

    /// Gets a part of a run under one lock. Says how far it came.
    fn get_part(&self, key: PageKey, part: Range<u32>, visit: &mut impl FnMut(u32, &[u8])) -> u32 {
        let Some(mut open) = self.open(key.pool, key.object, key.index) else {
            return part.start;
        };
        let mut here = part.clone();
        let missed = here.find(|n| {
            if n + 1 < part.end {
                open.turn_to(key.index.0 + n + 1);
                open.expect();
            }
            open.turn_to(key.index.0 + n);
            open.get(|bytes| visit(*n, bytes)) != Get::Hit
        });
        drop(open);
        let end = missed.unwrap_or(part.end);
        if end > part.start {
            self.note_toucher(key);
        }
        end
    }

    /// Whether a get would find a page.
    pub(crate) fn has(&self, key: PageKey) -> bool {
        let open = self.open(key.pool, key.object, key.index);
        open.is_some_and(|open| open.is_there())
    }

    /// Flushes a page; not finding it is fine. Says whether the pool is there.
    pub(crate) fn flush_page(&self, key: PageKey) -> bool {
        let open = self.open(key.pool, key.object, key.index);
        open.map(|mut open| open.flush()).is_some()
    }

    /// Begins to flush an object; nothing if the pool is not there.
    pub(crate) fn begin_flush_object(&self, pool: PoolId, object: ObjectId) -> Option<Removal> {
        self.pages.pools.check(pool, self.tenant.id)?;
        let (tenant, object) = (self.tenant.id, Some(object));
        Some(Removal::of_objects(tenant, pool, object, Vec::new()))
    }
}
