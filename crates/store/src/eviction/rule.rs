//! The interface of an eviction: what it is told, and what it is asked.

use sublet_types::Second;

use super::shared_order::VictimShard;
use crate::arena::PrefetchAddress;
use crate::frames::{FrameId, FrameQueue, FrameTable, HITS_MAX, QueueId};

/// The most pages that may be spared in the search for one victim, so that a put does bounded work (R-E4).
pub const REPRIEVES_MAX: usize = 64;

/// The page that an event is about.
#[derive(Clone, Copy)]
pub struct PageRef<'a> {
    /// The records of all frames.
    pub frames: &'a FrameTable,
    /// The frame that holds it.
    pub frame: FrameId,
    /// Its hash, by which it is remembered when it is gone.
    pub hash: u64,
    /// The time of the event.
    pub now: Second,
}

impl PageRef<'_> {
    /// The uses that its frame remembers.
    pub fn hits(&self) -> u8 {
        self.frames.get(self.frame).hits()
    }

    /// Makes its frame remember this many uses, or as many as it can.
    pub fn set_hits(&self, hits: u8) {
        self.frames.get(self.frame).set_hits(hits.min(HITS_MAX));
    }
}

/// The order in which one shard's ephemeral pages are evicted.
pub trait Eviction: Send {
    /// A page was put that was not there.
    fn admit(&mut self, page: PageRef<'_>);

    /// A page that is there was put again.
    fn rewrite(&mut self, page: PageRef<'_>) {
        self.hit(page);
    }

    /// A page was read and stays.
    fn hit(&mut self, page: PageRef<'_>);

    /// A page was read and therefore leaves.
    fn hit_exclusive(&mut self, page: PageRef<'_>) {
        self.forget(page);
    }

    /// A get missed a page that a hit would have taken.
    fn miss(&mut self, _hash: u64) {}

    /// A page was flushed.
    fn forget(&mut self, page: PageRef<'_>);

    /// A flush named a page that is not there.
    fn forget_absent(&mut self, _hash: u64) {}

    /// A page went with its block, which was dropped.
    fn drop_with_block(&mut self, page: PageRef<'_>) {
        self.forget(page);
    }

    /// Chooses the next victim and removes it. `None` if there is no page.
    fn victim(&mut self, frames: &FrameTable, now: Second) -> Option<FrameId>;

    /// A page goes along with the last victim, because it is of the same window.
    fn evict_along(&mut self, page: PageRef<'_>) {
        self.forget(page);
    }

    /// A page was moved to the frame `to`.
    fn relocate(&mut self, page: PageRef<'_>, to: FrameId) {
        let at = page.frames.get(page.frame).queue().0 - QueueId::OWN;
        self.queues()[at as usize].replace(page.frames, page.frame, to);
    }

    /// The eviction's queues, in the order of their ids.
    fn queues(&mut self) -> &mut [FrameQueue];

    /// The number of pages that it orders.
    fn count(&mut self) -> u32 {
        self.queues().iter().map(FrameQueue::len).sum()
    }

    /// The cache line that will remember a page of that hash when it has left.
    fn ghost_line(&self, _hash: u64) -> Option<PrefetchAddress> {
        None
    }

    /// Adopts what the tenant's shards share, after that changed.
    fn refresh_shared(&mut self) {}

    /// The shard of the tenant that should give a page for a new one here. `None` if this eviction cannot tell.
    fn victim_shard(&mut self) -> Option<VictimShard> {
        None
    }

    /// The probable next victim, if it is known without a search.
    fn next_victim(&self) -> Option<FrameId> {
        None
    }

    /// The page that has been there longest of those that have proven themselves. `None` if the eviction has no such
    /// order, or only by a search.
    fn oldest(&self) -> Option<FrameId> {
        self.next_victim()
    }

    /// Bytes that it takes to remember departed pages.
    fn ghost_bytes(&self) -> u64 {
        0
    }
}

/// The `n`th queue of an eviction.
pub const fn queue(n: u8) -> FrameQueue {
    FrameQueue::new(QueueId(QueueId::OWN + n))
}
