//! Far blocks that go: dropped at once, swept later, and kept ready while tenants want some.

use std::sync::atomic::Ordering;

use sublet_types::TenantId;

use super::blocks::{BlockFate, FarBlockId};
use crate::borrowing::FarFrame;
use crate::frames::FarState;
use crate::pages::PageStore;
use crate::pages::shard::Shard;
use crate::tenants::Tenant;

/// Blocks that one call of the chores sweeps, which takes less than a millisecond.
const SWEPT_AT_ONCE: usize = 4;

/// Of the borrowed blocks, this fraction is kept ready while tenants evict, by dropping the oldest.
const READY_ONE_IN: u32 = 32;

/// The most blocks that are kept ready: what a busy tenant fills in 20 ms.
const READY_MAX: u32 = 32;

/// Which far blocks a tenant wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FarWant {
    /// None.
    Nothing,
    /// It has all that it may have, and the oldest of them go.
    OfItsOwn,
    /// It may have more than it has.
    OfOthers,
}

/// Of this many blocks, how many are kept ready.
pub(super) fn ready_blocks(blocks: u32) -> u32 {
    (blocks / READY_ONE_IN).clamp(1, READY_MAX)
}

impl PageStore {
    /// Drops a far block with all that is in it. Returns whether it was somebody's.
    pub(super) fn drop_far_block(&self, block: FarBlockId, fate: BlockFate) -> bool {
        let far = self.far.blocks.get(block);
        let Some(tenant) = far.record.account().and_then(|id| self.tenants.get(id)) else {
            far.raise_fate(fate);
            return false;
        };
        let dropped = self.far.blocks.drop_of(tenant.id, block, fate);
        if dropped {
            // Before the block is listed for sweeping: from then on no thread is handed a frame of it.
            self.tenant_pages(tenant).far.lost(tenant, block);
            self.far.blocks.list_unswept(block);
        }
        dropped
    }

    /// Drops the oldest far block of that of some tenants that has most for its weight. Returns whether there was one.
    fn drop_oldest_far_block(&self, fate: BlockFate, some: impl Fn(&Tenant) -> bool) -> bool {
        let holders = self.far_holders().filter(|(tenant, _)| some(tenant));
        let has_most = holders.max_by(|a, b| a.1.total_cmp(&b.1));
        has_most.is_some_and(|(tenant, _)| self.drop_oldest_of(tenant, fate))
    }

    /// The tenants that have far blocks, with how many they have for their weight.
    pub(super) fn far_holders(&self) -> impl Iterator<Item = (&Tenant, f64)> {
        self.tenants.iter().filter_map(|tenant| {
            let held = tenant.far_held();
            (held > 0).then(|| (tenant, f64::from(held) / f64::from(tenant.weight().0)))
        })
    }

    fn drop_oldest_of(&self, tenant: &Tenant, fate: BlockFate) -> bool {
        let far = &self.tenant_pages(tenant).far;
        let oldest = far.oldest(&self.far.blocks, tenant.id);
        oldest.is_some_and(|block| self.drop_far_block(block, fate))
    }

    /// Keeps blocks ready while tenants want some: the oldest go, before a put needs their frames. Returns whether a
    /// tenant wanted one.
    pub(crate) fn keep_far_blocks_ready(&self) -> bool {
        let far = &self.far.blocks;
        if !far.are_there() {
            return false;
        }
        let (mut wanted, mut is_short) = (false, false);
        for tenant in self.tenants.iter() {
            let want = self.want_of(tenant);
            wanted |= want != FarWant::Nothing;
            is_short |= want == FarWant::OfOthers;
        }
        let ready = ready_blocks(far.borrowed());
        if is_short || far.take_activity() {
            let coming = far.ready() + far.unswept() as u32;
            for _ in coming..ready {
                // What is the far part of a target stays its tenant's.
                if !self.drop_oldest_far_block(BlockFate::Ready, |tenant| tenant.target().is_none())
                {
                    break;
                }
            }
        }
        while self.sweep_some_far() && far.ready() < ready {}
        wanted
    }

