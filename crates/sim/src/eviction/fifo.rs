//! `fifo`: the page that came first goes first.

use sublet_store::eviction::{Eviction, FrameId, FrameQueue, FrameTable, PageRef, queue};
use sublet_types::Second;

pub(super) struct FifoEviction([FrameQueue; 1]);

impl FifoEviction {
    pub(super) fn new() -> FifoEviction {
        FifoEviction([queue(0)])
    }
}

impl Eviction for FifoEviction {
    fn admit(&mut self, page: PageRef<'_>) {
        self.0[0].push(page.frames, page.frame);
    }

    fn hit(&mut self, _page: PageRef<'_>) {}

    fn forget(&mut self, page: PageRef<'_>) {
        self.0[0].remove(page.frames, page.frame);
    }

    fn victim(&mut self, frames: &FrameTable, _now: Second) -> Option<FrameId> {
        self.0[0].pop(frames)
    }

    fn next_victim(&self) -> Option<FrameId> {
        self.0[0].tail()
    }

    fn queues(&mut self) -> &mut [FrameQueue] {
        &mut self.0
    }
}
