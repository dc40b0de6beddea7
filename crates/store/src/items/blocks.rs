//! The items engine among the engines: its blocks are segments.

use sublet_types::Second;

use super::Items;
use super::shrink::How;
use crate::arena::BlockList;
use crate::engine::{Cause, Engine};
use crate::loss::Loss;
use crate::tenants::Tenant;
use crate::thread::Thread;

/// Seconds that expired and flushed segments are left alone where nobody needs room, so that a read of them
/// can still say why it missed.
const EXPIRED_GRACE_SECS: u32 = 30;

impl Engine for Items {
    fn own_blocks(&self) -> usize {
        self.index_blocks()
    }

    fn blocks_of(&self, tenant: &Tenant) -> Option<&BlockList> {
        Some(self.part(tenant).segments.all())
    }

    fn give(
        &self,
        tenant: &Tenant,
        blocks: u32,
        cause: Cause,
        now: Second,
        thread: &dyn Thread,
    ) -> Loss {
        match cause {
            _ if blocks == 0 => Loss::default(),
            Cause::Floors => Loss::default(),
            Cause::Put => self.shrink(tenant, blocks, How::OfFew, now, thread),
            Cause::Release(way) => self.shrink(tenant, blocks, How::OfAll(way), now, thread),
        }
    }

    fn chores(&self, now: Second) -> bool {
        self.tidy_index(now)
    }

    fn chores_of_second(&self, now: Second, thread: &dyn Thread) {
        let then = Second(now.0.saturating_sub(EXPIRED_GRACE_SECS));
        self.drop_expired(thread.slot(), then);
        self.crawl(then);
    }
}
