//! `clock`: a page stays for another round if it was used since the hand last passed (Corbató 1968).

use sublet_store::eviction::{
    Eviction, FrameId, FrameQueue, FrameTable, PageRef, REPRIEVES_MAX, queue,
};
use sublet_types::Second;

pub(super) struct ClockEviction([FrameQueue; 1]);

impl ClockEviction {
    pub(super) fn new() -> ClockEviction {
        ClockEviction([queue(0)])
    }
}

impl Eviction for ClockEviction {
    fn admit(&mut self, page: PageRef<'_>) {
        page.set_hits(0);
        self.0[0].push(page.frames, page.frame);
    }

    fn hit(&mut self, page: PageRef<'_>) {
        page.set_hits(1);
    }

    fn forget(&mut self, page: PageRef<'_>) {
        self.0[0].remove(page.frames, page.frame);
    }

    fn victim(&mut self, frames: &FrameTable, _now: Second) -> Option<FrameId> {
        for _ in 0..REPRIEVES_MAX {
            let oldest = self.0[0].tail()?;
            let facts = frames.get(oldest);
            if facts.hits() == 0 {
                break;
            }
            facts.set_hits(0);
            self.0[0].requeue(frames, oldest);
        }
        self.0[0].pop(frames)
    }

    fn queues(&mut self) -> &mut [FrameQueue] {
        &mut self.0
    }
}
