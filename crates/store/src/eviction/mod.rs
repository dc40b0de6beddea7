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
mod rule;
mod s3fifo;
mod shadows;
mod sieve;
mod weights;
mod x_s3h;

use std::sync::Arc;

pub(crate) use ghost::Ghosts;
use order::Order;
pub(crate) use order::Turn;
pub(crate) use rule::{Eviction, Page};
use sublet_types::EvictionKind;

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
