//! `lrfu`: evicts alternately the least recently and the least frequently used page, like Mortar's ordered release
//! (SCRA, §4.2). Mortar published it under that name; Lee's LRFU of 2001 is another algorithm.

use sublet_types::Second;

use super::rule::{Eviction, PageRef, queue};
use crate::frames::{FrameId, FrameQueue, FrameTable, HITS_MAX};

const FREQUENCIES: usize = HITS_MAX as usize + 1;

pub(super) struct Lrfu {
    /// Pages by their uses, each queue in the order of the last use.
    by_hits: [FrameQueue; FREQUENCIES],
    /// Counts uses. It tells which of two pages was used before.
    uses: u32,
    /// Whether the next victim is the least frequently used page.
    by_frequency: bool,
}

impl Lrfu {
    pub(super) fn new() -> Lrfu {
        Lrfu {
            by_hits: [queue(0), queue(1), queue(2), queue(3)],
            uses: 0,
            by_frequency: false,
        }
    }

    fn enter(&mut self, page: PageRef<'_>, hits: u8) {
        page.set_hits(hits);
        self.uses = self.uses.wrapping_add(1);
        page.frames.get(page.frame).set_note(self.uses);
        self.by_hits[usize::from(page.hits())].push(page.frames, page.frame);
    }

    fn leave(&mut self, page: PageRef<'_>) {
        self.by_hits[usize::from(page.hits())].remove(page.frames, page.frame);
    }

    fn least_recent(&self, frames: &FrameTable) -> Option<usize> {
        let age = |at: &usize| {
            let oldest = self.by_hits[*at].tail();
            oldest.map(|frame| self.uses.wrapping_sub(frames.get(frame).note()))
        };
        (0..FREQUENCIES)
            .filter(|at| age(at).is_some())
            .max_by_key(age)
    }

    fn least_frequent(&self) -> Option<usize> {
        self.by_hits.iter().position(|queue| queue.len() > 0)
    }
}

impl Eviction for Lrfu {
    fn admit(&mut self, page: PageRef<'_>) {
        self.enter(page, 0);
    }

    fn hit(&mut self, page: PageRef<'_>) {
        let hits = page.hits() + 1;
        self.leave(page);
        self.enter(page, hits);
    }

    fn forget(&mut self, page: PageRef<'_>) {
        self.leave(page);
    }

    fn victim(&mut self, frames: &FrameTable, _now: Second) -> Option<FrameId> {
        let at = match self.by_frequency {
            true => self.least_frequent(),
            false => self.least_recent(frames),
        }?;
        self.by_frequency = !self.by_frequency;
        self.by_hits[at].pop(frames)
    }

    fn queues(&mut self) -> &mut [FrameQueue] {
        &mut self.by_hits
    }
}
