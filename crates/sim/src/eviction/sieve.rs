//! `sieve`: as `clock`, but who stays keeps its place, and the hand goes on from there (Zhang et al., NSDI '24).

use sublet_store::eviction::{Eviction, FrameId, Frames, Page, Queue, REPRIEVES_MAX, queue};
use sublet_types::Second;

pub(super) struct Sieve {
    queues: [Queue; 1],
    /// Who is looked at next; `None` for the oldest.
    hand: Option<FrameId>,
}

impl Sieve {
    pub(super) fn new() -> Sieve {
        Sieve {
            queues: [queue(0)],
            hand: None,
        }
    }

    fn remove(&mut self, frames: &Frames, frame: FrameId) {
        if self.hand == Some(frame) {
            self.hand = Queue::newer(frames, frame);
        }
        self.queues[0].remove(frames, frame);
    }
}

impl Eviction for Sieve {
    fn admit(&mut self, page: Page<'_>) {
        page.set_hits(0);
        self.queues[0].push(page.frames, page.frame);
    }

    fn hit(&mut self, page: Page<'_>) {
        page.set_hits(1);
    }

    fn forget(&mut self, page: Page<'_>) {
        self.remove(page.frames, page.frame);
    }

    fn victim(&mut self, frames: &Frames, _now: Second) -> Option<FrameId> {
        for _ in 0..REPRIEVES_MAX {
            let frame = self.hand.or(self.queues[0].tail())?;
            let facts = frames.get(frame);
            if facts.hits() == 0 {
                break;
            }
            facts.set_hits(0);
            self.hand = Queue::newer(frames, frame);
        }
        let frame = self.hand.or(self.queues[0].tail())?;
        self.hand = Some(frame);
        self.remove(frames, frame);
        Some(frame)
    }

    fn moved(&mut self, page: Page<'_>, to: FrameId) {
        if self.hand == Some(page.frame) {
            self.hand = Some(to);
        }
        self.queues[0].replace(page.frames, page.frame, to);
    }

    fn queues(&mut self) -> &mut [Queue] {
        &mut self.queues
    }
}
