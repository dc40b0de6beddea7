//! Eviction: decides which ephemeral page goes when another needs its frame.
//!
//! Each eviction has one file. To add one, copy the smallest (`lru`) and give it a row in `EvictionFamily::eviction`
//! and in `sublet_types::EvictionKind`. The simulator has more evictions of its own. Whoever makes a store may pass one
//! in ([`PageSettings::eviction`](crate::PageSettings::eviction)).
//!
//! An eviction keeps the order of one shard's pages and owns the queues that link their frames. The order of
//! `adaptive-mq` is part of one order over all shards of its tenant. The store reports every page that comes, is used
//! or goes, and asks for a victim.
//!
//! In an *exclusive* pool a hit takes the page away, so no resident page is ever seen to be used. A page's worth is
//! then known only from its past, from `ghost`s.

mod adaptive_mq;
mod file;
mod ghost;
mod history;
mod lrfu;
mod lru;
mod rule;
mod s3fifo;
mod shadows;
mod shared_order;
mod weights;
mod x_s3h;

use std::sync::Arc;

pub(crate) use ghost::Ghosts;
pub use rule::{Eviction, PageRef, REPRIEVES_MAX, queue};
use shared_order::SharedOrder;
pub use shared_order::VictimShard;
use sublet_types::EvictionKind;

pub use crate::frames::{FrameId, FrameQueue, FrameTable};

/// Makes an eviction for a shard.
pub type MakeEviction = fn() -> Box<dyn Eviction>;

/// The evictions of one tenant's shards. They are of one kind and share some state.
#[derive(Debug)]
pub(crate) struct EvictionFamily {
    kind: EvictionKind,
    order: Option<Arc<SharedOrder>>,
    /// An eviction that the store's maker passed in. It replaces any kind.
    handed_in: Option<MakeEviction>,
}

impl EvictionFamily {
    /// Evictions of a kind for this many shards. The kind must be an effective one ([`EvictionKind::effective`]).
    pub(crate) fn new(
        kind: EvictionKind,
        shards: usize,
        handed_in: Option<MakeEviction>,
    ) -> EvictionFamily {
        let order = || Arc::new(SharedOrder::new(shards));
        let learns = kind == EvictionKind::AdaptiveMq && handed_in.is_none();
        EvictionFamily {
            kind,
            order: learns.then(order),
            handed_in,
        }
    }

    /// Evictions of another kind for as many shards.
    pub(crate) fn of_kind(&self, kind: EvictionKind, shards: usize) -> EvictionFamily {
        EvictionFamily::new(kind, shards, self.handed_in)
    }

    pub(crate) fn kind(&self) -> EvictionKind {
        self.kind
    }

    /// A new eviction for a shard.
    pub(crate) fn eviction(&self, shard: usize) -> Box<dyn Eviction> {
        if let Some(make) = self.handed_in {
            return make();
        }
        match (&self.order, self.kind) {
            (Some(order), _) => Box::new(adaptive_mq::AdaptiveMq::new(shard, Arc::clone(order))),
            (None, EvictionKind::Lru) => Box::new(lru::Lru::new()),
            (None, EvictionKind::Lrfu) => Box::new(lrfu::Lrfu::new()),
            (None, EvictionKind::S3Fifo) => Box::new(s3fifo::S3Fifo::new()),
            (None, EvictionKind::File) => Box::new(file::FileEviction::new()),
            (None, EvictionKind::XS3h | EvictionKind::AdaptiveMq | EvictionKind::Auto) => {
                Box::new(x_s3h::XS3h::new())
            }
        }
    }

    /// Fits what the shards share to a tenant of this many pages, and the memory of departed pages to `remembered`
    /// pages. The caller then has each shard refreshed.
    pub(crate) fn fit(&self, pages: u64, remembered: u64) {
        let orders = self.order.iter();
        orders.for_each(|order| order.fit(pages, remembered));
    }

    /// Bytes that the shared state takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.order.as_ref().map_or(0, |order| order.bytes())
    }
}
