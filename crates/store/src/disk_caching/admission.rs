//! Decides which pages that a disk read from its backing stay in memory.
//!
//! A disk never learns what its client evicts. It has three policies:
//!
//! - `miss` keeps whatever passes through.
//! - `second-miss` keeps what is missed a second time, and so was missed in vain.
//! - `drop-on-read` keeps what the client has not read from memory yet.
//!
//! Besides, the pages of a run past its first ones can be kept out (PUMA's filter). Those that are put all the same are
//! marked as parts of the run, and never go to a lender.
//!
//! ```text
//!               asked for                                     read ahead
//!   miss          kept                                          kept
//!   second-miss   not, a ghost;  a ghost of it: kept            once;  a ghost of it: kept
//!   drop-on-read  once                                          once
//!   past the filter's length, each: not                         once
//! ```
//!
//! *Once* means until the page is read from memory. One verdict holds for all pages that come by one read, so that the
//! next such read does not find half of them.

use std::ops::Range;

use sublet_types::FillPolicy;

use super::streams::{ReadAheadWindow, STREAMS};
use crate::api::AccessPattern;
use crate::eviction::Ghosts;

/// How long a page that came from the backing stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Until it is evicted.
    Kept,
    /// Until it is read from memory, or evicted before that.
    Once,
    /// It is not put at all, or it leaves now.
    Dropped,
}

/// Why pages are read from the backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadCause {
    /// The client asked for them.
    Demand,
    /// The client is expected to ask for them.
    ReadAhead,
}

/// How a disk admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Which pages are kept.
    pub fill: FillPolicy,
    /// The most pages of a sequential run that are kept. `None` keeps all.
    pub sequential_max: Option<u32>,
    /// Missed pages that are remembered, at four bytes each. Only [`FillPolicy::SecondMiss`] uses them.
    /// [`GHOSTS_PER_PAGE`] for each page that memory may hold are enough.
    pub ghosts: usize,
    /// A seed that makes hashes differ from disk to disk.
    pub seed: u64,
}

/// Missed pages to remember per page of memory. With one there are up to a tenth more misses; ten gain nothing
/// (`docs/decisions/2026-11-22-disk-admission.md`).
pub const GHOSTS_PER_PAGE: usize = 3;

/// Pages that were read ahead and leave when they are read: two of the longest windows per stream. Beyond that, the
/// oldest stay until they are evicted.
const VISITORS_MAX: usize = STREAMS * 2 * ReadAheadWindow::DEFAULT.most as usize;

/// From this place of its run on, a page counts as part of a sequential run, at the latest. From there on the backing is
/// read ahead in the longest windows, so it is as fast as it ever is, and a lender could not spare the client anything.
pub const SEQUENTIAL_FROM: u64 = ReadAheadWindow::DEFAULT.most as u64;

/// The admission of one disk.
#[derive(Debug)]
pub struct Admission {
    fill: FillPolicy,
    sequential_max: u64,
    /// Pages that were missed and not kept.
    missed: Ghosts,
    /// Pages in memory that leave when they are read.
    visitors: Ghosts,
    seed: u64,
}

impl Admission {
    /// An admission that has seen nothing. It allocates all that it will ever use.
    pub fn new(settings: &AdmissionSettings) -> Admission {
        let mut admission = Admission {
            fill: settings.fill,
            sequential_max: settings.sequential_max.map_or(u64::MAX, u64::from),
            missed: Ghosts::default(),
            visitors: Ghosts::default(),
            seed: settings.seed,
        };
        let remembers = settings.fill == FillPolicy::SecondMiss;
        if remembers {
            admission.missed.make_place(settings.ghosts);
        }
        if remembers || settings.sequential_max.is_some() {
            admission.visitors.make_place(VISITORS_MAX);
        }
        admission
    }

    /// Returns whether a get should leave a page in memory. The disk's pool is made with this (`PoolFlags::keeping`).
    /// The eviction of an exclusive pool learns from reads; a flush teaches it nothing.
    pub fn keeps_what_is_read(&self) -> bool {
        self.fill != FillPolicy::DropOnRead
    }

    /// How long `pages`, which came by one read, stay. `position` is the first page's place in its run, from 0 (see
    /// [`ReadAdvice::run`](super::ReadAdvice::run)).
    pub fn admit(&mut self, pages: Range<u64>, position: u64, coming: ReadCause) -> Retention {
        let stay = match position < self.sequential_max {
            true => self.by_fill(pages.clone(), coming),
            false => unkept_retention(coming),
        };
        if self.visitors.bytes() > 0 {
            pages.for_each(|page| self.mark_visitor(page, stay));
        }
        stay
    }

