//! The items engine's side of the engine interface. Its blocks are segments.

use sublet_types::Second;

use super::Items;
use super::shrink::ShrinkScope;
use crate::arena::BlockList;
use crate::engine::{Engine, ReclaimCause};
use crate::loss::Loss;
use crate::pinned_thread::PinnedThread;
use crate::tenants::Tenant;

/// Seconds for which expired and flushed segments stay if nobody needs room. A read of them can then still tell why it
/// missed.
const EXPIRED_GRACE_SECS: u32 = 30;

impl Engine for Items {
    fn own_blocks(&self) -> usize {
        self.index_blocks()
    }

    fn blocks_of(&self, tenant: &Tenant) -> Option<&BlockList> {
        Some(self.tenant_items(tenant).segments.all())
    }

    fn reclaim_blocks(
        &self,
        tenant: &Tenant,
        blocks: u32,
        cause: ReclaimCause,
        now: Second,
        thread: &dyn PinnedThread,
    ) -> Loss {
        match cause {
            _ if blocks == 0 => Loss::default(),
            ReclaimCause::Floors => Loss::default(),
            ReclaimCause::Put => self.shrink(tenant, blocks, ShrinkScope::OfFew, now, thread),
            ReclaimCause::Release(way) => {
                self.shrink(tenant, blocks, ShrinkScope::OfAll(way), now, thread)
            }
        }
    }

    fn chores(&self, now: Second) -> bool {
        self.tidy_index(now)
    }

    fn chores_each_second(&self, now: Second, thread: &dyn PinnedThread) {
        let then = Second(now.0.saturating_sub(EXPIRED_GRACE_SECS));
        self.drop_expired(thread.pin_slot(), then);
        self.crawl(then);
    }
}
