//! Makes room at the expense of items, and works a little ahead so that nobody waits.

use sublet_types::Second;

use super::Items;
use super::merge::{EvictionGoal, EvictionProgress, Evictor};
use super::segments::FullSegments;
use crate::arena::PinSlot;
use crate::giving::Giver;
use crate::pinned_thread::PinnedThread;
use crate::tenants::Tenant;

/// The most bytes worked through per byte to be freed. Of many segments at most half is kept; of a single one perhaps
/// all is.
const WORKED_FOR_EACH_FREED: u64 = 4;

/// Bytes of a mostly dead segment that are worked through per byte written.
const RECYCLED_FOR_EACH_WRITTEN: u64 = 3;

/// The least bytes worked through.
const WORK_MIN: u64 = 256;

/// The tenant that needs room, and the tenant whose items go for it.
#[derive(Clone, Copy)]
struct RoomRequest<'a> {
    requester: &'a Tenant,
    giver: &'a Tenant,
}

impl Items {
    /// Makes a tenant's segments free some room for `tenant`. Returns whether there is more room than before, or will
    /// be once the current pins have ended. The thread is pinned and holds no lock.
    pub(crate) fn evict_for(
        &self,
        tenant: &Tenant,
        blocks: u32,
        chosen: Giver<'_>,
        now: Second,
        thread: &dyn PinnedThread,
    ) -> bool {
        let giver = chosen.tenant;
        let segments = &self.tenant_items(giver).segments;
        let Some(mut full) = segments.try_lock_full(&self.arena) else {
            thread.try_unpinned(&mut || segments.await_full());
            return true;
        };
        let Some(reservation) = chosen.reserve_blocks(blocks) else {
            return true; // others had it, and another tenant gives way now
        };
        let pin = thread.pin_slot();
        let need = RoomRequest {
            requester: tenant,
            giver,
        };
        let aim = EvictionGoal {
            blocks: reservation.blocks,
            ..EvictionGoal::piece(2 * self.arena.block_bytes() as u64)
        };
        let mut done = self.evict_toward(need, &mut full, pin, now, aim);
        if full.blocks.is_empty() && done.blocks == 0 && self.evicts {
            // No segment is full, so the open ones must give.
            segments.close_all(&self.arena, &mut full);
            done = self.evict_toward(need, &mut full, pin, now, EvictionGoal::BLOCK);
        }
        self.arena.drain_limbo();
        let worked = done.worked > 0 && !done.stuck;
        done.blocks > 0 || worked || done.waits || self.arena.in_limbo() > 0
    }

    /// Drops the segments that were dead at `then`. The caller is pinned.
    pub(super) fn drop_expired(&self, pin: &PinSlot, then: Second) {
        for tenant in self.tenants.iter() {
            if let Some(mut full) = self
                .tenant_items(tenant)
                .segments
                .try_lock_full(&self.arena)
            {
                Evictor::new(self, tenant, &mut full, pin, then).drop_dead();
            }
        }
    }

    /// Works ahead of need after `written` bytes, so that room is there when it is needed. It frees as many bytes at
    /// the expense of `giver`, or twice as many if the reserve is touched. It never waits.
    pub(crate) fn work_ahead<'a>(
        &self,
        tenant: &'a Tenant,
        pin: &PinSlot,
        written: u64,
        now: Second,
        giver: impl FnOnce() -> Giver<'a>,
    ) {
        if !self.evicts {
            return;
        }
        // This many free blocks let the next thread that needs one go on without waiting.
        let mut short = (2 * self.arena.reserve() as u32).saturating_sub(self.arena.ready());
        let is_free = short == 0 || self.arena.may_spare();
        if is_free && self.tenant_items(tenant).segments.may_recycle() {
            self.recycle(tenant, pin, written, now);
        }
        let at_limit = tenant.is_at_limit(1);
        if is_free && !at_limit {
            return;
        }
        // Blocks that were given up already only wait for their last readers.
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
        let Some(mut full) = self.tenant_items(giver).segments.try_lock_full(&self.arena) else {
            return;
        };
        let Some(reservation) = chosen.reserve_blocks(short.max(1)) else {
            return;
        };
        let aim = EvictionGoal {
            freed,
            worked: WORK_MIN + WORKED_FOR_EACH_FREED * freed,
            blocks: reservation.blocks,
        };
        self.evict_toward(
            RoomRequest {
                requester: tenant,
                giver,
            },
            &mut full,
            pin,
            now,
            aim,
        );
    }

    /// Reuses dead or mostly dead segments while memory is free, so that less free memory is used.
    fn recycle(&self, tenant: &Tenant, pin: &PinSlot, written: u64, now: Second) {
        let Some(mut full) = self
            .tenant_items(tenant)
            .segments
            .try_lock_full(&self.arena)
        else {
            return;
        };
        let aim = EvictionGoal::piece(WORK_MIN + RECYCLED_FOR_EACH_WRITTEN * written);
        let recycling = Evictor::new(self, tenant, &mut full, pin, now).recycle(aim);
        self.tenant_items(tenant).segments.set_recycling(recycling);
    }

    fn evict_toward(
        &self,
        need: RoomRequest<'_>,
        full: &mut FullSegments,
        pin: &PinSlot,
        now: Second,
        aim: EvictionGoal,
    ) -> EvictionProgress {
        let mut evictor = Evictor::new(self, need.giver, full, pin, now);
        evictor.evict(aim);
        let given = evictor.settle_given();
        need.giver.gave_to(need.requester, given);
        if need.giver.id == need.requester.id {
            self.tenant_items(need.requester)
                .tally
                .displaced
                .add(evictor.done.items_lost);
        }
        evictor.done
    }
}