    /// Takes a tenant's want of far blocks. One that has all that it may have makes room among its own, and one that has
    /// more gives the oldest up.
    fn want_of(&self, tenant: &Tenant) -> FarWant {
        let far = &self.far.blocks;
        let tenant_pages = self.existing_tenant_pages(tenant);
        let wants = tenant_pages.is_some_and(|tenant_pages| {
            let wants = tenant_pages.far.take_want();
            if wants {
                tenant_pages.far.make_room(far, tenant.id);
            }
            wants
        });
        let most = far.most_of(tenant);
        let has_all = tenant.far_held() >= most;
        let (want, kept) = match (wants, has_all) {
            (false, _) => (FarWant::Nothing, most),
            (true, true) => (FarWant::OfItsOwn, most.saturating_sub(ready_blocks(most))),
            (true, false) => (FarWant::OfOthers, most),
        };
        self.drop_far_blocks_beyond(kept, tenant);
        want
    }

    /// Drops a tenant's oldest far blocks until it has at most this many.
    fn drop_far_blocks_beyond(&self, kept: u32, tenant: &Tenant) {
        for _ in kept..tenant.far_held() {
            if !self.drop_oldest_of(tenant, BlockFate::Ready) {
                break;
            }
        }
    }

    /// Drops all far blocks of a tenant.
    pub(in crate::pages) fn drop_far_blocks_of(&self, tenant: &Tenant) {
        while self.drop_oldest_of(tenant, BlockFate::Ready) {}
    }

    /// Sweeps some of the dropped far blocks. Returns whether there are more that can be swept.
    pub(crate) fn sweep_some_far(&self) -> bool {
        let blocks = &self.far.blocks;
        let mut swept = 0;
        for _ in 0..blocks.unswept().min(SWEPT_AT_ONCE) {
            let Some(block) = blocks.next_unswept() else {
                break;
            };
            match self.sweep_far(block) {
                true => swept += 1,
                false => blocks.postpone(block),
            }
        }
        swept > 0 && blocks.unswept() > 0
    }

    /// Removes what leads to the frames of a dropped far block. Returns false if the lender has yet to answer a write
    /// into it. The caller holds no shard's lock.
    fn sweep_far(&self, block: FarBlockId) -> bool {
        let _sweeping = self.sweeping.lock();
        let far = self.far.blocks.get(block);
        let former = TenantId(far.record.former.load(Ordering::Relaxed));
        let Some(tenant) = self.tenants.get(former) else {
            return true;
        };
        // A thread that sends a page into the block does so under a shard's lock, and sees later that the block was
        // dropped. So after this loop no page is sent there.
        for shard in self.tenant_pages(tenant).shards() {
            drop(shard.lock());
        }
        if far.in_flight.load(Ordering::Acquire) > 0 {
            return false;
        }
        for frame in self.far.blocks.rows_of(block).map(FarFrame) {
            self.sweep_far_frame(tenant, frame);
        }
        far.record.lose_all();
        match self.far.blocks.end_sweep(block) {
            BlockFate::Ready => {}
            fate => self.vacate_far_block(block, fate),
        }
        true
    }

    /// Takes a block from its lease, and gives the memory of its records back (P8). Nothing leads to its frames.
    pub(super) fn vacate_far_block(&self, block: FarBlockId, fate: BlockFate) {
        self.frames.far().give_back(self.far.blocks.rows_of(block));
        self.far.blocks.vacate(block, fate);
        self.charge_far_overhead();
    }

    fn sweep_far_frame(&self, tenant: &Tenant, frame: FarFrame) {
        let shards = self.tenant_pages(tenant).shards();
        let facts = self.frames.far().get(frame);
        let mut shard = shards[usize::from(facts.shard())].lock();
        match self.frames.far().state(frame) {
            FarState::Idle => {}
            FarState::Free => shard.far_free.remove_row(self.frames.far(), frame.row()),
            FarState::Away => self.forget_far_page(&mut shard, frame),
            FarState::Outbound | FarState::Cancelled => {
                debug_assert!(false, "no write into a block that is swept is under way");
            }
        }
    }

    /// Removes a page whose block was dropped from the directory.
    fn forget_far_page(&self, shard: &mut Shard, frame: FarFrame) {
        let key = self.frames.far().get(frame).key();
        let object = self.seed.object(key.pool, key.object);
        shard.remove(&self.frames, object, key);
        self.frames.far().set_state(frame, FarState::Idle);
    }
}
