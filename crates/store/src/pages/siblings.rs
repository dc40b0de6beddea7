//! Frames that a shard has of its tenant's other shards: free ones, and those of pages that go there.
//!
//! Whoever holds a shard never waits for another: who is locked is passed by. [`Desk::bring_frame`] holds none to begin with, and waits.

use std::sync::atomic::Ordering;

use sublet_types::Second;

use super::Pages;
use super::desk::Desk;
use super::evict::{Patience, evict};
use super::expected::expect_several_to_go;
use super::frame_source::{FrameSource, Siblings};
use super::locked_shard::LockedShard;
use super::shard::{Shard, Spare};
use super::shards_with_spare::Stock;
use crate::api::PageKey;
use crate::arena::PageKind;
use crate::frames::FrameId;
use crate::tenants::Tenant;

/// Free frames that a shard takes over at once, with the one that it needs.
const BORROWED: usize = 8;

/// Pages of another shard that go with one whose turn it is there, at the most; and one in so many that a shard has, so that hardly a page is
/// missed for it.
const TAKEN_MAX: u32 = 7;

const TAKEN_ONE_IN: u32 = 256;

/// Shards that are looked at for one that owes a page, at the most.
const GIVERS_MAX: usize = 16;

impl Pages {
    /// A free frame of a shard of the tenant's, of a block that stays.
    pub(super) fn free_frame(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        kind: PageKind,
        patience: &mut Patience,
    ) -> Option<FrameId> {
        while !patience.is_over() {
            let frame = shard.pop_free(&self.frames, kind)?;
            if self.takes_pages(frame, tenant, kind) {
                return Some(frame);
            }
            patience.wear();
        }
        None
    }

    /// A free frame of another shard with such a stock, and a few more that become this one's with it. Locks only who is not
    /// locked.
    pub(super) fn borrow_frames(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        wanted: (Stock, PageKind),
        patience: &mut Patience,
    ) -> Option<FrameSource> {
        let (stock, kind) = wanted;
        let (mut is_one_held, mut from) = (false, 0);
        while let Some(number) = shard.sibling_with(stock, kind, from) {
            from = number + 1;
            let Some(mut sibling) = self.holdings(tenant).shards()[number].try_lock() else {
                is_one_held = true;
                continue;
            };
            if let Some(spare) = self.take_over(tenant, shard, &mut sibling, kind, patience) {
                return Some(FrameSource::Tenant(spare));
            }
        }
        (is_one_held && !patience.is_over()).then_some(FrameSource::Unasked)
    }

    /// A free frame of a sibling, and a few more that become this shard's with it.
    fn take_over(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        sibling: &mut Shard,
        kind: PageKind,
        patience: &mut Patience,
    ) -> Option<Spare> {
        let mut free = || self.free_spare(tenant, sibling, kind, patience);
        let first = free()?;
        self.carry(&first, shard);
        // Not one of its own: those may be of a dropped block, and patience have ended amid them.
        for free in std::iter::from_fn(free).take(BORROWED - 1) {
            self.push_spare(shard, &free, kind);
        }
        Some(first)
    }

    /// Has a frame of another shard belong to this one.
    fn carry(&self, spare: &Spare, to: &Shard) {
        self.frames.get(spare.frame()).set_shard(to.number());
    }

    /// Makes a frame of another shard a free one of this one. The put that takes it displaced the page that went for it.
    pub(super) fn push_spare(&self, shard: &mut Shard, spare: &Spare, kind: PageKind) {
        if let Spare::Displaced(frame) = spare {
            self.lose(*frame);
        }
        self.carry(spare, shard);
        shard.push_free(&self.frames, spare.frame(), kind);
        if !matches!(spare, Spare::Free(_)) {
            shard.ahead.add(1);
        }
    }

    /// A free frame of a shard, of a block that stays, by how it came to be free.
    pub(super) fn free_spare(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        kind: PageKind,
        patience: &mut Patience,
    ) -> Option<Spare> {
        let frame = self.free_frame(tenant, shard, kind, patience)?;
        Some(shard.spared(frame, kind))
    }

    /// A frame that a shard has for another one of its tenant: free, or of an ephemeral page that goes.
    pub(super) fn spare(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        kind: PageKind,
        now: Second,
        patience: &mut Patience,
    ) -> Option<Spare> {
        match self.free_spare(tenant, shard, kind, patience) {
            Some(free) => Some(free),
            None if kind == PageKind::Persistent => None,
            None => evict(self, tenant, shard, now, patience).map(Spare::Displaced),
        }
    }
}

