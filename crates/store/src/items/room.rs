//! Making room: who gives way when a block is needed, and a little work ahead so that nobody waits.

use sublet_types::Second;

use super::Items;
use super::merge::{Aim, Evictor, Yield};
use super::segments::Ring;
use crate::arena::PinSlot;
use crate::floors::Capacity;
use crate::giving::Giver;
use crate::tenants::Tenant;

/// Bytes worked through for each byte that is to be freed, at the most: of many segments at most half is kept, of a
/// single one perhaps all.
const WORKED_FOR_EACH_FREED: u64 = 4;

/// Bytes of a mostly dead segment that are worked through for each byte written.
const RECYCLED_FOR_EACH_WRITTEN: u64 = 3;

/// Bytes worked through in any case.
const WORK_MIN: u64 = 256;

/// What an attempt at making room came to.
#[derive(Clone, Copy)]
pub(crate) enum Room<'a> {
    /// There is more than before, or will be once the pins of this moment have ended.
    More,
    /// Another thread works on this tenant's segments.
    Busy(&'a Tenant),
    /// Nothing more can be had.
    None,
}

/// What to try next for a tenant that needs blocks.
enum Step {
    /// The arena may hold more.
    Grow,
    /// The index holds blocks that it does not need.
    TidyIndex,
    /// Blocks come free by themselves.
    Wait,
    /// Somebody gives blocks up.
    Evict,
    /// It can never have them.
    Hopeless,
}

/// Whose need of room it is, and whose items go for it.
#[derive(Clone, Copy)]
struct Need<'a> {
    of: &'a Tenant,
    giver: &'a Tenant,
}

impl Items {
    /// Whether a tenant can have so many blocks more at once.
    pub(crate) fn has_room(&self, tenant: &Tenant, blocks: u32) -> bool {
        self.arena.ready() >= blocks + self.arena.reserve() as u32 && !tenant.is_at_limit(blocks)
    }

