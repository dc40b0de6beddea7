//! Frames that a shard gets from its tenant's other shards: free ones, and those of pages that are displaced there.
//!
//! A thread that holds a shard never waits for another; it skips locked shards. [`PageAccess::bring_frame`] holds no
//! shard at first, and waits.

use std::sync::atomic::Ordering;

use sublet_types::Second;

use super::PageStore;
use super::evict::{SweepBudget, evict};
use super::frame_source::{FrameSource, SiblingSearch};
use super::locked_shard::LockedShard;
use super::page_access::PageAccess;
use super::shard::{Shard, SpareFrame};
use super::shards_with_spare::StockLevel;
use super::victim_prefetch::prefetch_next_victims;
use crate::api::PageKey;
use crate::arena::PageKind;
use crate::frames::FrameId;
use crate::tenants::Tenant;

/// Free frames that a shard takes over at once, including the one that it needs.
const BORROWED: usize = 8;

/// The most pages of another shard that go along with the one whose turn it is there. One in [`TAKEN_ONE_IN`] of a
/// shard's frames is a limit too, so that hardly a page is missed for it.
const TAKEN_MAX: u32 = 7;

const TAKEN_ONE_IN: u32 = 256;

/// The most shards that are examined for one that owes a page.
const GIVERS_MAX: usize = 16;

impl PageStore {
    /// A free frame of one of the tenant's shards, in a block that stays.
    pub(super) fn free_frame(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        kind: PageKind,
        budget: &mut SweepBudget,
    ) -> Option<FrameId> {
        while !budget.is_spent() {
            let frame = shard.pop_free(&self.frames, kind)?;
            if self.takes_pages(frame, tenant, kind) {
                return Some(frame);
            }
            budget.spend();
        }
        None
    }

    /// A free frame of another shard with such a stock, and a few more that become this shard's with it. It skips
    /// locked shards.
    pub(super) fn borrow_frames(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        wanted: (StockLevel, PageKind),
        budget: &mut SweepBudget,
    ) -> Option<FrameSource> {
        let (stock, kind) = wanted;
        let (mut is_one_held, mut from) = (false, 0);
        while let Some(number) = shard.sibling_with(stock, kind, from) {
            from = number + 1;
            let Some(mut sibling) = self.tenant_pages(tenant).shards()[number].try_lock() else {
                is_one_held = true;
                continue;
            };
            if let Some(spare) = self.take_over(tenant, shard, &mut sibling, kind, budget) {
                return Some(FrameSource::Tenant(spare));
            }
        }
        (is_one_held && !budget.is_spent()).then_some(FrameSource::NotSearched)
    }

    /// A free frame of a sibling, and a few more that become this shard's with it.
    fn take_over(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        sibling: &mut Shard,
        kind: PageKind,
        budget: &mut SweepBudget,
    ) -> Option<SpareFrame> {
        let mut free = || self.free_spare(tenant, sibling, kind, budget);
        let first = free()?;
        self.reassign(&first, shard);
        // Do not take this shard's own: they may be of a dropped block, and the budget may have run out amid them.
        for free in std::iter::from_fn(free).take(BORROWED - 1) {
            self.push_spare(shard, &free, kind);
        }
        Some(first)
    }

    /// Makes a frame of another shard belong to this one.
    fn reassign(&self, spare: &SpareFrame, to: &Shard) {
        self.frames.get(spare.frame()).set_shard(to.number());
    }

    /// Makes a frame of another shard a free one of this shard. The put that takes it counts the page that went for it
    /// as displaced.
    pub(super) fn push_spare(&self, shard: &mut Shard, spare: &SpareFrame, kind: PageKind) {
        if let SpareFrame::Displaced(frame) = spare {
            self.lose(*frame);
        }
        self.reassign(spare, shard);
        shard.push_free(&self.frames, spare.frame(), kind);
        if !matches!(spare, SpareFrame::Free(_)) {
            shard.ahead.add(1);
        }
    }

    /// A free frame of a shard, in a block that stays, by how it became free.
    pub(super) fn free_spare(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        kind: PageKind,
        budget: &mut SweepBudget,
    ) -> Option<SpareFrame> {
        let frame = self.free_frame(tenant, shard, kind, budget)?;
        Some(shard.as_spare(frame, kind))
    }

    /// A frame that a shard has for another one of its tenant: a free one, or that of an ephemeral page that goes.
    pub(super) fn spare(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        kind: PageKind,
        now: Second,
        budget: &mut SweepBudget,
    ) -> Option<SpareFrame> {
        match self.free_spare(tenant, shard, kind, budget) {
            Some(free) => Some(free),
            None if kind == PageKind::Persistent => None,
            None => evict(self, tenant, shard, now, budget).map(SpareFrame::Displaced),
        }
    }
}

