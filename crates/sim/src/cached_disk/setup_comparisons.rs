//! The comparisons of setups that are made on each trace.

use sublet_store::disk_caching::{ReadAheadWindow, STREAMS};
use sublet_types::{EvictionKind, FillPolicy, WindowEviction};

use super::setup::{CachingSetup, ReadAhead, Visibility, WritePolicy};
use super::simulated_disk::CachedDiskCounts;

/// A figure by which setups are compared. Less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedFigure {
    /// Requested pages that were neither in memory nor on their way.
    Misses,
    /// Reads that wait for such a page.
    Stalled,
    /// Mean microseconds that a read waits.
    Wait,
    /// Pages read from the backing.
    BackingPages,
    /// Reads that found a part in memory and waited for the rest.
    Halved,
}

impl ComparedFigure {
    /// This figure, taken from a disk's counts.
    pub fn of(self, counts: &CachedDiskCounts) -> u64 {
        match self {
            ComparedFigure::Misses => counts.misses,
            ComparedFigure::Stalled => counts.stalled,
            ComparedFigure::Wait => counts.waited_us / counts.ios.max(1),
            ComparedFigure::BackingPages => counts.backing_pages,
            ComparedFigure::Halved => counts.halved,
        }
    }

    /// The name and number of what the figure is a part of.
    pub fn denominator(self, counts: &CachedDiskCounts) -> (&'static str, u64) {
        match self {
            ComparedFigure::Misses | ComparedFigure::BackingPages => ("pages", counts.gets),
            ComparedFigure::Stalled | ComparedFigure::Wait | ComparedFigure::Halved => {
                ("reads", counts.ios)
            }
        }
    }
}

/// Setups side by side. The first is the yard-stick.
#[derive(Clone, Debug)]
pub struct SetupComparison {
    /// The question.
    pub title: &'static str,
    /// What is compared.
    pub figure: ComparedFigure,
    /// The setups that are compared.
    pub setups: Vec<CachingSetup>,
}

const FILLS: [FillPolicy; 3] = [
    FillPolicy::Miss,
    FillPolicy::SecondMiss,
    FillPolicy::DropOnRead,
];

const EVICTIONS: [EvictionKind; 4] = [
    EvictionKind::Lru,
    EvictionKind::S3Fifo,
    EvictionKind::XS3h,
    EvictionKind::AdaptiveMq,
];

/// The base of those comparisons that are not about admission.
const BASE: CachingSetup = CachingSetup::plain(FillPolicy::Miss, EvictionKind::XS3h);

fn comparison(
    title: &'static str,
    figure: ComparedFigure,
    setups: &[CachingSetup],
) -> SetupComparison {
    SetupComparison {
        title,
        figure,
        setups: setups.to_vec(),
    }
}

/// All comparisons.
pub fn questions() -> Vec<SetupComparison> {
    let (ahead, filtered) = (windows(), filters(BASE));
    let grown = filters(BASE_AHEAD);
    let mut questions = vec![
        comparison(
            "Misses by admission and eviction, nothing read ahead",
            ComparedFigure::Misses,
            &bounded(),
        ),
        comparison(
            "Misses with windows of 4 to 32 pages",
            ComparedFigure::Misses,
            &admissions(ReadAhead::GROWING),
        ),
        comparison(
            "Waiting with windows of 4 to 32 pages, µs a read",
            ComparedFigure::Wait,
            &admissions(ReadAhead::GROWING),
        ),
        comparison(
            "Half hits with windows of 4 to 32 pages",
            ComparedFigure::Halved,
            &admissions(ReadAhead::GROWING),
        ),
        comparison(
            "Stalled reads by window and streams",
            ComparedFigure::Stalled,
            &ahead,
        ),
        comparison(
            "Waiting by window and streams, µs a read",
            ComparedFigure::Wait,
            &ahead,
        ),
        comparison(
            "Pages read from the backing by window and streams",
            ComparedFigure::BackingPages,
            &ahead,
        ),
        comparison(
            "Misses by the sequential filter, nothing read ahead",
            ComparedFigure::Misses,
            &filtered,
        ),
        comparison(
            "Stalled reads by the sequential filter, windows of 4 to 32 pages",
            ComparedFigure::Stalled,
            &grown,
        ),
        comparison(
            "Misses by what becomes of written pages",
            ComparedFigure::Misses,
            &writes(),
        ),
    ];
    questions.extend(leaving());
    questions
}

