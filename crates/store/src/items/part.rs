//! What one tenant has of the items engine.

use std::sync::Arc;

use super::deferred::Deferred;
use super::followed::Followed;
use super::listeners::EvictionListeners;
use super::segments::Segments;
use super::tally::Tally;

/// A tenant's items, what befell them, and who is told.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) segments: Segments,
    pub(crate) tally: Tally,
    /// Held by who listens, too.
    pub(super) listeners: Arc<EvictionListeners>,
    pub(crate) deferred: Deferred,
    /// What happened to a sample of its items.
    pub(crate) followed: Followed,
}
