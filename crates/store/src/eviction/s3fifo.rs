//! `s3fifo`: a small queue for newcomers, a main queue for used pages, and ghosts of evicted newcomers (Yang et al.,
//! SOSP '23). It is made for a cache that keeps what it serves. For an exclusive pool see `x-s3h`.

use sublet_types::Second;

use super::ghost::Ghosts;
use super::rule::{Eviction, PageRef, REPRIEVES_MAX, queue};
use crate::arena::PrefetchAddress;
use crate::frames::{FrameId, FrameQueue, FrameTable};

pub(super) const SMALL: usize = 0;
pub(super) const MAIN: usize = 1;

/// The small queue's share of all pages: a tenth.
const SMALL_ONE_IN: u32 = 10;

/// A newcomer with this many uses goes on to the main queue.
const PROVEN_HITS: u8 = 2;

/// The two queues. `x-s3h` uses them too.
pub(super) struct S3Queues(pub(super) [FrameQueue; 2]);

impl S3Queues {
    pub(super) fn new() -> S3Queues {
        S3Queues([queue(SMALL as u8), queue(MAIN as u8)])
    }

    pub(super) fn len(&self) -> usize {
        (self.0[SMALL].len() + self.0[MAIN].len()) as usize
    }

    pub(super) fn push(&mut self, at: usize, page: PageRef<'_>) {
        self.0[at].push(page.frames, page.frame);
    }

    /// Removes a page. Returns whether it was a newcomer.
    pub(super) fn remove(&mut self, page: PageRef<'_>) -> bool {
        let at = page.frames.get(page.frame).queue().0 - crate::frames::QueueId::OWN;
        self.0[at as usize].remove(page.frames, page.frame);
        usize::from(at) == SMALL
    }

    /// The next victim, and whether it was a newcomer.
    pub(super) fn victim(&mut self, frames: &FrameTable) -> Option<(FrameId, bool)> {
        for reprieves in 0.. {
            let at = self.next()?;
            let frame = self.0[at].pop(frames)?;
            let facts = frames.get(frame);
            match (at, facts.hits()) {
                _ if reprieves >= REPRIEVES_MAX => return Some((frame, at == SMALL)),
                (SMALL, PROVEN_HITS..) => facts.set_hits(0),
                (MAIN, hits @ 1..) => facts.set_hits(hits - 1),
                _ => return Some((frame, at == SMALL)),
            }
            self.0[MAIN].push(frames, frame);
        }
        None
    }

    /// The probable next victim.
    pub(super) fn next_victim(&self) -> Option<FrameId> {
        self.next().and_then(|at| self.0[at].tail())
    }

    /// The oldest of the used pages, or of the newcomers if there are no others.
    pub(super) fn oldest(&self) -> Option<FrameId> {
        self.0[MAIN].tail().or_else(|| self.0[SMALL].tail())
    }

    /// The queue that gives next: the small one while it has its share.
    fn next(&self) -> Option<usize> {
        let [small, main] = [self.0[SMALL].len(), self.0[MAIN].len()];
        match (small, main) {
            (0, 0) => None,
            (0, _) => Some(MAIN),
            (_, 0) => Some(SMALL),
            _ if small * SMALL_ONE_IN >= small + main => Some(SMALL),
            _ => Some(MAIN),
        }
    }
}

pub(super) struct S3Fifo {
    queues: S3Queues,
    ghosts: Ghosts,
}

impl S3Fifo {
    pub(super) fn new() -> S3Fifo {
        S3Fifo {
            queues: S3Queues::new(),
            ghosts: Ghosts::default(),
        }
    }

    /// Remembers a newcomer that was evicted.
    fn bury(&mut self, hash: u64) {
        self.ghosts.shrink_to(self.queues.len());
        self.ghosts.remember(hash, 0);
    }
}

impl Eviction for S3Fifo {
    fn admit(&mut self, page: PageRef<'_>) {
        page.set_hits(0);
        let at = match self.ghosts.recall(page.hash) {
            Some(_) => MAIN,
            None => SMALL,
        };
        self.queues.push(at, page);
        self.ghosts.make_place(self.queues.len());
    }

    fn hit(&mut self, page: PageRef<'_>) {
        page.set_hits(page.hits() + 1);
    }

    fn forget(&mut self, page: PageRef<'_>) {
        self.queues.remove(page);
    }

    fn victim(&mut self, frames: &FrameTable, _now: Second) -> Option<FrameId> {
        let (frame, newcomer) = self.queues.victim(frames)?;
        if newcomer {
            self.bury(frames.hash(frame));
        }
        Some(frame)
    }

    fn evict_along(&mut self, page: PageRef<'_>) {
        if self.queues.remove(page) {
            self.bury(page.hash);
        }
    }

    fn queues(&mut self) -> &mut [FrameQueue] {
        &mut self.queues.0
    }

    fn ghost_line(&self, hash: u64) -> Option<PrefetchAddress> {
        self.ghosts.line(hash)
    }

    fn next_victim(&self) -> Option<FrameId> {
        self.queues.next_victim()
    }

    fn oldest(&self) -> Option<FrameId> {
        self.queues.oldest()
    }

    fn ghost_bytes(&self) -> u64 {
        self.ghosts.bytes()
    }
}