/// Comparisons of what leaves together.
fn leaving() -> Vec<SetupComparison> {
    let whole = whole();
    vec![
        comparison(
            "Stalled reads by what leaves together, windows of 4 to 32 pages",
            ComparedFigure::Stalled,
            &whole,
        ),
        comparison(
            "Waiting by what leaves together, windows of 4 to 32 pages, µs a read",
            ComparedFigure::Wait,
            &whole,
        ),
        comparison(
            "Half hits by what leaves together, windows of 4 to 32 pages",
            ComparedFigure::Halved,
            &whole,
        ),
    ]
}

/// The base that is set up as disks are.
const BASE_AHEAD: CachingSetup = CachingSetup {
    read_ahead: ReadAhead::GROWING,
    ..BASE
};

/// Each admission with each eviction.
fn admissions(read_ahead: ReadAhead) -> Vec<CachingSetup> {
    let setup = |fill: FillPolicy, eviction: EvictionKind| CachingSetup {
        read_ahead,
        ..CachingSetup::plain(fill, eviction)
    };
    let of_fill = |fill: FillPolicy| EVICTIONS.map(|eviction| setup(fill, eviction));
    FILLS.into_iter().flat_map(of_fill).collect()
}

/// Each admission with each eviction, and exclusive caching that sees the guest's evictions.
fn bounded() -> Vec<CachingSetup> {
    let bound = |eviction| CachingSetup {
        sees: Visibility::Evictions,
        ..CachingSetup::plain(FillPolicy::DropOnRead, eviction)
    };
    let mut setups = admissions(ReadAhead::NONE);
    setups.extend(EVICTIONS.map(bound));
    setups
}

/// No window, windows of 8, and growing windows, each for one reader and for many.
fn windows() -> Vec<CachingSetup> {
    let ahead = |streams, window| CachingSetup {
        read_ahead: ReadAhead { streams, window },
        ..BASE
    };
    let (eight, growing) = (ReadAheadWindow::fixed(8), ReadAheadWindow::DEFAULT);
    vec![
        BASE,
        ahead(1, eight),
        ahead(STREAMS, eight),
        ahead(1, growing),
        ahead(STREAMS, growing),
    ]
}

/// The sequential filter off, and at three lengths.
fn filters(base: CachingSetup) -> Vec<CachingSetup> {
    let lengths = [None, Some(256), Some(32), Some(4)];
    let setup = |sequential_max| CachingSetup {
        sequential_max,
        ..base
    };
    lengths.map(setup).to_vec()
}

/// Written pages kept and dropped, by each admission.
fn writes() -> Vec<CachingSetup> {
    let both = |fill| {
        [WritePolicy::Put, WritePolicy::Drop].map(|writes| CachingSetup {
            writes,
            ..CachingSetup::plain(fill, EvictionKind::XS3h)
        })
    };
    FILLS.into_iter().flat_map(both).collect()
}

/// Pages that leave one by one, and windows that leave whole: as disks are, and with the other admission.
fn whole() -> Vec<CachingSetup> {
    let both = |fill| {
        [WindowEviction::Pages, WindowEviction::Whole].map(|windows| CachingSetup {
            windows,
            read_ahead: ReadAhead::GROWING,
            ..CachingSetup::plain(fill, EvictionKind::XS3h)
        })
    };
    [FillPolicy::SecondMiss, FillPolicy::Miss]
        .into_iter()
        .flat_map(both)
        .collect()
}
