//! Which write connection of a session counts: the newest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The highest number of a session's write connections that were let in.
///
/// A borrower that opens another write connection has given the one before up. Frames that it wrote there may hold
/// other pages by now, so that nothing of the old connection may be written any more. All threads that serve the
/// session look here before each page.
#[derive(Clone, Debug, Default)]
pub struct NewestWrite(Arc<AtomicU64>);

impl NewestWrite {
    /// Records that a write connection was let in.
    pub(super) fn admit(&self, connection: u64) {
        self.0.fetch_max(connection, Ordering::AcqRel);
    }

    /// Returns whether a newer write connection than this one was let in.
    pub fn is_after(&self, connection: u64) -> bool {
        self.0.load(Ordering::Acquire) > connection
    }
}
