//! Where the frame of a new page comes from. [`LockedShard::frame`] chooses, and asks in this order:
//!
//! ```text
//!  1  its own shard: a frame that is free there, or some of the tenant's open block
//!  2  a shard that has free ones to spare; any that has one, where frames are scant (`shards_with_spare`)
//!  3  a new block, while one may be had: the put comes again when it is open
//!  4  a page that goes: of its own shard, or of the shard whose turn it is. Where each shard has an order of its own, of one that
//!     gave less than it owes (`shard_debt`)
//!  5  any other shard: a free one, or a page that goes there
//!  6  a new block after all; else the put is refused
//! ```
//!
//! Persistent pages never go for others: for them 2 to 4 are left out, and 5 is free frames only. How frames are had of other
//! shards is in `siblings`. They are, because pages do not come evenly to shards, and because some evictions are one order over
//! all shards (`docs/decisions/2026-11-27-objects-stay-in-one-shard.md`).

use super::arrivals::Arrivals;
use super::evict::{Patience, evict};
use super::expected::expect_next_to_go;
use super::locked_shard::LockedShard;
use super::shard::Spare;
use super::shards_with_spare::Stock;
use crate::api::{Put, PutRefused};
use crate::arena::PageKind;
use crate::eviction::Turn;
use crate::frames::FrameId;
use crate::tenants::Tenant;

pub(super) const NO_POOL: Put = Put::Refused(PutRefused::NoPool);

/// Where the frame of a new page comes from.
pub(super) enum FrameSource {
    /// A shard of the tenant's: the page's own, or another.
    Tenant(Spare),
    /// A block that whoever is charged has yet to get.
    NewBlock,
    /// Perhaps shards that were not asked: somebody holds them, or they may not be asked.
    Unasked,
    Nowhere,
}

/// What became of an attempt to put.
pub(crate) enum PutAttempt<'a, F> {
    /// It is decided.
    Done(Put),
    /// It has to be made again, when what it lacks has been looked for with no shard locked.
    Lacks(Shortage<'a>, F),
}

/// What a put lacks.
pub(crate) enum Shortage<'a> {
    /// Whoever is charged needs a block.
    Block(&'a Tenant, PageKind),
    /// There is no frame but in shards that have to be waited for.
    Frame,
}

/// Whether a put that finds no free frame may displace a page at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Displacing {
    /// Only where nobody else could give way.
    IfBound,
    /// It has been found out that nobody else should.
    Always,
}

/// How a put that finds no free frame in its shard may come by one.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) displacing: Displacing,
    pub(crate) siblings: Siblings,
}

impl From<Displacing> for Terms {
    fn from(displacing: Displacing) -> Terms {
        Terms {
            displacing,
            siblings: Siblings::Asked,
        }
    }
}

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

