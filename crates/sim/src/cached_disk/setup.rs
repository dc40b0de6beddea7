//! The ways of caching a disk that are compared.

use std::fmt;

use sublet_store::disk::{STREAMS, Window};
use sublet_types::{EvictionKind, Fill, Windows};

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
    pub(crate) const GROWING: ReadAhead = ReadAhead {
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

    pub(super) fn fill(&self) -> Fill {
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
