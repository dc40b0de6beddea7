//! What an eviction is told of, and what it is asked.

use sublet_types::Second;

use super::order::Turn;
use crate::arena::Line;
use crate::frames::{FrameId, Frames, HITS_MAX, Queue, QueueId};

/// Pages that are let be in the search for one victim, at the most: a put does a bounded work (R-E4).
pub const REPRIEVES_MAX: usize = 64;

/// A page that something happens to.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    /// The facts of all frames.
    pub frames: &'a Frames,
    /// The frame that it is in.
    pub frame: FrameId,
    /// Its hash: what it is remembered by when it is gone.
    pub hash: u64,
    /// When it happens.
    pub now: Second,
}

impl Page<'_> {
    /// Uses that its frame remembers.
    pub fn hits(&self) -> u8 {
        self.frames.get(self.frame).hits()
    }

    /// Has its frame remember so many uses, or as many as it can.
    pub fn set_hits(&self, hits: u8) {
        self.frames.get(self.frame).set_hits(hits.min(HITS_MAX));
    }
}

/// The order in which one shard's ephemeral pages go.
pub trait Eviction: Send {
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

    /// A page was asked for that is not there, and would have left.
    fn miss(&mut self, _hash: u64) {}

    /// A page was flushed.
    fn forget(&mut self, page: Page<'_>);

    /// A page was flushed that is not there.
    fn forget_absent(&mut self, _hash: u64) {}

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

    /// The line by which a page of that hash is remembered when it has left.
    fn ghost_line(&self, _hash: u64) -> Option<Line> {
        None
    }

    /// Takes over what its tenant's shards have in common, after that changed.
    fn renew(&mut self) {}

    /// Which shard of the tenant should give a page for a new one here; `None` where this eviction cannot tell.
    fn whose_turn(&mut self) -> Option<Turn> {
        None
    }

    /// Who will probably be the next victim, where that is known without a search.
    fn next_victim(&self) -> Option<FrameId> {
        None
    }

    /// Who has been there longest of those that have proven themselves, where there is such an order and no search for it.
    fn oldest(&self) -> Option<FrameId> {
        self.next_victim()
    }

    /// Bytes that it remembers the departed with.
    fn ghost_bytes(&self) -> u64 {
        0
    }
}

/// The `n`th queue of an eviction.
pub const fn queue(n: u8) -> Queue {
    Queue::new(QueueId(QueueId::OWN + n))
}
