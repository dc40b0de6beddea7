//! Eviction: which ephemeral page goes when another needs its frame. One file each; to add one, copy the
//! smallest (`fifo`), and give it a row in [`new`] and in `sublet_types::EvictionKind`.
//!
//! An eviction keeps the order of one shard's pages and owns the queues that their frames are linked in. It hears of
//! every page that comes, is used or goes, and names a victim when asked. In an *exclusive* pool a hit
//! takes the page away, so that no resident page is ever seen to be used: what can be known of a page's
//! worth is then known of its past only, from [`ghost`]s.

mod clock;
mod fifo;
mod file;
mod ghost;
mod lrfu;
mod lru;
mod s3fifo;
mod sieve;
mod x_s3h;

pub(crate) use ghost::Ghosts;
use sublet_types::{EvictionKind, Second};

use crate::arena::Line;
use crate::pages::{FrameId, Frames, Queue, QueueId};

/// Pages that are let be in the search for one victim, at the most: a put does a bounded work (R-E4).
const REPRIEVES_MAX: usize = 64;

/// A page that something happens to.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    pub(crate) frames: &'a Frames,
    pub(crate) frame: FrameId,
    /// Its hash: what it is remembered by when it is gone.
    pub(crate) hash: u64,
    pub(crate) now: Second,
}

impl Page<'_> {
    fn hits(&self) -> u8 {
        self.frames.get(self.frame).hits()
    }

    fn set_hits(&self, hits: u8) {
        self.frames
            .get(self.frame)
            .set_hits(hits.min(crate::pages::HITS_MAX));
    }
}

/// The order in which one shard's ephemeral pages go.
pub(crate) trait Eviction: Send {
    /// A page was put that was not there.
    fn admit(&mut self, page: Page<'_>);

    /// A page that is there was put again.
    fn rewrite(&mut self, page: Page<'_>) {
        self.hit(page);
    }

    /// A page was read and stays.
    fn hit(&mut self, page: Page<'_>);

    /// A page was read and leaves for it.
    fn take(&mut self, page: Page<'_>) {
        self.forget(page);
    }

    /// A page was flushed.
    fn forget(&mut self, page: Page<'_>);

    /// A page went with its block, which was dropped.
    fn lose(&mut self, page: Page<'_>) {
        self.forget(page);
    }

    /// Chooses who goes next, and lets go of it. `None` if there is nobody.
    fn victim(&mut self, frames: &Frames, now: Second) -> Option<FrameId>;

    /// A page goes along with the last victim, of whose window it is.
    fn go_along(&mut self, page: Page<'_>) {
        self.forget(page);
    }

    /// A page was moved to the frame `to`.
    fn moved(&mut self, page: Page<'_>, to: FrameId) {
        let at = page.frames.get(page.frame).queue().0 - QueueId::OWN;
        self.queues()[at as usize].replace(page.frames, page.frame, to);
    }

    /// Its queues, in the order of their ids.
    fn queues(&mut self) -> &mut [Queue];

    /// Pages that it knows.
    fn count(&mut self) -> u32 {
        self.queues().iter().map(Queue::len).sum()
    }

    /// Where it remembers a page of that hash, if it remembers the departed.
    fn ghost_line(&self, _hash: u64) -> Option<Line> {
        None
    }

    /// Who will probably be the next victim, where that is known without a search.
    fn next_victim(&self) -> Option<FrameId> {
        None
    }

    /// Bytes that it remembers the departed with.
    fn ghost_bytes(&self) -> u64 {
        0
    }
}

/// An eviction of that kind for one shard.
pub(crate) fn new(kind: EvictionKind) -> Box<dyn Eviction> {
    match kind {
        EvictionKind::Fifo => Box::new(fifo::Fifo::new()),
        EvictionKind::Lru => Box::new(lru::Lru::new()),
        EvictionKind::Lrfu => Box::new(lrfu::Lrfu::new()),
        EvictionKind::Clock => Box::new(clock::Clock::new()),
        EvictionKind::Sieve => Box::new(sieve::Sieve::new()),
        EvictionKind::S3Fifo => Box::new(s3fifo::S3Fifo::new()),
        EvictionKind::XS3h => Box::new(x_s3h::XS3h::new()),
        EvictionKind::File => Box::new(file::ByFile::new()),
    }
}

/// The `n`th queue of an eviction.
const fn queue(n: u8) -> Queue {
    Queue::new(QueueId(QueueId::OWN + n))
}
