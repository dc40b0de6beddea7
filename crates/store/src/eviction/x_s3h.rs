//! `x-s3h`: S3-FIFO for an exclusive tier, with hit history.
//!
//! In an exclusive tier a hit leaves the store, so S3-FIFO never sees a resident page used. Here the uses go with the
//! page into its ghost and come back with it:
//!
//! ```text
//!   put, no ghost ──► small (10 %) ──tail──► out, ghost
//!   put, a ghost ───► main, with its uses ──tail──► uses > 0: uses − 1, main again; else out
//!   get, exclusive ─► out, ghost with uses + 1
//! ```
//!
//! In a keeping pool the uses of a resident page serve as in S3-FIFO.

use sublet_types::Second;

use super::ghost::Ghosts;
use super::rule::{Eviction, PageRef};
use super::s3fifo::{MAIN, S3Queues, SMALL};
use crate::arena::PrefetchAddress;
use crate::frames::{FrameId, FrameQueue, FrameTable, HITS_MAX};

/// Ghosts per page that is there.
const GHOSTS_PER_PAGE: usize = 3;

pub(super) struct XS3h {
    queues: S3Queues,
    ghosts: Ghosts,
}

impl XS3h {
    pub(super) fn new() -> XS3h {
        XS3h {
            queues: S3Queues::new(),
            ghosts: Ghosts::default(),
        }
    }

    /// Remembers a newcomer that was evicted, with its uses.
    fn bury(&mut self, hash: u64, hits: u8) {
        self.ghosts.shrink_to(GHOSTS_PER_PAGE * self.queues.len());
        self.ghosts.remember(hash, hits);
    }
}

impl Eviction for XS3h {
    fn admit(&mut self, page: PageRef<'_>) {
        let known = self.ghosts.recall(page.hash);
        page.set_hits(known.unwrap_or(0));
        self.queues
            .push(if known.is_some() { MAIN } else { SMALL }, page);
        self.ghosts.make_place(GHOSTS_PER_PAGE * self.queues.len());
    }

    fn hit(&mut self, page: PageRef<'_>) {
        page.set_hits(page.hits() + 1);
    }

    fn hit_exclusive(&mut self, page: PageRef<'_>) {
        let hits = (page.hits() + 1).min(HITS_MAX);
        self.queues.remove(page);
        self.ghosts.remember(page.hash, hits);
    }

    fn forget(&mut self, page: PageRef<'_>) {
        self.queues.remove(page);
    }

    fn victim(&mut self, frames: &FrameTable, _now: Second) -> Option<FrameId> {
        let (frame, newcomer) = self.queues.victim(frames)?;
        if newcomer {
            self.bury(frames.hash(frame), frames.get(frame).hits());
        }
        Some(frame)
    }

    fn evict_along(&mut self, page: PageRef<'_>) {
        if self.queues.remove(page) {
            self.bury(page.hash, page.hits());
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
