//! One tenant's part of the items engine.

use std::sync::Arc;

use super::deferred_flush::DeferredFlush;
use super::item_sample_log::ItemSampleLog;
use super::listeners::EvictionListeners;
use super::segments::Segments;
use super::tally::ItemTally;

/// A tenant's items, their counters, and the listeners to their evictions.
#[derive(Default)]
pub(crate) struct TenantItems {
    pub(crate) segments: Segments,
    pub(crate) tally: ItemTally,
    /// Listeners hold it too.
    pub(super) listeners: Arc<EvictionListeners>,
    pub(crate) deferred_flush: DeferredFlush,
    /// What happened to a sample of its items.
    pub(crate) samples: ItemSampleLog,
}
