//! `clock`: a page that was used since the hand last passed stays for another round (Corbató 1968).

use sublet_store::eviction::{Eviction, FrameId, Frames, Page, Queue, REPRIEVES_MAX, queue};
use sublet_types::Second;

pub(super) struct Clock([Queue; 1]);

impl Clock {
    pub(super) fn new() -> Clock {
        Clock([queue(0)])
    }
}

impl Eviction for Clock {
    fn admit(&mut self, page: Page<'_>) {
        page.set_hits(0);
        self.0[0].push(page.frames, page.frame);
    }

    fn hit(&mut self, page: Page<'_>) {
        page.set_hits(1);
    }

    fn forget(&mut self, page: Page<'_>) {
        self.0[0].remove(page.frames, page.frame);
    }

    fn victim(&mut self, frames: &Frames, _now: Second) -> Option<FrameId> {
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

    fn queues(&mut self) -> &mut [Queue] {
        &mut self.0
    }
}