    /// Makes some room for `tenant`, growing where the arena may, evicting where it may not. The caller is
    /// pinned and holds no lock.
    pub(crate) fn make_room<'a>(
        &'a self,
        tenant: &'a Tenant,
        blocks: u32,
        me: &PinSlot,
        now: Second,
    ) -> Room<'a> {
        match self.next_step(tenant, blocks) {
            Step::Grow if matches!(self.arena.grow(), Ok(true)) => Room::More,
            Step::Hopeless => Room::None,
            Step::Wait => Room::More,
            Step::TidyIndex => match self.tidy_index(now) {
                true => Room::More,
                false => Room::None,
            },
            Step::Grow | Step::Evict => self.evict_for(tenant, blocks, me, now),
        }
    }

    fn next_step(&self, tenant: &Tenant, blocks: u32) -> Step {
        let limit = u64::from(self.arena.limit());
        let needed = blocks as usize + self.arena.reserve();
        let at_limit = tenant.is_at_limit(blocks);
        if !tenant.may_ever_hold(blocks) || needed as u64 > limit {
            Step::Hopeless // not even an empty arena has room for it
        } else if !at_limit && self.arena.may_grow() {
            Step::Grow
        } else if (needed + self.index_blocks()) as u64 > limit {
            Step::TidyIndex // it was made for more items than there may be now
        } else if !at_limit && self.arena.ready() as usize + self.arena.in_limbo() >= needed {
            Step::Wait // enough was given up, and is only waiting for its last readers
        } else {
            Step::Evict
        }
    }

    fn evict_for<'a>(
        &'a self,
        tenant: &'a Tenant,
        blocks: u32,
        me: &PinSlot,
        now: Second,
    ) -> Room<'a> {
        let chosen = self.giver(tenant, blocks);
        let giver = chosen.tenant;
        let Some(mut ring) = self.part(giver).segments.try_ring() else {
            return Room::Busy(giver);
        };
        let Some(pledge) = chosen.pledge(blocks) else {
            return Room::More; // others had it, and somebody else gives way now
        };
        let need = Need { of: tenant, giver };
        let aim = Aim {
            blocks: pledge.blocks,
            ..Aim::piece(2 * self.arena.block_bytes() as u64)
        };
        let mut done = self.work(need, &mut ring, me, now, aim);
        if ring.blocks.is_empty() && done.blocks == 0 && self.evicts {
            // Nothing is full: what is open must do.
            self.part(giver).segments.close_all(&self.arena, &mut ring);
            done = self.work(need, &mut ring, me, now, Aim::BLOCK);
        }
        self.arena.settle();
        let worked = done.worked > 0 && !done.stuck;
        match done.blocks > 0 || worked || done.waits || self.arena.in_limbo() > 0 {
            true => Room::More,
            false => Room::None,
        }
    }

    /// Whose blocks go so that `tenant` gets some.
    pub(crate) fn giver<'a>(&'a self, tenant: &'a Tenant, blocks: u32) -> Giver<'a> {
        match tenant.is_at_limit(blocks) || self.tenants.are_one() {
            true => Giver::itself(tenant),
            false => self.tenants.gives_way(tenant, self.capacity()),
        }
    }

    /// What tenants may hold together: what is neither the index's nor kept for eviction.
    pub(crate) fn capacity(&self) -> Capacity {
        let nobodys = (self.index_blocks() + self.arena.reserve()) as u32;
        Capacity {
            block_bytes: self.arena.block_bytes(),
            blocks: self.arena.limit().saturating_sub(nobodys),
        }
    }

    /// Drops the segments that were dead at `then`. The caller is pinned.
    pub(crate) fn drop_expired(&self, me: &PinSlot, then: Second) {
        for tenant in self.tenants.iter() {
            if let Some(mut ring) = self.part(tenant).segments.try_ring() {
                Evictor::new(self, tenant, &mut ring, me, then).drop_dead();
            }
        }
    }

    /// Works ahead of need after `written` bytes, so that room is there when it is wanted: as many bytes are freed, twice
    /// as many where the reserve is touched. Never waits.
    pub(crate) fn work_ahead(&self, tenant: &Tenant, me: &PinSlot, written: u64, now: Second) {
        if !self.evicts {
            return;
        }
        // So many free blocks that whoever needs one next need not wait for it.
        let mut short = (2 * self.arena.reserve() as u32).saturating_sub(self.arena.ready());
        let is_free = short == 0 || self.arena.may_grow();
        if is_free && self.part(tenant).segments.recycles() {
            self.recycle(tenant, me, written, now);
        }
        let at_limit = tenant.is_at_limit(1);
        if is_free && !at_limit {
            return;
        }
        // What was given up already is only waiting for its last readers.
        short = short.saturating_sub(self.arena.in_limbo() as u32);
        if short == 0 && !at_limit {
            return;
        }
        let freed = match short > self.arena.reserve() as u32 {
            true => 2 * written,
            false => written,
        };
        let chosen = self.giver(tenant, 1);
        let giver = chosen.tenant;
        let Some(mut ring) = self.part(giver).segments.try_ring() else {
            return;
        };
        let Some(pledge) = chosen.pledge(short.max(1)) else {
            return;
        };
        let aim = Aim {
            freed,
            worked: WORK_MIN + WORKED_FOR_EACH_FREED * freed,
            blocks: pledge.blocks,
        };
        self.work(Need { of: tenant, giver }, &mut ring, me, now, aim);
    }

    /// Reuses what is dead or mostly dead while there is free memory, so that less of that is used.
    fn recycle(&self, tenant: &Tenant, me: &PinSlot, written: u64, now: Second) {
        let Some(mut ring) = self.part(tenant).segments.try_ring() else {
            return;
        };
        let aim = Aim::piece(WORK_MIN + RECYCLED_FOR_EACH_WRITTEN * written);
        let more = Evictor::new(self, tenant, &mut ring, me, now).recycle(aim);
        self.part(tenant).segments.set_recycles(more);
    }

    fn work(&self, need: Need<'_>, ring: &mut Ring, me: &PinSlot, now: Second, aim: Aim) -> Yield {
        let mut evictor = Evictor::new(self, need.giver, ring, me, now);
        evictor.evict(aim);
        let given = evictor.given();
        need.giver.gave_to(need.of, given);
        if need.giver.id == need.of.id {
            self.part(need.of)
                .tally
                .displaced
                .add(evictor.done.items_lost);
        }
        evictor.done
    }
}
