//! `fifo`: who came first goes first.

use sublet_store::eviction::{Eviction, FrameId, Frames, Page, Queue, queue};
use sublet_types::Second;

pub(super) struct Fifo([Queue; 1]);

impl Fifo {
    pub(super) fn new() -> Fifo {
        Fifo([queue(0)])
    }
}

impl Eviction for Fifo {
    fn admit(&mut self, page: Page<'_>) {
        self.0[0].push(page.frames, page.frame);
    }

    fn hit(&mut self, _page: Page<'_>) {}

    fn forget(&mut self, page: Page<'_>) {
        self.0[0].remove(page.frames, page.frame);
    }

    fn victim(&mut self, frames: &Frames, _now: Second) -> Option<FrameId> {
        self.0[0].pop(frames)
    }

    fn next_victim(&self) -> Option<FrameId> {
        self.0[0].tail()
    }

    fn queues(&mut self) -> &mut [Queue] {
        &mut self.0
    }
}
