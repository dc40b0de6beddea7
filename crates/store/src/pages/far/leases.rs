//! The leases of far memory: what blocks they have, who may use them, and what they cost here.

use std::ops::Range;
use std::sync::atomic::Ordering;

use sublet_types::Bytes;

use super::blocks::BlockFate;
use crate::api::FarFigures;
use crate::borrowing::{Borrowing, LeaseFigures, LeaseSlot, OpenLeaseError};
use crate::pages::PageStore;
use crate::tenants::Tenant;

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
        self.far.outbox().prepare(lease);
        self.charge_far_overhead();
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

    /// Takes blocks from a lease that their lender has back already: those of all these ranges, which ascend.
    pub(crate) fn recall(&self, lease: LeaseSlot, indices: &[Range<u32>]) {
        debug_assert!(indices.is_sorted_by(|one, next| one.end <= next.start));
        let is_recalled = |index: u32| {
            let first_after = indices.partition_point(|range| range.end <= index);
            let range = indices.get(first_after);
            range.is_some_and(|range| range.contains(&index))
        };
        self.take_from_lease(lease, is_recalled, BlockFate::Gone);
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
            idle: bytes(self.idle_far_blocks()),
            overhead: self.far_overhead_of(far.borrowed()) + self.far.outbox_bytes(),
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

    /// Counts what the records of far blocks and the outbox take against the arena's limit.
    pub(super) fn charge_far_overhead(&self) {
        let outbox = self.far.outbox_bytes();
        let charge = |records: Bytes| self.arena.charge((records + outbox).0);
        self.far.blocks.with_overhead(charge);
    }

    /// What the records of this many far blocks take.
    pub(crate) fn far_overhead_of(&self, blocks: u32) -> Bytes {
        self.far.blocks.overhead_of(blocks)
    }
}