impl LockedShard<'_> {
    /// The frame of a page of another shard that owes one, or of none, as far as can be seen without a wait.
    pub(super) fn owed_frame(&mut self, patience: &mut Patience) -> Option<Spare> {
        let (pages, holdings, own) = (self.pages, self.holdings, self.shard.number());
        let (shards, per_block) = (holdings.shards(), pages.frames.per_block());
        let last = holdings.giver.load(Ordering::Relaxed);
        for number in (last..last + GIVERS_MAX).map(|number| number % shards.len()) {
            if number == usize::from(own) {
                continue;
            }
            let Some(mut sibling) = shards[number].try_lock() else {
                continue;
            };
            if holdings.is_overdrawn(&mut sibling, per_block) {
                continue;
            }
            let spare = pages.spare(
                self.owner,
                &mut sibling,
                PageKind::Ephemeral,
                self.now,
                patience,
            );
            if let Some(spare) = spare {
                pages.carry(&spare, &self.shard);
                holdings.giver.store(number, Ordering::Relaxed);
                return Some(spare);
            }
        }
        holdings
            .giver
            .store((last + GIVERS_MAX) % shards.len(), Ordering::Relaxed);
        None
    }

    /// A frame of one other shard, if nobody holds it. Where that has many pages, those that are next in line there go with it, for
    /// what comes here next: whose turn it is changes slowly.
    pub(super) fn frame_of(&mut self, shard: usize, patience: &mut Patience) -> Option<Spare> {
        let (pages, own) = (self.pages, self.shard.number());
        if shard == usize::from(own) {
            return None;
        }
        let mut sibling = self.holdings.shards()[shard].try_lock()?;
        let (kind, now) = (PageKind::Ephemeral, self.now);
        let more = (self.holdings.frames_of_shard() / TAKEN_ONE_IN).min(TAKEN_MAX) as usize;
        if more > 0 {
            expect_several_to_go(pages, &sibling, 1 + more);
        }
        let mut spare = || pages.spare(self.owner, &mut sibling, kind, now, patience);
        let first = spare()?;
        pages.carry(&first, &self.shard);
        for spare in std::iter::from_fn(spare).take(more) {
            pages.push_spare(&mut self.shard, &spare, kind);
        }
        Some(first)
    }

    /// A frame of another shard of the tenant, which becomes this one's. Locks only who is not locked.
    pub(super) fn siblings_frame(
        &mut self,
        kind: PageKind,
        siblings: Siblings,
        patience: &mut Patience,
    ) -> Option<FrameSource> {
        match siblings {
            Siblings::LeftAlone => return Some(FrameSource::Unasked),
            Siblings::Exhausted => return None,
            Siblings::Asked => {}
        }
        let (pages, own) = (self.pages, self.shard.number());
        let some = (Stock::Some, kind);
        let free = pages.borrow_frames(self.owner, &mut self.shard, some, patience);
        if matches!(free, Some(FrameSource::Tenant(_))) {
            return free;
        }
        let mut is_one_held = false;
        for (number, sibling) in self.holdings.shards().iter().enumerate() {
            if number == usize::from(own) {
                continue;
            }
            let Some(mut sibling) = sibling.try_lock() else {
                is_one_held = true;
                continue;
            };
            if let Some(spare) = pages.spare(self.owner, &mut sibling, kind, self.now, patience) {
                pages.carry(&spare, &self.shard);
                return Some(FrameSource::Tenant(spare));
            }
        }
        (is_one_held && !patience.is_over()).then_some(FrameSource::Unasked)
    }
}

impl Desk<'_> {
    /// Brings a frame that another shard can spare to the shard of a key, where the next put finds it. Each is waited for in
    /// its turn, so that who holds it now is no reason to do without. A page goes for it only where the key's own shard has none
    /// that could. False if none has any. The caller holds no shard.
    pub(crate) fn bring_frame(&self, key: PageKey) -> bool {
        let pages = self.pages;
        let pool = pages.pools.check(key.pool, self.tenant.id);
        let owner = pool.and_then(|pool| Some((pool, pages.tenants.get(pool.owner)?)));
        let Some((pool, owner)) = owner else {
            return false;
        };
        let holdings = pages.holdings(owner);
        let bringing = Bringing {
            desk: self,
            owner,
            kind: pool.kind(),
            own: holdings.shard_number(pages.seed.object(pool.base, key.object)),
        };
        let mut others = (0..holdings.shards().len()).filter(|number| *number != bringing.own);
        let is_bare = || holdings.shards()[bringing.own].lock().eviction.count() == 0;
        bringing.free() || (is_bare() && others.any(|other| bringing.any(other)))
    }
}

/// Bringing a frame to a shard, from others that are waited for.
struct Bringing<'a> {
    desk: &'a Desk<'a>,
    owner: &'a Tenant,
    kind: PageKind,
    own: usize,
}

impl Bringing<'_> {
    /// Brings a free one, from whichever shard has any.
    fn free(&self) -> bool {
        let (pages, owner, kind) = (self.desk.pages, self.owner, self.kind);
        let own = &pages.holdings(owner).shards()[self.own];
        let next = |from: usize| own.lock().sibling_with(Stock::Some, kind, from);
        let mut others = std::iter::successors(next(0), |last| next(last + 1));
        others.any(|other| {
            self.from(other, |sibling, patience| {
                pages.free_spare(owner, sibling, kind, patience)
            })
        })
    }

    /// Brings whichever that shard has: a free one, or that of an ephemeral page that goes for it.
    fn any(&self, other: usize) -> bool {
        let (pages, owner, kind) = (self.desk.pages, self.owner, self.kind);
        self.from(other, |sibling, patience| {
            pages.spare(owner, sibling, kind, self.desk.now, patience)
        })
    }

    /// Brings what is taken of that shard, if anything is.
    fn from(
        &self,
        other: usize,
        take: impl FnOnce(&mut Shard, &mut Patience) -> Option<Spare>,
    ) -> bool {
        let pages = self.desk.pages;
        let (mut here, mut sibling) = pages.holdings(self.owner).lock_two(self.own, other);
        let spare = take(&mut sibling, &mut Patience::default());
        let Some(spare) = spare else {
            return false;
        };
        pages.push_spare(&mut here, &spare, self.kind);
        true
    }
}
