//! Guests' disks that are cached in spare memory: what of what passes through should be kept, and how far to read
//! ahead, when nobody tells the disk what the guest itself keeps.
//!
//! ```text
//! trace ──► the guest's page cache, LRU ──reads, writes──► disk: streams, admission, the store ──misses──► backing
//!                    └──evictions──► the bound alone: exclusive caching that sees them
//! ```

mod comparison;
mod disk;
mod guest;
mod made;
mod questions;
mod setup;

use std::io;

use sublet_types::Pages;

use crate::compare::{Shares, footprint};
use crate::machine::tier_store::StoreTierError;
use crate::traces::{Access, Trace, TraceError};
pub use comparison::{Comparison, ComparisonRow};
pub use disk::DiskCounts;
use disk::{CachedDisk, Sizes};
pub use guest::Event;
use guest::PageCache;
pub use made::made;
pub use questions::{Figure, Question, questions};
pub use setup::{ReadAhead, Sees, Setup, Writes};

/// Why a trace was not done to its end.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// Something is wrong with the trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It was there before.
    #[error("the trace cannot be read again: {0}")]
    Gone(io::Error),
    /// This machine has no memory for the store.
    #[error(transparent)]
    Store(#[from] StoreTierError),
}

type Open = Box<dyn Fn() -> Result<Trace, PlayError> + Send + Sync>;

/// A trace that can be done again and again. It is read anew each time, for it may be longer than memory is large.
pub struct Recording {
    open: Open,
    /// Different pages in it.
    pub footprint: Pages,
    /// Pages of the device that it could be of.
    device: u64,
}

impl Recording {
    /// Reads a trace to its end, to know how large it is.
    ///
    /// # Errors
    ///
    /// The trace's own.
    pub fn of(
        open: impl Fn() -> Result<Trace, PlayError> + Send + Sync + 'static,
    ) -> Result<Recording, PlayError> {
        let end = |access: &Access| guest::first_of(access).saturating_add(access.count.into());
        let mut device = 0;
        let seen = open()?.inspect(|access| {
            device = device.max(access.as_ref().map_or(0, end));
        });
        Ok(Recording {
            footprint: footprint(seen)?,
            device,
            open: Box::new(open),
        })
    }

    /// Has the disk of a guest, each with memory of a share of the footprint, do the trace.
    ///
    /// # Errors
    ///
    /// The trace's own; this machine has no memory for the store.
    pub fn play(&self, shares: Shares, setup: Setup, seed: u64) -> Result<DiskCounts, PlayError> {
        let sizes = Sizes {
            device: self.device,
            tier: part(self.footprint, shares.tier),
        };
        let mut guest = PageCache::of(part(self.footprint, shares.guest));
        let mut disk = CachedDisk::of(setup, sizes, seed)?;
        for access in (self.open)()? {
            guest.request(&access?).for_each(|event| disk.hear(event));
        }
        Ok(disk.counts())
    }
}

fn part(footprint: Pages, share: f64) -> Pages {
    Pages((footprint.0 as f64 * share) as u64)
}

#[cfg(test)]
mod tests;
