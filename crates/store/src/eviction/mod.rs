//! Eviction: which ephemeral page goes when another needs its frame. One file each; to add one, copy the
//! smallest (`lru`), and give it a row in `Family::eviction` and in `sublet_types::EvictionKind`. The simulator has
//! more, of its own: whoever makes a store may hand one in ([`PageSettings::eviction`](crate::PageSettings::eviction)).
//!
//! An eviction keeps the order of one shard's pages and owns the queues that their frames are linked in; that of `adaptive-mq` is a part of
//! one order over all shards of its tenant. It is told of every page that comes, is used or goes, and names a victim when asked. In an *exclusive* pool a hit
//! takes the page away, so that no resident page is ever seen to be used: what can be known of a page's
//! worth is then known of its past only, from `ghost`s.

mod adaptive_mq;
mod file;
mod ghost;
mod history;
mod lrfu;
mod lru;
mod order;
mod rule;
mod s3fifo;
mod shadows;
mod weights;
mod x_s3h;

use std::sync::Arc;

pub(crate) use ghost::Ghosts;
use order::Order;
pub use order::Turn;
pub use rule::{Eviction, Page, REPRIEVES_MAX, queue};
use sublet_types::EvictionKind;

pub use crate::frames::{FrameId, Frames, Queue};

/// Makes an eviction for a shard.
pub type MakeEviction = fn() -> Box<dyn Eviction>;

/// The evictions of one tenant's shards: of one kind, with what they have in common.
#[derive(Debug)]
pub(crate) struct Family {
    kind: EvictionKind,
    order: Option<Arc<Order>>,
    /// What the store's maker handed in, in place of any kind.
    handed_in: Option<MakeEviction>,
}

impl Family {
    /// Evictions of a kind for so many shards; of a ruling one ([`EvictionKind::ruling`]).
    pub(crate) fn new(
        kind: EvictionKind,
        shards: usize,
        handed_in: Option<MakeEviction>,
    ) -> Family {
        let order = || Arc::new(Order::new(shards));
        let learns = kind == EvictionKind::AdaptiveMq && handed_in.is_none();
        Family {
            kind,
            order: learns.then(order),
            handed_in,
        }
    }

    /// Evictions of another kind for as many shards.
    pub(crate) fn of_kind(&self, kind: EvictionKind, shards: usize) -> Family {
        Family::new(kind, shards, self.handed_in)
    }

    pub(crate) fn kind(&self) -> EvictionKind {
        self.kind
    }

    /// A new one for a shard.
    pub(crate) fn eviction(&self, shard: usize) -> Box<dyn Eviction> {
        if let Some(make) = self.handed_in {
            return make();
        }
        match (&self.order, self.kind) {
            (Some(order), _) => Box::new(adaptive_mq::AdaptiveMq::new(shard, Arc::clone(order))),
            (None, EvictionKind::Lru) => Box::new(lru::Lru::new()),
            (None, EvictionKind::Lrfu) => Box::new(lrfu::Lrfu::new()),
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
