//! `sieve`: like `clock`, but a page that stays keeps its place, and the hand goes on from there (Zhang et al., NSDI
//! '24).

use sublet_store::eviction::{
    Eviction, FrameId, FrameQueue, FrameTable, PageRef, REPRIEVES_MAX, queue,
};
use sublet_types::Second;

pub(super) struct SieveEviction {
    queues: [FrameQueue; 1],
    /// The page to look at next. `None` stands for the oldest.
    hand: Option<FrameId>,
}

impl SieveEviction {
    pub(super) fn new() -> SieveEviction {
        SieveEviction {
            queues: [queue(0)],
            hand: None,
        }
    }

    fn remove(&mut self, frames: &FrameTable, frame: FrameId) {
        if self.hand == Some(frame) {
            self.hand = FrameQueue::newer(frames, frame);
        }
        self.queues[0].remove(frames, frame);
    }
}

impl Eviction for SieveEviction {
    fn admit(&mut self, page: PageRef<'_>) {
        page.set_hits(0);
        self.queues[0].push(page.frames, page.frame);
    }

    fn hit(&mut self, page: PageRef<'_>) {
        page.set_hits(1);
    }

    fn forget(&mut self, page: PageRef<'_>) {
        self.remove(page.frames, page.frame);
    }

    fn victim(&mut self, frames: &FrameTable, _now: Second) -> Option<FrameId> {
        for _ in 0..REPRIEVES_MAX {
            let frame = self.hand.or(self.queues[0].tail())?;
            let facts = frames.get(frame);
            if facts.hits() == 0 {
                break;
            }
            facts.set_hits(0);
            self.hand = FrameQueue::newer(frames, frame);
        }
        let frame = self.hand.or(self.queues[0].tail())?;
        self.hand = Some(frame);
        self.remove(frames, frame);
        Some(frame)
    }

    fn relocate(&mut self, page: PageRef<'_>, to: FrameId) {
        if self.hand == Some(page.frame) {
            self.hand = Some(to);
        }
        self.queues[0].replace(page.frames, page.frame, to);
    }

    fn queues(&mut self) -> &mut [FrameQueue] {
        &mut self.queues
    }
}
