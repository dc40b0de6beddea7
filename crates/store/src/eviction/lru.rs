//! `lru`: evicts the least recently used page first. In an exclusive pool that is the order of puts.

use sublet_types::Second;

use super::rule::{Eviction, PageRef, queue};
use crate::frames::{FrameId, FrameQueue, FrameTable};

pub(super) struct Lru([FrameQueue; 1]);

impl Lru {
    pub(super) fn new() -> Lru {
        Lru([queue(0)])
    }
}

impl Eviction for Lru {
    fn admit(&mut self, page: PageRef<'_>) {
        self.0[0].push(page.frames, page.frame);
    }

    fn hit(&mut self, page: PageRef<'_>) {
        self.0[0].requeue(page.frames, page.frame);
    }

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