    /// The pattern with which pages are put that came by one read. `position` is as for [`admit`](Admission::admit).
    pub fn pattern(&self, position: u64) -> AccessPattern {
        match position < self.sequential_max.min(SEQUENTIAL_FROM) {
            true => AccessPattern::Random,
            false => AccessPattern::Sequential,
        }
    }

    /// How long a page stays that was just read from memory, at this place of a run: kept or not.
    pub fn record_hit(&mut self, page: u64, position: u64) -> Retention {
        if self.fill == FillPolicy::DropOnRead {
            return Retention::Dropped;
        }
        let hash = self.hash(page);
        if self.visitors.recall(hash).is_none() {
            return Retention::Kept;
        }
        if self.fill == FillPolicy::SecondMiss && position < self.sequential_max {
            self.missed.remember(hash, 0);
        }
        Retention::Dropped
    }

    /// Bytes that it takes beyond its own size.
    pub fn bytes(&self) -> u64 {
        self.missed.bytes() + self.visitors.bytes()
    }

    fn by_fill(&mut self, pages: Range<u64>, coming: ReadCause) -> Retention {
        match self.fill {
            FillPolicy::Miss => Retention::Kept,
            FillPolicy::SecondMiss => self.by_misses(pages, coming),
            FillPolicy::DropOnRead => Retention::Once,
        }
    }

    fn by_misses(&mut self, pages: Range<u64>, coming: ReadCause) -> Retention {
        if self.recall_any(pages.clone()) {
            return Retention::Kept;
        }
        if coming == ReadCause::Demand {
            pages.for_each(|page| self.missed.remember(self.hash(page), 0));
        }
        unkept_retention(coming)
    }

    /// Removes the ghosts of these pages. Returns whether there was one.
    fn recall_any(&mut self, pages: Range<u64>) -> bool {
        let recalled = pages.filter(|page| self.missed.recall(self.hash(*page)).is_some());
        recalled.count() > 0
    }

    /// Marks a page as one that leaves when it is read, or removes the mark.
    fn mark_visitor(&mut self, page: u64, stay: Retention) {
        let hash = self.hash(page);
        self.visitors.recall(hash);
        if stay == Retention::Once && self.keeps_what_is_read() {
            self.visitors.remember(hash, 0);
        }
    }

