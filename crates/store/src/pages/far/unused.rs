//! Far blocks that nobody uses go back to their lenders.
//!
//! Those that are idle go back when the host wants fewer blocks than it has borrowed. Those that hold pages go back when
//! nobody read them for some minutes. A few idle blocks stay while others hold pages: those that are kept ready for
//! tenants that evict.

use sublet_types::Second;

use super::blocks::{BlockFate, FarBlockId};
use super::sweep::ready_blocks;
use crate::pages::PageStore;
use crate::tenants::Tenant;

/// Seconds after which a block that nobody read goes back to its lender.
const UNREAD_SECS: u32 = 600;

impl PageStore {
    /// Looks at all far blocks, once per second: which are idle. Those that nobody read for some minutes go back.
    pub(crate) fn look_at_far_blocks(&self, now: Second) {
        let mut idle = 0;
        for block in self.held_far_blocks() {
            let far = self.far.blocks.get(block);
            let last = far.record.last_hit();
            if now.0.saturating_sub(last.0) >= UNREAD_SECS {
                self.drop_far_block(block, BlockFate::Returned);
            } else if far.look() {
                idle += 1;
            }
        }
        self.far.blocks.look(idle);
    }

    /// All far blocks that tenants have.
    pub(super) fn held_far_blocks(&self) -> impl Iterator<Item = FarBlockId> {
        self.far_holders().flat_map(|(tenant, _)| {
            let far = &self.tenant_pages(tenant).far;
            far.all(&self.far.blocks, tenant.id)
        })
    }

    /// The number of idle blocks that may go back: all if no block holds anything. Otherwise some are kept ready.
    pub(crate) fn idle_far_blocks(&self) -> u32 {
        let far = &self.far.blocks;
        let held: u32 = self.tenants.iter().map(Tenant::far_held).sum();
        let idle_held = far.idle.held().min(held);
        let idle = far.idle.ready() + idle_held;
        let is_in_use = far.borrowed() > far.ready() + idle_held;
        let kept = if is_in_use {
            ready_blocks(far.borrowed())
        } else {
            0
        };
        idle.saturating_sub(kept)
    }

    /// Gives idle blocks back to their lenders, at most so many: first those that tenants have, then those of far
    /// lenders. Returns how many were chosen.
    pub(crate) fn give_back_idle(&self, blocks: u32) -> u32 {
        let far = &self.far.blocks;
        let most = blocks.min(self.idle_far_blocks());
        let mut left = most;
        for block in self.held_far_blocks() {
            if left == 0 {
                break;
            }
            if far.get(block).is_idle() && self.drop_far_block(block, BlockFate::Returned) {
                far.idle.lose_held();
                left -= 1;
            }
        }
        let ready = far.withdraw_ready(left.min(far.idle.ready()), |_, _| true);
        left -= ready.len() as u32;
        for block in ready {
            self.vacate_far_block(block, BlockFate::Returned);
        }
        most - left
    }
}
