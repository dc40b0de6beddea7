//! Eviction: which ephemeral page goes when another needs its frame. One file each; to add one, copy the
//! smallest (`fifo`), and give it a row in `Family::eviction` and in `sublet_types::EvictionKind`.
//!
//! An eviction keeps the order of one shard's pages and owns the queues that their frames are linked in; that of `adaptive-mq` is a part of
//! one order over all shards of its tenant. It is told of every page that comes, is used or goes, and names a victim when asked. In an *exclusive* pool a hit
//! takes the page away, so that no resident page is ever seen to be used: what can be known of a page's
//! worth is then known of its past only, from [`ghost`]s.

mod adaptive_mq;
mod clock;
mod fifo;
mod file;
mod ghost;
mod history;
mod lrfu;
mod lru;
mod order;
mod s3fifo;
mod shadows;
mod sieve;
mod weights;
mod x_s3h;

use std::sync::Arc;

pub(crate) use ghost::Ghosts;
use order::Order;
pub(crate) use order::Turn;
use sublet_types::{EvictionKind, Second};

use crate::arena::Line;
use crate::frames::{FrameId, Frames, Queue, QueueId};

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
            .set_hits(hits.min(crate::frames::HITS_MAX));
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

/// The evictions of one tenant's shards: of one kind, with what they have in common.
#[derive(Debug)]
pub(crate) struct Family {
    kind: EvictionKind,
    order: Option<Arc<Order>>,
}

impl Family {
    /// Evictions of a kind for so many shards; of a ruling one ([`EvictionKind::ruling`]).
    pub(crate) fn new(kind: EvictionKind, shards: usize) -> Family {
        let order = || Arc::new(Order::new(shards));
        Family {
            kind,
            order: (kind == EvictionKind::AdaptiveMq).then(order),
        }
    }

    pub(crate) fn kind(&self) -> EvictionKind {
        self.kind
    }

    /// A new one for a shard.
    pub(crate) fn eviction(&self, shard: usize) -> Box<dyn Eviction> {
        match (&self.order, self.kind) {
            (Some(order), _) => Box::new(adaptive_mq::AdaptiveMq::new(shard, Arc::clone(order))),
            (None, EvictionKind::Fifo) => Box::new(fifo::Fifo::new()),
            (None, EvictionKind::Lru) => Box::new(lru::Lru::new()),
            (None, EvictionKind::Lrfu) => Box::new(lrfu::Lrfu::new()),
            (None, EvictionKind::Clock) => Box::new(clock::Clock::new()),
            (None, EvictionKind::Sieve) => Box::new(sieve::Sieve::new()),
            (None, EvictionKind::S3Fifo) => Box::new(s3fifo::S3Fifo::new()),
            (None, EvictionKind::File) => Box::new(file::ByFile::new()),
            (None, EvictionKind::XS3h | EvictionKind::AdaptiveMq | EvictionKind::Auto) => {
                Box::new(x_s3h::XS3h::new())
            }
        }
    }

    /// Has what the shards have in common suit a tenant of so many pages, and as many of the departed be remembered as `remembered` pages
    /// are worth. Whoever says so has each shard's renewed.
    pub(crate) fn fit(&self, pages: u64, remembered: u64) {
        let orders = self.order.iter();
        orders.for_each(|order| order.fit(pages, remembered));
    }

    /// Bytes of what its shards have in common.
    pub(crate) fn bytes(&self) -> u64 {
        self.order.as_ref().map_or(0, |order| order.bytes())
    }
}

/// The `n`th queue of an eviction.
const fn queue(n: u8) -> Queue {
    Queue::new(QueueId(QueueId::OWN + n))
}