    /// splitmix64 (Steele et al. 2014). The upper bits of the hash distinguish ghosts.
    fn hash(&self, page: u64) -> u64 {
        let mut hash = (page ^ self.seed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }
}

/// The retention of pages that are not to be kept. A client that is expected to ask for them must find them once.
fn unkept_retention(coming: ReadCause) -> Retention {
    match coming {
        ReadCause::Demand => Retention::Dropped,
        ReadCause::ReadAhead => Retention::Once,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn admission(fill: FillPolicy, sequential_max: Option<u32>) -> Admission {
        Admission::new(&AdmissionSettings {
            fill,
            sequential_max,
            ghosts: 1000,
            seed: 7,
        })
    }

    #[test]
    fn all_that_is_missed_is_kept() {
        let mut admission = admission(FillPolicy::Miss, None);
        assert_eq!(admission.admit(3..5, 0, ReadCause::Demand), Retention::Kept);
        assert_eq!(
            admission.admit(5..9, 2, ReadCause::ReadAhead),
            Retention::Kept
        );
        assert_eq!(admission.record_hit(5, 2), Retention::Kept);
        assert!(admission.keeps_what_is_read() && admission.bytes() == 0);
    }

    #[test]
    fn a_page_enters_on_its_second_miss_and_takes_its_read_with_it() {
        let mut admission = admission(FillPolicy::SecondMiss, None);
        assert_eq!(
            admission.admit(3..5, 0, ReadCause::Demand),
            Retention::Dropped
        );
        assert_eq!(admission.admit(4..8, 0, ReadCause::Demand), Retention::Kept);
        assert_eq!(
            admission.admit(4..8, 0, ReadCause::Demand),
            Retention::Dropped,
            "its ghost is spent"
        );
        assert_eq!(admission.admit(3..4, 0, ReadCause::Demand), Retention::Kept);
        assert_eq!(admission.record_hit(3, 0), Retention::Kept);
    }

    #[test]
    fn what_was_read_ahead_is_there_once_and_missed_once_then() {
        let mut admission = admission(FillPolicy::SecondMiss, None);
        assert_eq!(
            admission.admit(3..5, 0, ReadCause::ReadAhead),
            Retention::Once
        );
        assert_eq!(admission.record_hit(3, 0), Retention::Dropped);
        assert_eq!(admission.admit(3..4, 0, ReadCause::Demand), Retention::Kept);
        assert_eq!(
            admission.admit(4..5, 0, ReadCause::Demand),
            Retention::Dropped,
            "it was never read"
        );
    }

    #[test]
    fn a_page_that_is_kept_at_last_is_no_visitor_any_more() {
        let mut admission = admission(FillPolicy::SecondMiss, None);
        assert_eq!(
            admission.admit(3..4, 0, ReadCause::ReadAhead),
            Retention::Once
        );
        // It was evicted before anybody read it, and missed twice.
        assert_eq!(
            admission.admit(3..4, 0, ReadCause::Demand),
            Retention::Dropped
        );
        assert_eq!(admission.admit(3..4, 0, ReadCause::Demand), Retention::Kept);
        assert_eq!(admission.record_hit(3, 0), Retention::Kept);
    }

    #[test]
    fn a_page_is_dropped_when_it_is_read() {
        let mut admission = admission(FillPolicy::DropOnRead, None);
        assert_eq!(admission.admit(3..5, 0, ReadCause::Demand), Retention::Once);
        assert_eq!(admission.record_hit(3, 0), Retention::Dropped);
        assert_eq!(admission.admit(3..4, 0, ReadCause::Demand), Retention::Once);
        assert!(!admission.keeps_what_is_read() && admission.bytes() == 0);
    }

    #[test]
    fn a_run_is_kept_up_to_the_filters_length() {
        for fill in [
            FillPolicy::Miss,
            FillPolicy::SecondMiss,
            FillPolicy::DropOnRead,
        ] {
            let mut admission = admission(fill, Some(4));
            let first = admission.admit(0..2, 3, ReadCause::Demand);
            assert_eq!(first != Retention::Dropped, fill != FillPolicy::SecondMiss);
            assert_eq!(
                admission.admit(8..10, 4, ReadCause::Demand),
                Retention::Dropped
            );
            assert_eq!(
                admission.admit(8..10, 4, ReadCause::Demand),
                Retention::Dropped,
                "no ghost"
            );
            assert_eq!(
                admission.admit(8..10, 4, ReadCause::ReadAhead),
                Retention::Once
            );
            assert_eq!(admission.record_hit(8, 4), Retention::Dropped);
        }
    }

    #[test]
    fn a_run_is_sequential_past_its_first_window_or_past_the_filter() {
        use AccessPattern::{Random, Sequential};
        for (filter, position, pattern) in [
            (None, 0, Random),
            (None, 31, Random),
            (None, 32, Sequential),
            (None, u64::MAX, Sequential),
            (Some(4), 3, Random),
            (Some(4), 4, Sequential),
            (Some(1000), 31, Random),
            (Some(1000), 32, Sequential),
        ] {
            let admission = admission(FillPolicy::Miss, filter);
            let got = admission.pattern(position);
            assert_eq!(got, pattern, "{filter:?} at {position}");
        }
    }

    fn coming() -> impl Strategy<Value = ReadCause> {
        prop_oneof![Just(ReadCause::Demand), Just(ReadCause::ReadAhead)]
    }

    proptest! {
        /// Nothing is kept at its first miss and everything at its second. Nothing is allocated on the way.
        #[test]
        fn the_second_miss_admits(
            reads in prop::collection::vec((0u64..60, 1u64..6, 0u64..10, coming()), 1..200),
        ) {
            let mut admission = admission(FillPolicy::SecondMiss, Some(8));
            let bytes = admission.bytes();
            let mut ghosts = std::collections::HashSet::new();
            for (first, pages, position, coming) in reads {
                let pages = first..first + pages;
                let stay = admission.admit(pages.clone(), position, coming);
                let known = position < 8 && pages.clone().filter(|page| ghosts.remove(page)).count() > 0;
                prop_assert_eq!(stay == Retention::Kept, known);
                if position < 8 && !known && coming == ReadCause::Demand {
                    ghosts.extend(pages);
                }
                prop_assert_eq!(admission.bytes(), bytes, "it allocated");
            }
        }
    }
}