impl LockedShard<'_> {
    /// Where the frame of a new page comes from. No page goes before those that came with it are counted.
    pub(super) fn frame(&mut self, terms: Terms, arrivals: &mut Arrivals<'_>) -> FrameSource {
        let (kind, siblings) = (self.pool.kind(), terms.siblings);
        let patience = &mut Patience::default();
        if let Some(frame) = self.free_frame(kind, patience) {
            return FrameSource::Tenant(self.shard.spared(frame, kind));
        }
        arrivals.count_all();
        let found = match kind {
            PageKind::Persistent => None,
            PageKind::Ephemeral => self
                .spared_frame(siblings, patience)
                .or_else(|| self.block_before_eviction(terms.displacing))
                .or_else(|| self.displaced_frame(siblings, patience)),
        };
        found
            .or_else(|| self.siblings_frame(kind, siblings, patience))
            .unwrap_or_else(|| self.last_resort(kind, terms.displacing))
    }

    /// A free frame of this shard; where it has none, it takes some of the open block first.
    fn free_frame(&mut self, kind: PageKind, patience: &mut Patience) -> Option<FrameId> {
        let frames = &self.pages.frames;
        loop {
            let shard = &mut self.shard;
            let free = self.pages.free_frame(self.owner, shard, kind, patience);
            if free.is_some() || patience.is_over() {
                return free;
            }
            let mut came = false;
            for frame in self.holdings.some_frames(kind, frames) {
                frames.get(frame).set_shard(self.shard.number());
                self.shard.push_free(frames, frame, kind);
                came = true;
            }
            if !came {
                return None;
            }
        }
    }

    /// A free frame of a shard that has some to spare, for an ephemeral page; of any that has one, where the tenant's floor takes
    /// all that it holds, or its shards have few.
    fn spared_frame(&mut self, siblings: Siblings, patience: &mut Patience) -> Option<FrameSource> {
        let kind = PageKind::Ephemeral;
        let is_scant = self.owner.is_within_floor() || self.holdings.are_shards_small();
        let stock = match is_scant {
            true => Stock::Some,
            false => Stock::Spare,
        };
        match siblings {
            Siblings::LeftAlone => {
                let sibling = self.shard.sibling_with(stock, kind, 0);
                sibling.map(|_| FrameSource::Unasked)
            }
            Siblings::Exhausted => None,
            Siblings::Asked => {
                let (pages, owner) = (self.pages, self.owner);
                match pages.borrow_frames(owner, &mut self.shard, (stock, kind), patience) {
                    // Pages go sooner than others are waited for, unless frames are scant.
                    Some(FrameSource::Unasked) if stock == Stock::Spare => None,
                    borrowed => borrowed,
                }
            }
        }
    }

    /// A block, for an ephemeral page, where one may be had before a page has to go.
    fn block_before_eviction(&mut self, displacing: Displacing) -> Option<FrameSource> {
        let (arena, owner) = (&self.pages.arena, self.owner);
        let is_decided = displacing == Displacing::Always;
        let is_below = owner.is_below_floor();
        if is_decided && is_below {
            self.shard.note_in_vain();
        }
        let may_give = arena.ready() as usize > arena.reserve()
            || arena.may_grow()
            || (is_below && !self.shard.asked_in_vain());
        let asks = !owner.is_at_limit(1) && (may_give || self.shard.is_time_to_ask());
        (asks && !is_decided).then_some(FrameSource::NewBlock)
    }

    /// The frame of an ephemeral page that goes: of the shard whose turn it is, or of one that owes it where this shard gave more
    /// than others did; else of this shard.
    fn displaced_frame(
        &mut self,
        siblings: Siblings,
        patience: &mut Patience,
    ) -> Option<FrameSource> {
        let turn = self.shard.eviction.whose_turn();
        let is_others = match turn {
            Some(turn) => turn != Turn::Own,
            None => {
                let per_block = self.pages.frames.per_block();
                self.holdings.is_overdrawn(&mut self.shard, per_block)
            }
        };
        if is_others && siblings == Siblings::LeftAlone {
            return Some(FrameSource::Unasked);
        }
        if is_others && siblings == Siblings::Asked {
            let spare = match turn {
                Some(Turn::Of(shard)) => self.frame_of(shard, patience),
                _ => self.owed_frame(patience),
            };
            if let Some(spare) = spare {
                return Some(FrameSource::Tenant(spare));
            }
        }
        let victim = evict(self.pages, self.owner, &mut self.shard, self.now, patience);
        if siblings != Siblings::LeftAlone {
            // A group looks ahead by itself.
            expect_next_to_go(self.pages, self.holdings, &self.shard);
        }
        victim.map(|frame| FrameSource::Tenant(Spare::Displaced(frame)))
    }

    /// A block, where no frame is to be had. None, where nobody gave one just now, or a persistent page's tenant may have no more.
    fn last_resort(&self, kind: PageKind, displacing: Displacing) -> FrameSource {
        let may_be_had = kind == PageKind::Ephemeral || !self.owner.is_at_limit(1);
        match displacing {
            Displacing::IfBound if may_be_had => FrameSource::NewBlock,
            Displacing::IfBound | Displacing::Always => FrameSource::Nowhere,
        }
    }
}
