//! Making room at the expense of items, and a little work ahead so that nobody waits.

use sublet_types::Second;

use super::Items;
use super::merge::{Aim, Evictor, Yield};
use super::segments::Ring;
use crate::arena::PinSlot;
use crate::giving::Giver;
use crate::tenants::Tenant;
use crate::thread::Thread;

/// Bytes worked through for each byte that is to be freed, at the most: of many segments at most half is kept, of a
/// single one perhaps all.
const WORKED_FOR_EACH_FREED: u64 = 4;

/// Bytes of a mostly dead segment that are worked through for each byte written.
const RECYCLED_FOR_EACH_WRITTEN: u64 = 3;

/// Bytes worked through in any case.
const WORK_MIN: u64 = 256;

/// Whose need of room it is, and whose items go for it.
#[derive(Clone, Copy)]
struct Need<'a> {
    of: &'a Tenant,
    giver: &'a Tenant,
}

impl Items {
    /// Has a tenant's segments make some room for `tenant`. Says whether there is more than before, or will be once the pins of this
    /// moment have ended. The thread is pinned and holds no lock.
    pub(crate) fn evict_for(
        &self,
        tenant: &Tenant,
        blocks: u32,
        chosen: Giver<'_>,
        now: Second,
        thread: &dyn Thread,
    ) -> bool {
        let giver = chosen.tenant;
        let segments = &self.part(giver).segments;
        let Some(mut ring) = segments.try_ring(&self.arena) else {
            thread.unpinned(&mut || segments.await_ring());
            return true;
        };
        let Some(pledge) = chosen.pledge(blocks) else {
            return true; // others had it, and somebody else gives way now
        };
        let me = thread.slot();
        let need = Need { of: tenant, giver };
        let aim = Aim {
            blocks: pledge.blocks,
            ..Aim::piece(2 * self.arena.block_bytes() as u64)
        };
        let mut done = self.work(need, &mut ring, me, now, aim);
        if ring.blocks.is_empty() && done.blocks == 0 && self.evicts {
            // Nothing is full: what is open must do.
            segments.close_all(&self.arena, &mut ring);
            done = self.work(need, &mut ring, me, now, Aim::BLOCK);
        }
        self.arena.settle();
        let worked = done.worked > 0 && !done.stuck;
        done.blocks > 0 || worked || done.waits || self.arena.in_limbo() > 0
    }

    /// Drops the segments that were dead at `then`. The caller is pinned.
    pub(super) fn drop_expired(&self, me: &PinSlot, then: Second) {
        for tenant in self.tenants.iter() {
            if let Some(mut ring) = self.part(tenant).segments.try_ring(&self.arena) {
                Evictor::new(self, tenant, &mut ring, me, then).drop_dead();
            }
        }
    }

    /// Works ahead of need after `written` bytes, so that room is there when it is wanted: as many bytes are freed, twice
    /// as many where the reserve is touched, at the expense of `giver`. Never waits.
    pub(crate) fn work_ahead<'a>(
        &self,
        tenant: &'a Tenant,
        me: &PinSlot,
        written: u64,
        now: Second,
        giver: impl FnOnce() -> Giver<'a>,
    ) {
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
        let chosen = giver();
        let giver = chosen.tenant;
        let Some(mut ring) = self.part(giver).segments.try_ring(&self.arena) else {
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
        let Some(mut ring) = self.part(tenant).segments.try_ring(&self.arena) else {
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
