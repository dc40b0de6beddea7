//! Making room: who gives way when a block is needed, and a little work ahead so that nobody waits.

use sublet_types::Second;

use super::Items;
use super::merge::{Evictor, Yield};
use super::segments::Ring;
use crate::arena::PinSlot;
use crate::floors::Capacity;
use crate::tenants::Tenant;

/// Bytes worked through for each byte written ahead of need. At most half of them is kept, so this frees more
/// than was written.
const WORK_FOR_EACH_BYTE: u64 = 3;

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
        self.arena.ready() >= blocks + self.arena.reserve() as u32
            && !tenant.is_at_limit(blocks, self.arena.block_bytes())
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
        let block_bytes = self.arena.block_bytes();
        let limit = u64::from(self.arena.limit());
        let needed = blocks as usize + self.arena.reserve();
        let at_limit = tenant.is_at_limit(blocks, block_bytes);
        if !tenant.may_ever_hold(blocks, block_bytes) || needed as u64 > limit {
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
        let giver = self.giver(tenant, blocks);
        let Some(mut ring) = giver.segments.try_ring() else {
            return Room::Busy(giver);
        };
        let budget = 2 * self.arena.block_bytes() as u64;
        let need = Need { of: tenant, giver };
        let mut done = self.work(need, &mut ring, me, now, budget, blocks);
        if ring.blocks.is_empty() && done.blocks == 0 && self.evicts {
            // Nothing is full: what is open must do.
            giver.segments.close_all(&self.arena, &mut ring);
            done = self.work(need, &mut ring, me, now, u64::MAX, 1);
        }
        self.arena.settle();
        let worked = done.worked > 0 && !done.stuck;
        match done.blocks > 0 || worked || done.waits || self.arena.in_limbo() > 0 {
            true => Room::More,
            false => Room::None,
        }
    }

    /// Whose blocks go so that `tenant` gets some.
    pub(crate) fn giver<'a>(&'a self, tenant: &'a Tenant, blocks: u32) -> &'a Tenant {
        match tenant.is_at_limit(blocks, self.arena.block_bytes()) {
            true => tenant,
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

    /// Works ahead of need after `written` bytes, so that room is there when it is wanted. Never waits.
    pub(crate) fn work_ahead(&self, tenant: &Tenant, me: &PinSlot, written: u64, now: Second) {
        if self.evicts && self.arena.may_grow() && tenant.segments.recycles() {
            self.recycle(tenant, me, written, now);
        }
        let at_limit = tenant.is_at_limit(1, self.arena.block_bytes());
        // So many free blocks that whoever needs one next need not wait for it.
        let mut short = (2 * self.arena.reserve() as u32).saturating_sub(self.arena.ready());
        if !self.evicts || (!at_limit && (short == 0 || self.arena.may_grow())) {
            return;
        }
        // What was given up already is only waiting for its last readers.
        short = short.saturating_sub(self.arena.in_limbo() as u32);
        if short == 0 && !at_limit {
            return;
        }
        let giver = self.giver(tenant, 1);
        if let Some(mut ring) = giver.segments.try_ring() {
            self.work(
                Need { of: tenant, giver },
                &mut ring,
                me,
                now,
                WORK_MIN + WORK_FOR_EACH_BYTE * written,
                short.max(1),
            );
        }
    }

    /// Reuses what is mostly dead before the arena grows.
    fn recycle(&self, tenant: &Tenant, me: &PinSlot, written: u64, now: Second) {
        let Some(mut ring) = tenant.segments.try_ring() else {
            return;
        };
        let budget = WORK_MIN + WORK_FOR_EACH_BYTE * written;
        let more = Evictor::new(self, tenant, &mut ring, me, now).recycle(budget);
        tenant.segments.set_recycles(more);
    }

    fn work(
        &self,
        need: Need<'_>,
        ring: &mut Ring,
        me: &PinSlot,
        now: Second,
        budget: u64,
        blocks: u32,
    ) -> Yield {
        let mut evictor = Evictor::new(self, need.giver, ring, me, now);
        evictor.evict(budget, blocks);
        need.giver.gave_to(need.of, evictor.done.blocks);
        if need.giver.id == need.of.id {
            need.of.tally.displaced.add(evictor.done.items_lost);
        }
        evictor.done
    }
}