impl LockedShard<'_> {
    /// The frame of a page of another shard that owes one, if one is found without waiting.
    pub(super) fn owed_frame(&mut self, budget: &mut SweepBudget) -> Option<SpareFrame> {
        let (pages, tenant_pages, own) = (self.pages, self.tenant_pages, self.shard.number());
        let (shards, per_block) = (tenant_pages.shards(), pages.frames.per_block());
        let last = tenant_pages.giver.load(Ordering::Relaxed);
        for number in (last..last + GIVERS_MAX).map(|number| number % shards.len()) {
            if number == usize::from(own) {
                continue;
            }
            let Some(mut sibling) = shards[number].try_lock() else {
                continue;
            };
            if tenant_pages.is_overdrawn(&mut sibling, per_block) {
                continue;
            }
            let spare = pages.spare(
                self.owner,
                &mut sibling,
                PageKind::Ephemeral,
                self.now,
                budget,
            );
            if let Some(spare) = spare {
                pages.reassign(&spare, &self.shard);
                tenant_pages.giver.store(number, Ordering::Relaxed);
                return Some(spare);
            }
        }
        tenant_pages
            .giver
            .store((last + GIVERS_MAX) % shards.len(), Ordering::Relaxed);
        None
    }

    /// A frame of one other shard, if nobody holds that shard. If it has many pages, those next in line there go too,
    /// for what arrives here next. Whose turn it is changes slowly.
    pub(super) fn frame_of(
        &mut self,
        shard: usize,
        budget: &mut SweepBudget,
    ) -> Option<SpareFrame> {
        let (pages, own) = (self.pages, self.shard.number());
        if shard == usize::from(own) {
            return None;
        }
        let mut sibling = self.tenant_pages.shards()[shard].try_lock()?;
        let (kind, now) = (PageKind::Ephemeral, self.now);
        let more = (self.tenant_pages.frames_of_shard() / TAKEN_ONE_IN).min(TAKEN_MAX) as usize;
        if more > 0 {
            prefetch_next_victims(pages, &sibling, 1 + more);
        }
        let mut spare = || pages.spare(self.owner, &mut sibling, kind, now, budget);
        let first = spare()?;
        pages.reassign(&first, &self.shard);
        for spare in std::iter::from_fn(spare).take(more) {
            pages.push_spare(&mut self.shard, &spare, kind);
        }
        Some(first)
    }

    /// A frame of another shard of the tenant, which becomes this shard's. It skips locked shards.
    pub(super) fn siblings_frame(
        &mut self,
        kind: PageKind,
        siblings: SiblingSearch,
        budget: &mut SweepBudget,
    ) -> Option<FrameSource> {
        match siblings {
            SiblingSearch::Skip => return Some(FrameSource::NotSearched),
            SiblingSearch::Exhausted => return None,
            SiblingSearch::TryLock => {}
        }
        let (pages, own) = (self.pages, self.shard.number());
        let some = (StockLevel::Any, kind);
        let free = pages.borrow_frames(self.owner, &mut self.shard, some, budget);
        if matches!(free, Some(FrameSource::Tenant(_))) {
            return free;
        }
        let mut is_one_held = false;
        for (number, sibling) in self.tenant_pages.shards().iter().enumerate() {
            if number == usize::from(own) {
                continue;
            }
            let Some(mut sibling) = sibling.try_lock() else {
                is_one_held = true;
                continue;
            };
            if let Some(spare) = pages.spare(self.owner, &mut sibling, kind, self.now, budget) {
                pages.reassign(&spare, &self.shard);
                return Some(FrameSource::Tenant(spare));
            }
        }
        (is_one_held && !budget.is_spent()).then_some(FrameSource::NotSearched)
    }
}

impl PageAccess<'_> {
    /// Brings a frame that another shard can spare to the shard of a key, where the next put finds it.
    ///
    /// It waits for each shard in turn, so that a shard is used even if it is held now. A page goes for it only if the
    /// key's own shard has none that could. Returns false if no shard has a frame. The caller holds no shard.
    pub(crate) fn bring_frame(&self, key: PageKey) -> bool {
        let pages = self.pages;
        let pool = pages.pools.check(key.pool, self.tenant.id);
        let owner = pool.and_then(|pool| Some((pool, pages.tenants.get(pool.owner)?)));
        let Some((pool, owner)) = owner else {
            return false;
        };
        let tenant_pages = pages.tenant_pages(owner);
        let bringing = FrameTransfer {
            access: self,
            owner,
            kind: pool.kind(),
            own: tenant_pages.shard_number(pages.seed.object(pool.base, key.object)),
        };
        let mut others = (0..tenant_pages.shards().len()).filter(|number| *number != bringing.own);
        let is_bare = || tenant_pages.shards()[bringing.own].lock().eviction.count() == 0;
        bringing.free() || (is_bare() && others.any(|other| bringing.any(other)))
    }
}

/// A transfer of a frame to a shard from other shards, which it waits for.
struct FrameTransfer<'a> {
    access: &'a PageAccess<'a>,
    owner: &'a Tenant,
    kind: PageKind,
    own: usize,
}

impl FrameTransfer<'_> {
    /// Brings a free frame from any shard that has one.
    fn free(&self) -> bool {
        let (pages, owner, kind) = (self.access.pages, self.owner, self.kind);
        let own = &pages.tenant_pages(owner).shards()[self.own];
        let next = |from: usize| own.lock().sibling_with(StockLevel::Any, kind, from);
        let mut others = std::iter::successors(next(0), |last| next(last + 1));
        others.any(|other| {
            self.from(other, |sibling, budget| {
                pages.free_spare(owner, sibling, kind, budget)
            })
        })
    }

    /// Brings any frame of that shard: a free one, or that of an ephemeral page that goes for it.
    fn any(&self, other: usize) -> bool {
        let (pages, owner, kind) = (self.access.pages, self.owner, self.kind);
        self.from(other, |sibling, budget| {
            pages.spare(owner, sibling, kind, self.access.now, budget)
        })
    }

    /// Brings what `take` finds in that shard, if anything.
    fn from(
        &self,
        other: usize,
        take: impl FnOnce(&mut Shard, &mut SweepBudget) -> Option<SpareFrame>,
    ) -> bool {
        let pages = self.access.pages;
        let (mut here, mut sibling) = pages.tenant_pages(self.owner).lock_two(self.own, other);
        let spare = take(&mut sibling, &mut SweepBudget::default());
        let Some(spare) = spare else {
            return false;
        };
        pages.push_spare(&mut here, &spare, self.kind);
        true
    }
}
