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

use std::fmt;
use std::io;

use serde::Serialize;
use sublet_store::disk::{STREAMS, Window};
use sublet_types::{EvictionKind, Fill, Pages, Windows};

use crate::compare::{Shares, footprint};
use crate::machine::tier_store::StoreTierError;
use crate::traces::{Access, Trace, TraceError};
pub use comparison::{Comparison, ComparisonRow};
use disk::{CachedDisk, Sizes};
pub use guest::Event;
use guest::PageCache;
pub use made::made;
pub use questions::{Figure, Question, questions};

/// What a disk hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Reads and writes, as a block frontend.
    Requests,
    /// The guest's evictions too, as cleancache does: the bound.
    Evictions,
}

/// What becomes of a written page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Memory has it from then on.
    Put,
    /// It leaves memory.
    Drop,
}

/// How far is read ahead, for how many readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// Readers that are told apart.
    pub streams: usize,
    /// Pages.
    pub window: Window,
}

impl ReadAhead {
    /// Nothing is read ahead. Runs are followed all the same: the filter wants their lengths.
    pub const NONE: ReadAhead = ReadAhead {
        streams: STREAMS,
        window: Window::NONE,
    };

    /// As disks do it.
    pub const GROWING: ReadAhead = ReadAhead {
        streams: STREAMS,
        window: Window::DEFAULT,
    };
}

/// A way of caching a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What it hears of.
    pub sees: Sees,
    /// Which missed pages are kept; the bound keeps none.
    pub fill: Fill,
    /// The order in which pages leave.
    pub eviction: EvictionKind,
    /// How far is read ahead.
    pub read_ahead: ReadAhead,
    /// Pages of a run that are kept at the most.
    pub sequential_max: Option<u32>,
    /// What becomes of a written page.
    pub writes: Writes,
    /// What leaves with a page that is evicted.
    pub windows: Windows,
}

impl Setup {
    /// Keeps what is missed, reads nothing ahead.
    pub const fn plain(fill: Fill, eviction: EvictionKind) -> Setup {
        Setup {
            sees: Sees::Requests,
            fill,
            eviction,
            read_ahead: ReadAhead::NONE,
            sequential_max: None,
            writes: Writes::Put,
            windows: Windows::Pages,
        }
    }

    fn fill(&self) -> Fill {
        match self.sees {
            Sees::Requests => self.fill,
            Sees::Evictions => Fill::DropOnRead,
        }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        let said = parts.iter().flatten().map(String::as_str);
        f.write_str(&said.collect::<Vec<&str>>().join(", "))
    }
}

impl Setup {
    /// What to call each of these beside the others: what all do alike is left out.
    pub fn labels(setups: &[Setup]) -> Vec<String> {
        let all: Vec<[Option<String>; PARTS]> = setups.iter().map(Setup::parts).collect();
        let differs = |part: usize| all.iter().any(|parts| parts[part] != all[0][part]);
        let tells = (0..PARTS).filter(|part| *part == 0 || differs(*part));
        let tells: Vec<usize> = tells.collect();
        let label = |parts: &[Option<String>; PARTS]| {
            let said = tells.iter().filter_map(|part| parts[*part].as_deref());
            said.collect::<Vec<&str>>().join(", ")
        };
        all.iter().map(label).collect()
    }

    fn parts(&self) -> [Option<String>; PARTS] {
        let fill = match (self.sees, self.fill) {
            (Sees::Evictions, _) => "bound",
            (_, Fill::Miss) => "miss",
            (_, Fill::SecondMiss) => "second-miss",
            (_, Fill::DropOnRead) => "drop-on-read",
        };
        let runs = self.sequential_max.map(|most| format!("runs to {most}"));
        let dropped = self.writes == Writes::Drop;
        let whole = self.windows == Windows::Whole;
        [
            Some(format!("{fill} {}", self.eviction)),
            self.read_ahead.label(),
            runs,
            dropped.then(|| "writes dropped".to_owned()),
            whole.then(|| "whole".to_owned()),
        ]
    }
}

impl ReadAhead {
    fn label(self) -> Option<String> {
        let streams = self.streams;
        match self.window {
            Window { most: 0, .. } => None,
            Window { least, most } if least == most => Some(format!("ahead {most} x{streams}")),
            Window { least, most } => Some(format!("ahead {least}-{most} x{streams}")),
        }
    }
}

/// Parts of a setup's name.
const PARTS: usize = 5;

/// What a disk came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskCounts {
    /// Reads that the guest asked for, each of neighbouring pages.
    pub ios: u64,
    /// Of these, those that wanted a page that was neither in memory nor on its way: they wait for the backing.
    pub stalled: u64,
    /// Of the others, those that came before the page that was read ahead for them.
    pub late: u64,
    /// Of the stalled, those that found a part in memory.
    pub halved: u64,
    /// Pages asked for.
    pub gets: u64,
    /// Of these, neither in memory nor on their way.
    pub misses: u64,
    /// Pages read from the backing, for whatever reason.
    pub backing_pages: u64,
    /// Of these, read ahead.
    pub ahead_pages: u64,
    /// Of these, asked for while they were there.
    pub ahead_used: u64,
    /// Microseconds that the guest's reads waited, together.
    pub waited_us: u64,
    /// Pages that came back from memory with another content than they had: always zero.
    pub pages_wrong: u64,
}

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
