//! The ways of caching a disk that are compared.

use std::fmt;

use sublet_store::disk_caching::{ReadAheadWindow, STREAMS};
use sublet_types::{EvictionKind, FillPolicy, WindowEviction};

/// What a disk learns of the guest's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Reads and writes, as a block frontend sees them.
    Requests,
    /// The guest's evictions too, as cleancache sees them. This is the bound.
    Evictions,
}

/// What happens to a written page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// Memory has it from then on.
    Put,
    /// It leaves memory.
    Drop,
}

/// How far the disk reads ahead, and for how many readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// How many readers the disk tells apart.
    pub streams: usize,
    /// The window in pages.
    pub window: ReadAheadWindow,
}

impl ReadAhead {
    /// Reads nothing ahead. The disk tracks runs all the same, because the filter needs their lengths.
    pub const NONE: ReadAhead = ReadAhead {
        streams: STREAMS,
        window: ReadAheadWindow::NONE,
    };

    /// The window that disks use.
    pub(crate) const GROWING: ReadAhead = ReadAhead {
        streams: STREAMS,
        window: ReadAheadWindow::DEFAULT,
    };
}

/// A way of caching a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachingSetup {
    /// What it learns of the guest's accesses.
    pub sees: Visibility,
    /// Which missed pages are kept. The bound keeps none.
    pub fill: FillPolicy,
    /// The order in which pages leave.
    pub eviction: EvictionKind,
    /// How far is read ahead.
    pub read_ahead: ReadAhead,
    /// The most pages of a run that are kept.
    pub sequential_max: Option<u32>,
    /// What happens to a written page.
    pub writes: WritePolicy,
    /// What leaves with a page that is evicted.
    pub windows: WindowEviction,
}

impl CachingSetup {
    /// A setup that keeps what is missed and reads nothing ahead.
    pub const fn plain(fill: FillPolicy, eviction: EvictionKind) -> CachingSetup {
        CachingSetup {
            sees: Visibility::Requests,
            fill,
            eviction,
            read_ahead: ReadAhead::NONE,
            sequential_max: None,
            writes: WritePolicy::Put,
            windows: WindowEviction::Pages,
        }
    }

    pub(super) fn fill(&self) -> FillPolicy {
        match self.sees {
            Visibility::Requests => self.fill,
            Visibility::Evictions => FillPolicy::DropOnRead,
        }
    }
}

impl fmt::Display for CachingSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        let words = parts.iter().flatten().map(String::as_str);
        f.write_str(&words.collect::<Vec<&str>>().join(", "))
    }
}

impl CachingSetup {
    /// Labels for these setups beside each other. They leave out what all have in common.
    pub fn labels(setups: &[CachingSetup]) -> Vec<String> {
        let all: Vec<[Option<String>; PARTS]> = setups.iter().map(CachingSetup::parts).collect();
        let differs = |part: usize| all.iter().any(|parts| parts[part] != all[0][part]);
        let tells = (0..PARTS).filter(|part| *part == 0 || differs(*part));
        let tells: Vec<usize> = tells.collect();
        let label = |parts: &[Option<String>; PARTS]| {
            let words = tells.iter().filter_map(|part| parts[*part].as_deref());
            words.collect::<Vec<&str>>().join(", ")
        };
        all.iter().map(label).collect()
    }

    fn parts(&self) -> [Option<String>; PARTS] {
        let fill = match (self.sees, self.fill) {
            (Visibility::Evictions, _) => "bound",
            (_, FillPolicy::Miss) => "miss",
            (_, FillPolicy::SecondMiss) => "second-miss",
            (_, FillPolicy::DropOnRead) => "drop-on-read",
        };
        let runs = self.sequential_max.map(|most| format!("runs to {most}"));
        let dropped = self.writes == WritePolicy::Drop;
        let whole = self.windows == WindowEviction::Whole;
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
            ReadAheadWindow { most: 0, .. } => None,
            ReadAheadWindow { least, most } if least == most => {
                Some(format!("ahead {most} x{streams}"))
            }
            ReadAheadWindow { least, most } => Some(format!("ahead {least}-{most} x{streams}")),
        }
    }
}

/// Parts of a setup's name.
const PARTS: usize = 5;
