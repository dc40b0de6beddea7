//! Far blocks that go: dropped at once, swept later.

use std::ops::Range;
use std::sync::atomic::Ordering;

use sublet_types::{Bytes, Second, TenantId};

use super::blocks::{BlockFate, FarBlockId};
use crate::api::FarFigures;
use crate::frames::FarState;
use crate::lending::{Borrowing, FarFrame, LeaseFigures, LeaseSlot, OpenLeaseError};
use crate::pages::PageStore;
use crate::pages::shard::Shard;
use crate::tenants::Tenant;

/// Blocks that one call of the chores sweeps, which takes less than a millisecond.
const SWEPT_AT_ONCE: usize = 4;

/// Of the borrowed blocks, this fraction is kept ready while tenants evict, by dropping the oldest.
const READY_ONE_IN: u32 = 32;

/// The most blocks that are kept ready: what a busy tenant fills in 20 ms.
const READY_MAX: u32 = 32;

/// Seconds after which a block that nobody read goes back to its lender.
const UNREAD_SECS: u32 = 600;

/// Of this many blocks, how many are kept ready.
fn ready_blocks(blocks: u32) -> u32 {
    (blocks / READY_ONE_IN).clamp(1, READY_MAX)
}

impl PageStore {
    /// Sets how many blocks of the arena tenants may hold together. It decides which part of a target is far memory.
    pub(crate) fn set_blocks_here(&self, blocks: u32) {
        self.far.blocks.set_here(blocks);
    }

    /// Adds blocks to a lease, or opens it with them.
    ///
    /// # Errors
    ///
    /// There is no such number, or no room for the blocks.
    pub(crate) fn add_to_lease(
        &self,
        lease: LeaseSlot,
        distance: u32,
        indices: Range<u32>,
    ) -> Result<(), OpenLeaseError> {
        let is_new = self.far.blocks.figures(lease).blocks == 0;
        self.far.blocks.add(lease, distance, indices)?;
        if is_new {
            self.far.sent(lease).store(0, Ordering::Relaxed);
        }
        self.charge_far_overhead();
        self.far.outbox().prepare(lease);
        self.make_room_for_far_blocks();
        Ok(())
    }

    fn make_room_for_far_blocks(&self) {
        for tenant in self.tenants.iter() {
            if let Some(tenant_pages) = self.existing_tenant_pages(tenant) {
                tenant_pages.far.make_room(&self.far.blocks, tenant.id);
            }
        }
    }

    /// Ends a lease. No get finds a page of it from now on.
    pub(crate) fn end_lease(&self, lease: LeaseSlot) {
        self.far.blocks.end(lease);
        self.take_from_lease(lease, |_| true, BlockFate::Gone);
    }

    /// Takes blocks from a lease that their lender has back already.
    pub(crate) fn recall(&self, lease: LeaseSlot, indices: &Range<u32>) {
        self.take_from_lease(lease, |index| indices.contains(&index), BlockFate::Gone);
    }

    fn take_from_lease(&self, lease: LeaseSlot, which: impl Fn(u32) -> bool, fate: BlockFate) {
        let far = &self.far.blocks;
        let drop_used = || {
            for block in far.of_lease(lease) {
                if which(far.get(block).index()) {
                    self.drop_far_block(block, fate);
                }
            }
        };
        drop_used();
        let ready = far.withdraw_ready(u32::MAX, |of, index| of == lease && which(index));
        ready
            .iter()
            .for_each(|block| self.vacate_far_block(*block, fate));
        // A tenant may have taken a ready block meanwhile.
        drop_used();
    }

    /// Chooses blocks of one lease that go back to its lender: ready ones first, then those that were taken first.
    /// Returns how many were chosen.
    pub(crate) fn return_blocks_of(&self, lease: LeaseSlot, blocks: u32) -> u32 {
        let far = &self.far.blocks;
        let ready = far.withdraw_ready(blocks, |of, _| of == lease);
        let mut left = blocks - ready.len() as u32;
        ready
            .iter()
            .for_each(|block| self.vacate_far_block(*block, BlockFate::Returned));
        let mut used = far.of_lease(lease);
        used.retain(|block| far.get(*block).record.account().is_some());
        used.sort_by_key(|block| far.get(*block).record.sequence());
        for block in used {
            if left > 0 && self.drop_far_block(block, BlockFate::Returned) {
                left -= 1;
            }
        }
        blocks - left
    }

