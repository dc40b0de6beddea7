//! Frames for new pages: free ones, and those that a tenant's other shards can spare.

use std::sync::atomic::Ordering;

use sublet_types::Second;

use super::Pages;
use super::desk::Desk;
use super::evict::{Patience, evict};
use super::group::expect_several_to_go;
use super::opened::Opened;
use super::rich::Stock;
use super::shard::Shard;
use crate::api::PageKey;
use crate::arena::PageKind;
use crate::frames::FrameId;
use crate::tenants::Tenant;

/// What a put may ask of the other shards of its tenant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Siblings {
    /// Those that nobody holds are asked.
    Asked,
    /// None is: whoever puts may hold some himself.
    LeftAlone,
    /// None has a frame: each was waited for and asked, just now.
    Exhausted,
}

/// Free frames that a shard takes over at once, with the one that it needs.
const BORROWED: usize = 8;

/// Pages of another shard that go with one whose turn it is there, at the most; and one in so many that a shard has, so that hardly a page is
/// missed for it.
const TAKEN_MAX: u32 = 7;
const TAKEN_ONE_IN: u32 = 256;

/// Shards that are looked at for one that owes a page, at the most.
const GIVERS_MAX: usize = 16;

/// A frame that a shard can spare.
pub(super) enum Spare {
    Free(FrameId),
    /// Free since a page of the tenant was evicted ahead, as if it went now.
    FreedAhead(FrameId),
    /// A page of the tenant went for it. Its block counts it as taken still.
    Displaced(FrameId),
}

impl Spare {
    pub(super) fn frame(&self) -> FrameId {
        match self {
            Spare::Free(frame) | Spare::FreedAhead(frame) | Spare::Displaced(frame) => *frame,
        }
    }
}

/// What asking the other shards came to.
pub(super) enum Asked {
    Has(Spare),
    /// Shards that were not asked may have one.
    Perhaps,
    Nobody,
}

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
    ) -> Asked {
        let (stock, kind) = wanted;
        let (mut is_one_held, mut from) = (false, 0);
        while let Some(number) = shard.sibling_with(stock, kind, from) {
            from = number + 1;
            let Some(mut sibling) = self.holdings(tenant).shards()[number].try_lock() else {
                is_one_held = true;
                continue;
            };
            if let Some(spare) = self.take_over(tenant, shard, &mut sibling, kind, patience) {
                return Asked::Has(spare);
            }
        }
        match is_one_held && !patience.is_over() {
            true => Asked::Perhaps,
            false => Asked::Nobody,
        }
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
        self.frames.get(first.frame()).set_shard(shard.number());
        // Not one of its own: those may be of a dropped block, and patience have ended amid them.
        for free in std::iter::from_fn(free).take(BORROWED - 1) {
            self.push_spare(shard, &free, kind);
        }
        Some(first)
    }

    /// Makes a frame of another shard a free one of this one. The put that takes it displaced the page that went for it.
    fn push_spare(&self, shard: &mut Shard, spare: &Spare, kind: PageKind) {
        if let Spare::Displaced(frame) = spare {
            self.lose(*frame);
        }
        self.frames.get(spare.frame()).set_shard(shard.number());
        shard.push_free(&self.frames, spare.frame(), kind);
        if !matches!(spare, Spare::Free(_)) {
            shard.ahead.add(1);
        }
    }

    /// A free frame of a shard, of a block that stays, by how it came to be free.
    fn free_spare(
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
    fn spare(
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

impl Opened<'_> {
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
                pages.frames.get(spare.frame()).set_shard(own);
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
        pages.frames.get(first.frame()).set_shard(own);
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
    ) -> Asked {
        match siblings {
            Siblings::LeftAlone => return Asked::Perhaps,
            Siblings::Exhausted => return Asked::Nobody,
            Siblings::Asked => {}
        }
        let (pages, own) = (self.pages, self.shard.number());
        let some = (Stock::Some, kind);
        let free = pages.borrow_frames(self.owner, &mut self.shard, some, patience);
        if matches!(free, Asked::Has(_)) {
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
                pages.frames.get(spare.frame()).set_shard(own);
                return Asked::Has(spare);
            }
        }
        match is_one_held && !patience.is_over() {
            true => Asked::Perhaps,
            false => Asked::Nobody,
        }
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
        bringing.free() || (is_bare() && others.any(|other| bringing.from(other, Taking::Any)))
    }
}

/// What is taken from another shard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taking {
    /// A free frame.
    Free,
    /// That, or the frame of an ephemeral page that goes for it.
    Any,
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
        let own = &self.desk.pages.holdings(self.owner).shards()[self.own];
        let next = |from: usize| own.lock().sibling_with(Stock::Some, self.kind, from);
        let mut others = std::iter::successors(next(0), |last| next(last + 1));
        others.any(|other| self.from(other, Taking::Free))
    }

    /// Brings one from that shard, if it has one.
    fn from(&self, other: usize, taking: Taking) -> bool {
        let (pages, owner, kind) = (self.desk.pages, self.owner, self.kind);
        let (mut here, mut sibling) = pages.holdings(owner).lock_two(self.own, other);
        let patience = &mut Patience::default();
        let spare = match taking {
            Taking::Free => pages.free_spare(owner, &mut sibling, kind, patience),
            Taking::Any => pages.spare(owner, &mut sibling, kind, self.desk.now, patience),
        };
        let Some(spare) = spare else {
            return false;
        };
        pages.push_spare(&mut here, &spare, kind);
        true
    }
}
