//! Guests' disks that are cached in spare memory. The comparison asks which of the passing pages should be kept, and
//! how far to read ahead, when nobody tells the disk what the guest itself keeps.
//!
//! ```text
//! trace ──► the guest's page cache, LRU ──reads, writes──► disk: streams, admission, the store ──misses──► backing
//!                    └──evictions──► the bound alone: exclusive caching that sees them
//! ```

mod comparison;
mod guest;
mod setup;
mod setup_comparisons;
mod simulated_disk;
mod synthetic;

use std::io;

use sublet_types::Pages;

use crate::compare::{FootprintShares, footprint};
use crate::machine::tier_store::StoreTierError;
use crate::traces::{Trace, TraceError, TraceRequest};
pub use comparison::{CachingComparison, ComparisonRow};
pub use guest::GuestDiskEvent;
use guest::GuestPageCache;
pub use setup::{CachingSetup, ReadAhead, Visibility, WritePolicy};
pub use setup_comparisons::{ComparedFigure, SetupComparison, questions};
pub use simulated_disk::CachedDiskCounts;
use simulated_disk::{CachedDisk, DiskSizes};
pub use synthetic::synthetic_requests;

/// Why a trace was not replayed to its end.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    /// The trace is wrong.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace could be opened before, but not again.
    #[error("the trace cannot be read again: {0}")]
    Gone(io::Error),
    /// This machine has no memory for the store.
    #[error(transparent)]
    Store(#[from] StoreTierError),
}

type OpenTrace = Box<dyn Fn() -> Result<Trace, PlaybackError> + Send + Sync>;

/// A trace that can be replayed again and again. It is read anew each time, because it may be longer than memory is
/// large.
pub struct ReplayableTrace {
    open: OpenTrace,
    /// The number of different pages in it.
    pub footprint: Pages,
    /// The number of pages of the device that it could come from.
    device: u64,
}

impl ReplayableTrace {
    /// Reads a trace to its end, to learn how large it is.
    ///
    /// # Errors
    ///
    /// The trace's own errors.
    pub fn of(
        open: impl Fn() -> Result<Trace, PlaybackError> + Send + Sync + 'static,
    ) -> Result<ReplayableTrace, PlaybackError> {
        let end =
            |access: &TraceRequest| guest::first_of(access).saturating_add(access.count.into());
        let mut device = 0;
        let seen = open()?.inspect(|access| {
            device = device.max(access.as_ref().map_or(0, end));
        });
        Ok(ReplayableTrace {
            footprint: footprint(seen)?,
            device,
            open: Box::new(open),
        })
    }

    /// Replays the trace on a guest's disk. The guest and the disk each have memory of a share of the footprint.
    ///
    /// # Errors
    ///
    /// The trace's own errors, or [`PlaybackError`] if this machine has no memory for the store.
    pub fn replay(
        &self,
        shares: FootprintShares,
        setup: CachingSetup,
        seed: u64,
    ) -> Result<CachedDiskCounts, PlaybackError> {
        let sizes = DiskSizes {
            device: self.device,
            tier: part(self.footprint, shares.tier),
        };
        let mut guest = GuestPageCache::of(part(self.footprint, shares.guest));
        let mut disk = CachedDisk::of(setup, sizes, seed)?;
        for access in (self.open)()? {
            guest.request(&access?).for_each(|event| disk.handle(event));
        }
        Ok(disk.counts())
    }
}

fn part(footprint: Pages, share: f64) -> Pages {
    Pages((footprint.0 as f64 * share) as u64)
}

#[cfg(test)]
mod tests;