    /// Blocks that go back to their lenders now, each with its lease and its index in it.
    pub(crate) fn take_returned(&self) -> Vec<(LeaseSlot, u32)> {
        self.far.blocks.take_returned()
    }

    /// What is known of a lease.
    pub(crate) fn lease_figures(&self, lease: LeaseSlot) -> LeaseFigures {
        LeaseFigures {
            outbound: self.far.outbox().used(lease),
            sent: self.far.sent(lease).load(Ordering::Relaxed),
            ..self.far.blocks.figures(lease)
        }
    }

    /// The blocks of lenders now.
    pub(crate) fn far_figures(&self) -> FarFigures {
        let far = &self.far.blocks;
        let bytes = |blocks: u32| Bytes(u64::from(blocks) * self.arena.block_bytes() as u64);
        FarFigures {
            borrowed: bytes(far.borrowed()),
            ready: bytes(far.ready()),
            used: bytes(self.tenants.iter().map(Tenant::far_held).sum()),
            overhead: self.far_overhead_of(far.borrowed()),
        }
    }

    /// Drops a far block with all that is in it. Returns whether it was somebody's.
    fn drop_far_block(&self, block: FarBlockId, fate: BlockFate) -> bool {
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
    fn far_holders(&self) -> impl Iterator<Item = (&Tenant, f64)> {
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
    pub(crate) fn ready_far_blocks(&self) -> bool {
        let far = &self.far.blocks;
        if !far.are_there() {
            return false;
        }
        let (mut wanted, mut is_short) = (false, false);
        for tenant in self.tenants.iter() {
            let tenant_pages = self.existing_tenant_pages(tenant);
            let wants = tenant_pages.is_some_and(|tenant_pages| {
                let wants = tenant_pages.far.was_wanting();
                if wants {
                    tenant_pages.far.make_room(far, tenant.id);
                }
                wants
            });
            let most = far.most_of(tenant);
            let has_all = tenant.far_held() >= most;
            wanted |= wants;
            is_short |= wants && !has_all;
            // It makes room for what it wants among its own.
            let kept = match wants && has_all {
                true => most.saturating_sub(ready_blocks(most)),
                false => most,
            };
            self.drop_far_blocks_beyond(kept, tenant);
        }
        let ready = ready_blocks(far.borrowed());
        if is_short || far.took_some() {
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

    /// Drops a tenant's oldest far blocks until it has at most this many.
    fn drop_far_blocks_beyond(&self, kept: u32, tenant: &Tenant) {
        for _ in kept..tenant.far_held() {
            if !self.drop_oldest_of(tenant, BlockFate::Ready) {
                break;
            }
        }
    }

    /// Gives blocks back that nobody read for some minutes.
    pub(crate) fn return_unread(&self, now: Second) {
        for (tenant, _) in self.far_holders() {
            let blocks = self
                .tenant_pages(tenant)
                .far
                .all(&self.far.blocks, tenant.id);
            for block in blocks {
                let last = self.far.blocks.get(block).record.last_hit();
                if now.0.saturating_sub(last.0) >= UNREAD_SECS {
                    self.drop_far_block(block, BlockFate::Returned);
                }
            }
        }
    }

    /// Whether a tenant's pages may go to lenders.
    pub(crate) fn borrowing(&self, tenant: &Tenant) -> Borrowing {
        let tenant_pages = self.existing_tenant_pages(tenant);
        Borrowing::from(tenant_pages.is_none_or(|tenant_pages| tenant_pages.far.may_borrow()))
    }

    /// Sets whether a tenant's pages may go to lenders. If they may not, those that are there are forgotten.
    pub(crate) fn set_borrowing(&self, tenant: &Tenant, borrowing: Borrowing) {
        self.tenant_pages(tenant).far.set_borrowing(borrowing);
        if borrowing == Borrowing::Forbidden {
            self.drop_far_blocks_of(tenant);
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
    fn vacate_far_block(&self, block: FarBlockId, fate: BlockFate) {
        self.frames.far().give_back(self.far.blocks.rows_of(block));
        self.far.blocks.vacate(block, fate);
        self.charge_far_overhead();
    }

    /// Counts what the records of far blocks take against the arena's limit.
    fn charge_far_overhead(&self) {
        self.far
            .blocks
            .with_overhead(|overhead| self.arena.charge(overhead.0));
    }

    /// What the records of this many far blocks take.
    pub(crate) fn far_overhead_of(&self, blocks: u32) -> Bytes {
        self.far.blocks.overhead_of(blocks)
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
