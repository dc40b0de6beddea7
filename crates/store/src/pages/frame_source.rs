//! Where the frame of a new page comes from. [`LockedShard::frame`] chooses, in this order:
//!
//! 1. Its own shard: a free frame, or some of the tenant's open block.
//! 2. A shard that has free frames to spare. If frames are scant, any shard that has one (`shards_with_spare`).
//! 3. A new block, while one may be had. The put is repeated when the block is open.
//! 4. A page that is evicted: of its own shard, or of the shard whose turn it is. If each shard has an order of its
//!    own, a page of a shard that gave less than it owes (`shard_debt`).
//! 5. Any other shard: a free frame, or a page that is evicted there.
//! 6. A new block after all. If there is none, the put is refused.
//!
//! Persistent pages never go for others. For them steps 2 to 4 are left out, and step 5 takes free frames only.
//! `siblings` gets frames of other shards. That is needed because pages do not come evenly to shards. Besides, some
//! evictions are one order over all shards (`docs/decisions/2026-11-27-objects-stay-in-one-shard.md`).

use super::arrivals::Arrivals;
use super::evict::{SweepBudget, evict};
use super::locked_shard::LockedShard;
use super::shard::SpareFrame;
use super::shards_with_spare::StockLevel;
use super::victim_prefetch::prefetch_next_victim;
use crate::api::{PutOutcome, PutRefused};
use crate::arena::PageKind;
use crate::eviction::VictimShard;
use crate::frames::FrameId;
use crate::tenants::Tenant;

pub(super) const NO_POOL: PutOutcome = PutOutcome::Refused(PutRefused::NoPool);

/// Where the frame of a new page comes from.
pub(super) enum FrameSource {
    /// A shard of the tenant: the page's own, or another.
    Tenant(SpareFrame),
    /// A block that the charged tenant has yet to get.
    NewBlock,
    /// Perhaps a shard that was not asked, because another thread holds it or it may not be asked.
    NotSearched,
    Nowhere,
}

/// The outcome of an attempt to put.
pub(crate) enum PutAttempt<'a, F> {
    /// The put is decided.
    Done(PutOutcome),
    /// The put has to be repeated, after what it lacks has been looked for with no shard locked.
    Lacks(Shortage<'a>, F),
}

/// What a put lacks.
pub(crate) enum Shortage<'a> {
    /// The tenant that is charged needs a block.
    Block(&'a Tenant, PageKind),
    /// No frame is left, except in shards that have to be waited for.
    Frame,
}

/// Whether a put that finds no free frame may displace a page at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Displacement {
    /// Only if no other tenant could give way.
    IfBound,
    /// Always, because no other tenant should give way.
    Always,
}

/// How a put that finds no free frame in its shard may get one.
#[derive(Clone, Copy)]
pub(crate) struct FrameSearch {
    pub(crate) displacing: Displacement,
    pub(crate) siblings: SiblingSearch,
}

impl From<Displacement> for FrameSearch {
    fn from(displacing: Displacement) -> FrameSearch {
        FrameSearch {
            displacing,
            siblings: SiblingSearch::TryLock,
        }
    }
}

/// What a put may ask of the other shards of its tenant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SiblingSearch {
    /// It tries those that nobody holds.
    TryLock,
    /// It asks none, because the putting thread may hold some itself.
    Skip,
    /// It has just waited for each and asked, and none has a frame.
    Exhausted,
}

