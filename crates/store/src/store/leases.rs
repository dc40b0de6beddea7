//! The leases of this host: blocks that lenders have lent to it, and blocks that it has lent.

use std::ops::Range;

use sublet_types::{Bytes, LentBlock, TenantId};

use super::Store;
use crate::borrowing::{AwayTicket, Borrowing, LeaseFigures, LeaseSlot, OpenLeaseError};
use crate::reclaim::capacity;

impl Store {
    /// Adds blocks to a lease, or opens it with them. `distance` orders lenders: near ones are used first.
    ///
    /// # Errors
    ///
    /// There is no such number, the lease that had it still has blocks, or the store has no room for the blocks.
    pub fn add_to_lease(
        &self,
        lease: LeaseSlot,
        distance: u32,
        indices: Range<u32>,
    ) -> Result<(), OpenLeaseError> {
        self.divide_targets();
        self.pages.add_to_lease(lease, distance, indices)
    }

    /// What the records of borrowed blocks and the outbox take here now. It counts against the arena's limit.
    pub fn far_overhead(&self) -> Bytes {
        self.pages.far_figures().overhead
    }

    /// What the records of this many further blocks would take.
    pub fn far_overhead_of(&self, blocks: u32) -> Bytes {
        self.pages.far_overhead_of(blocks)
    }

    /// The part of an amount that is here if it is spread over all that tenants may hold, here and at lenders.
    pub(crate) fn part_here(&self, amount: Bytes) -> Bytes {
        let here = self.bytes(capacity(&self.arena, &self.engines()).blocks);
        let total = here + self.pages.far_figures().borrowed;
        let part = u128::from(amount.0) * u128::from(here.0) / u128::from(total.0.max(1));
        Bytes(part as u64)
    }

    /// Lets the page store know what may be held here, so that it knows which part of a target is far memory.
    pub(crate) fn divide_targets(&self) {
        let here = capacity(&self.arena, &self.engines()).blocks;
        self.pages.set_blocks_here(here);
    }

    /// Ends a lease. When this returns, no get finds a page of it. Its number is free when it has no blocks left.
    pub fn end_lease(&self, lease: LeaseSlot) {
        self.pages.end_lease(lease);
    }

    /// Takes blocks from a lease that their lender took back: those of all these ranges, which ascend. When this returns,
    /// no get finds a page of them. It walks the lease's blocks twice, however many ranges there are.
    pub fn recall(&self, lease: LeaseSlot, indices: &[Range<u32>]) {
        self.pages.recall(lease, indices);
    }

    /// Chooses this many blocks of one lease that go back to its lender. Returns how many were chosen.
    pub fn return_blocks_of(&self, lease: LeaseSlot, blocks: u32) -> u32 {
        self.pages.return_blocks_of(lease, blocks)
    }

    /// How many borrowed blocks hold nothing and can go back.
    pub fn idle_borrowed(&self) -> u32 {
        self.pages.idle_far_blocks()
    }

    /// Gives blocks back that hold nothing, of any lease and at most so many. Returns how many were chosen.
    pub fn give_back_idle(&self, blocks: u32) -> u32 {
        self.pages.give_back_idle(blocks)
    }

    /// Blocks that go back to their lenders now, each with its lease and its index. Nothing leads to them any more.
    pub fn take_returned(&self) -> Vec<(LeaseSlot, u32)> {
        self.pages.take_returned()
    }

    /// What is known of a lease.
    pub fn lease_figures(&self, lease: LeaseSlot) -> LeaseFigures {
        self.pages.lease_figures(lease)
    }

    /// Returns whether the place of a ticket still has the version that the ticket names. Otherwise the page has left it,
    /// and another page may be on its way there, or there already. It waits for no lock.
    pub fn is_current(&self, ticket: &AwayTicket) -> bool {
        self.pages.is_current(ticket)
    }

    /// The number of blocks that are lent.
    pub fn lent(&self) -> u32 {
        self.lent.len()
    }

    /// How many more blocks may be lent: what the arena may hold, less what is held, and less a block for each tenant.
    pub fn lendable(&self) -> u32 {
        let room = capacity(&self.arena, &self.engines()).blocks;
        let held: u32 = self.tenants.present().map(|tenant| tenant.held() + 1).sum();
        room.saturating_sub(held).saturating_sub(self.lent())
    }

    /// The blocks that were taken back since the last call, because the host or a tenant needed them.
    pub fn drain_taken_back(&self) -> Vec<LentBlock> {
        self.lent.drain_taken_back()
    }

    /// Whether a tenant's pages may go to lenders.
    pub fn borrowing(&self, tenant: TenantId) -> Borrowing {
        let tenant = self.tenants.get(tenant);
        tenant.map_or(Borrowing::Allowed, |tenant| self.pages.borrowing(tenant))
    }

    /// Sets whether a tenant's pages may go to lenders.
    pub fn set_borrowing(&self, tenant: TenantId, borrowing: Borrowing) {
        if let Some(tenant) = self.tenants.get(tenant) {
            self.pages.set_borrowing(tenant, borrowing);
        }
    }
}
