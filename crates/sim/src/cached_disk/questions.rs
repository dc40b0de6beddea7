//! What is asked of each trace.

use sublet_store::disk::{STREAMS, Window};
use sublet_types::{EvictionKind, Fill, Windows};

use super::disk::DiskCounts;
use super::setup::{ReadAhead, Sees, Setup, Writes};

/// A figure by which setups are compared: less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Pages asked for that were neither in memory nor on their way.
    Misses,
    /// Reads that wait for such a page.
    Stalled,
    /// Microseconds that a read waits, in the mean.
    Wait,
    /// Pages read from the backing.
    BackingPages,
    /// Reads that found a part in memory and waited for the rest.
    Halved,
}

impl Figure {
    /// Of a disk's counts.
    pub fn of(self, counts: &DiskCounts) -> u64 {
        match self {
            Figure::Misses => counts.misses,
            Figure::Stalled => counts.stalled,
            Figure::Wait => counts.waited_us / counts.ios.max(1),
            Figure::BackingPages => counts.backing_pages,
            Figure::Halved => counts.halved,
        }
    }

    /// What was asked for, of which the figure is a part; its name, and the number.
    pub fn asked(self, counts: &DiskCounts) -> (&'static str, u64) {
        match self {
            Figure::Misses | Figure::BackingPages => ("pages", counts.gets),
            Figure::Stalled | Figure::Wait | Figure::Halved => ("reads", counts.ios),
        }
    }
}

/// Setups side by side, the first as the yard-stick.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is asked.
    pub title: &'static str,
    /// What is compared.
    pub figure: Figure,
    /// Of whom.
    pub setups: Vec<Setup>,
}

const FILLS: [Fill; 3] = [Fill::Miss, Fill::SecondMiss, Fill::DropOnRead];

const EVICTIONS: [EvictionKind; 4] = [
    EvictionKind::Lru,
    EvictionKind::S3Fifo,
    EvictionKind::XS3h,
    EvictionKind::AdaptiveMq,
];

/// The base of those questions that do not ask about admission.
const BASE: Setup = Setup::plain(Fill::Miss, EvictionKind::XS3h);

fn ask(title: &'static str, figure: Figure, setups: &[Setup]) -> Question {
    Question {
        title,
        figure,
        setups: setups.to_vec(),
    }
}

/// All of them.
pub fn questions() -> Vec<Question> {
    let (ahead, filtered) = (windows(), filters(BASE));
    let grown = filters(BASE_AHEAD);
    let mut questions = vec![
        ask(
            "Misses by admission and eviction, nothing read ahead",
            Figure::Misses,
            &bounded(),
        ),
        ask(
            "Misses with windows of 4 to 32 pages",
            Figure::Misses,
            &admissions(ReadAhead::GROWING),
        ),
        ask(
            "Waiting with windows of 4 to 32 pages, µs a read",
            Figure::Wait,
            &admissions(ReadAhead::GROWING),
        ),
        ask(
            "Half hits with windows of 4 to 32 pages",
            Figure::Halved,
            &admissions(ReadAhead::GROWING),
        ),
        ask(
            "Stalled reads by window and streams",
            Figure::Stalled,
            &ahead,
        ),
        ask(
            "Waiting by window and streams, µs a read",
            Figure::Wait,
            &ahead,
        ),
        ask(
            "Pages read from the backing by window and streams",
            Figure::BackingPages,
            &ahead,
        ),
        ask(
            "Misses by the sequential filter, nothing read ahead",
            Figure::Misses,
            &filtered,
        ),
        ask(
            "Stalled reads by the sequential filter, windows of 4 to 32 pages",
            Figure::Stalled,
            &grown,
        ),
        ask(
            "Misses by what becomes of written pages",
            Figure::Misses,
            &writes(),
        ),
    ];
    questions.extend(leaving());
    questions
}

/// What leaves together.
fn leaving() -> Vec<Question> {
    let whole = whole();
    vec![
        ask(
            "Stalled reads by what leaves together, windows of 4 to 32 pages",
            Figure::Stalled,
            &whole,
        ),
        ask(
            "Waiting by what leaves together, windows of 4 to 32 pages, µs a read",
            Figure::Wait,
            &whole,
        ),
        ask(
            "Half hits by what leaves together, windows of 4 to 32 pages",
            Figure::Halved,
            &whole,
        ),
    ]
}

/// As disks are, but for what is asked about.
const BASE_AHEAD: Setup = Setup {
    read_ahead: ReadAhead::GROWING,
    ..BASE
};

/// Each admission with each eviction.
fn admissions(read_ahead: ReadAhead) -> Vec<Setup> {
    let setup = |fill: Fill, eviction: EvictionKind| Setup {
        read_ahead,
        ..Setup::plain(fill, eviction)
    };
    let of_fill = |fill: Fill| EVICTIONS.map(|eviction| setup(fill, eviction));
    FILLS.into_iter().flat_map(of_fill).collect()
}

/// Each admission with each eviction, and exclusive caching that sees what the guest evicts.
fn bounded() -> Vec<Setup> {
    let bound = |eviction| Setup {
        sees: Sees::Evictions,
        ..Setup::plain(Fill::DropOnRead, eviction)
    };
    let mut setups = admissions(ReadAhead::NONE);
    setups.extend(EVICTIONS.map(bound));
    setups
}

/// Nothing, windows of 8, and growing windows, each for one reader and for many.
fn windows() -> Vec<Setup> {
    let ahead = |streams, window| Setup {
        read_ahead: ReadAhead { streams, window },
        ..BASE
    };
    let (eight, growing) = (Window::fixed(8), Window::DEFAULT);
    vec![
        BASE,
        ahead(1, eight),
        ahead(STREAMS, eight),
        ahead(1, growing),
        ahead(STREAMS, growing),
    ]
}

/// The sequential filter off, and at three lengths.
fn filters(base: Setup) -> Vec<Setup> {
    let lengths = [None, Some(256), Some(32), Some(4)];
    let setup = |sequential_max| Setup {
        sequential_max,
        ..base
    };
    lengths.map(setup).to_vec()
}

/// Written pages kept and dropped, by each admission.
fn writes() -> Vec<Setup> {
    let both = |fill| {
        [Writes::Put, Writes::Drop].map(|writes| Setup {
            writes,
            ..Setup::plain(fill, EvictionKind::XS3h)
        })
    };
    FILLS.into_iter().flat_map(both).collect()
}

/// Pages that leave one by one, and windows that leave whole, as disks are and with the other admission.
fn whole() -> Vec<Setup> {
    let both = |fill| {
        [Windows::Pages, Windows::Whole].map(|windows| Setup {
            windows,
            read_ahead: ReadAhead::GROWING,
            ..Setup::plain(fill, EvictionKind::XS3h)
        })
    };
    [Fill::SecondMiss, Fill::Miss]
        .into_iter()
        .flat_map(both)
        .collect()
}