impl LockedShard<'_> {
    /// Finds the frame of a new page. No page is evicted before the pages that arrived with this one are counted.
    pub(super) fn frame(
        &mut self,
        search: FrameSearch,
        arrivals: &mut Arrivals<'_>,
    ) -> FrameSource {
        let (kind, siblings) = (self.pool.kind(), search.siblings);
        let budget = &mut SweepBudget::default();
        if let Some(frame) = self.free_frame(kind, budget) {
            return FrameSource::Tenant(self.shard.as_spare(frame, kind));
        }
        arrivals.count_all();
        let found = match kind {
            PageKind::Persistent => None,
            PageKind::Ephemeral => self
                .spared_frame(siblings, budget)
                .or_else(|| self.block_before_eviction(search.displacing))
                .or_else(|| self.displaced_frame(siblings, budget)),
        };
        found
            .or_else(|| self.siblings_frame(kind, siblings, budget))
            .unwrap_or_else(|| self.last_resort(kind, search.displacing))
    }

    /// A free frame of this shard. If it has none, it first takes some of the open block.
    fn free_frame(&mut self, kind: PageKind, budget: &mut SweepBudget) -> Option<FrameId> {
        let frames = &self.pages.frames;
        loop {
            let shard = &mut self.shard;
            let free = self.pages.free_frame(self.owner, shard, kind, budget);
            if free.is_some() || budget.is_spent() {
                return free;
            }
            let mut came = false;
            for frame in self.tenant_pages.some_frames(kind, frames) {
                frames.get(frame).set_shard(self.shard.number());
                self.shard.push_free(frames, frame, kind);
                came = true;
            }
            if !came {
                return None;
            }
        }
    }

    /// A free frame of another shard for an ephemeral page. The shard must have some to spare. Any shard will do if the
    /// tenant's floor covers all that it holds, or if its shards have few frames.
    fn spared_frame(
        &mut self,
        siblings: SiblingSearch,
        budget: &mut SweepBudget,
    ) -> Option<FrameSource> {
        let kind = PageKind::Ephemeral;
        let is_scant = self.owner.is_within_floor() || self.tenant_pages.are_shards_small();
        let stock = match is_scant {
            true => StockLevel::Any,
            false => StockLevel::Spare,
        };
        match siblings {
            SiblingSearch::Skip => {
                let sibling = self.shard.sibling_with(stock, kind, 0);
                sibling.map(|_| FrameSource::NotSearched)
            }
            SiblingSearch::Exhausted => None,
            SiblingSearch::TryLock => {
                let (pages, owner) = (self.pages, self.owner);
                match pages.borrow_frames(owner, &mut self.shard, (stock, kind), budget) {
                    // A page is evicted rather than that others are waited for, unless frames are scant.
                    Some(FrameSource::NotSearched) if stock == StockLevel::Spare => None,
                    borrowed => borrowed,
                }
            }
        }
    }

    /// A block for an ephemeral page, if one may be had before a page has to go.
    fn block_before_eviction(&mut self, displacing: Displacement) -> Option<FrameSource> {
        let (arena, owner) = (&self.pages.arena, self.owner);
        let is_decided = displacing == Displacement::Always;
        let is_below = owner.is_below_floor();
        if is_decided && is_below {
            self.shard.record_asked_in_vain();
        }
        let may_give = arena.ready() as usize > arena.reserve()
            || arena.may_spare()
            || (is_below && !self.shard.asked_in_vain());
        let asks = !owner.is_at_limit(1) && (may_give || self.shard.is_time_to_ask());
        (asks && !is_decided).then_some(FrameSource::NewBlock)
    }

    /// The frame of an ephemeral page that goes. The page is of the shard whose turn it is. If this shard gave more
    /// than others did, the page is of one that owes it. Otherwise it is of this shard.
    fn displaced_frame(
        &mut self,
        siblings: SiblingSearch,
        budget: &mut SweepBudget,
    ) -> Option<FrameSource> {
        let turn = self.shard.eviction.victim_shard();
        let is_others = match turn {
            Some(turn) => turn != VictimShard::Own,
            None => {
                let per_block = self.pages.frames.per_block();
                self.tenant_pages.is_overdrawn(&mut self.shard, per_block)
            }
        };
        if is_others && siblings == SiblingSearch::Skip {
            return Some(FrameSource::NotSearched);
        }
        if is_others && siblings == SiblingSearch::TryLock {
            let spare = match turn {
                Some(VictimShard::Other(shard)) => self.frame_of(shard, budget),
                _ => self.owed_frame(budget),
            };
            if let Some(spare) = spare {
                return Some(FrameSource::Tenant(spare));
            }
        }
        let victim = evict(self.pages, self.owner, &mut self.shard, self.now, budget);
        if siblings != SiblingSearch::Skip {
            // A group prefetches by itself.
            prefetch_next_victim(self.pages, self.tenant_pages, &self.shard);
        }
        victim.map(|frame| FrameSource::Tenant(SpareFrame::Displaced(frame)))
    }

    /// A block, if no frame is to be had. It is refused if no tenant gave one just now, or if a persistent page's
    /// tenant may have no more.
    fn last_resort(&self, kind: PageKind, displacing: Displacement) -> FrameSource {
        let may_be_had = kind == PageKind::Ephemeral || !self.owner.is_at_limit(1);
        match displacing {
            Displacement::IfBound if may_be_had => FrameSource::NewBlock,
            Displacement::IfBound | Displacement::Always => FrameSource::Nowhere,
        }
    }
}
