//! Which pages a disk keeps in memory, of those that it read from its backing.
//!
//! A disk never hears what its client evicts. It can keep whatever passes through (`miss`), what is missed a second
//! time and so was missed in vain (`second-miss`), or what the client has not read from memory yet (`drop-on-read`).
//! Besides, runs can be kept out past their first pages (PUMA's filter).
//!
//! ```text
//!               asked for                                     read ahead
//!   miss          kept                                          kept
//!   second-miss   not, a ghost;  a ghost of it: kept            once;  a ghost of it: kept
//!   drop-on-read  once                                          once
//!   past the filter's length, each: not                         once
//! ```
//!
//! *Once* is until it is read from memory. One verdict holds for all pages that come by one read, so that the next
//! such read does not find half of them.

use std::ops::Range;

use sublet_types::Fill;

use super::streams::{STREAMS, Window};
use crate::eviction::Ghosts;

/// How long a page that came from the backing stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Until it is evicted.
    Kept,
    /// Until it is read from memory, if it is not evicted before.
    Once,
    /// It is not put at all, or leaves now.
    Not,
}

/// How pages come from the backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// Somebody asked for them.
    Asked,
    /// Somebody is expected to.
    Ahead,
}

/// How a disk admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Which pages are kept.
    pub fill: Fill,
    /// Pages of a sequential run that are kept, at the most; `None` for all.
    pub sequential_max: Option<u32>,
    /// Missed pages that are remembered, four bytes each; of use for [`Fill::SecondMiss`] only.
    pub ghosts: usize,
    /// What makes hashes differ from disk to disk.
    pub seed: u64,
}

/// Pages that came ahead and are to leave when they are read: two of the longest windows for each stream. Of
/// more, the oldest stay until they are evicted.
const VISITORS_MAX: usize = STREAMS * 2 * Window::DEFAULT.most as usize;

/// The admission of one disk.
#[derive(Debug)]
pub struct Admission {
    fill: Fill,
    sequential_max: u64,
    /// Pages that were missed and not kept.
    missed: Ghosts,
    /// Pages in memory that leave when they are read.
    visitors: Ghosts,
    seed: u64,
}

impl Admission {
    /// An admission that has seen nothing. Allocates all that it will ever use.
    pub fn new(settings: &AdmissionSettings) -> Admission {
        let mut admission = Admission {
            fill: settings.fill,
            sequential_max: settings.sequential_max.map_or(u64::MAX, u64::from),
            missed: Ghosts::default(),
            visitors: Ghosts::default(),
            seed: settings.seed,
        };
        let remembers = settings.fill == Fill::SecondMiss;
        if remembers {
            admission.missed.make_place(settings.ghosts);
        }
        if remembers || settings.sequential_max.is_some() {
            admission.visitors.make_place(VISITORS_MAX);
        }
        admission
    }

    /// Whether a get should leave a page in memory: what the disk's pool is made with (`PoolFlags::keeping`). An
    /// exclusive pool's eviction learns from what was read, a flush teaches it nothing.
    pub fn keeps_what_is_read(&self) -> bool {
        self.fill != Fill::DropOnRead
    }

    /// How long `pages`, which came by one read, stay. `position` is the first one's place in its run, from 0: see
    /// [`Advice::run`](super::Advice::run).
    pub fn came(&mut self, pages: Range<u64>, position: u64, coming: Coming) -> Stay {
        let stay = match position < self.sequential_max {
            true => self.by_fill(pages.clone(), coming),
            false => passing(coming),
        };
        if self.visitors.bytes() > 0 {
            pages.for_each(|page| self.visit(page, stay));
        }
        stay
    }

    /// How long a page stays that was just read from memory, at this place of a run: kept or not.
    pub fn was_read(&mut self, page: u64, position: u64) -> Stay {
        if self.fill == Fill::DropOnRead {
            return Stay::Not;
        }
        let hash = self.hash(page);
        if self.visitors.recall(hash).is_none() {
            return Stay::Kept;
        }
        if self.fill == Fill::SecondMiss && position < self.sequential_max {
            self.missed.remember(hash, 0);
        }
        Stay::Not
    }

    /// Bytes that it takes beside itself.
    pub fn bytes(&self) -> u64 {
        self.missed.bytes() + self.visitors.bytes()
    }

    fn by_fill(&mut self, pages: Range<u64>, coming: Coming) -> Stay {
        match self.fill {
            Fill::Miss => Stay::Kept,
            Fill::SecondMiss => self.by_misses(pages, coming),
            Fill::DropOnRead => Stay::Once,
        }
    }

    fn by_misses(&mut self, pages: Range<u64>, coming: Coming) -> Stay {
        if self.recall_any(pages.clone()) {
            return Stay::Kept;
        }
        if coming == Coming::Asked {
            pages.for_each(|page| self.missed.remember(self.hash(page), 0));
        }
        passing(coming)
    }

    /// Takes the ghosts of these pages; says whether there was one.
    fn recall_any(&mut self, pages: Range<u64>) -> bool {
        let recalled = pages.filter(|page| self.missed.recall(self.hash(*page)).is_some());
        recalled.count() > 0
    }

    /// Enters a page among those that leave when they are read, or forgets that it was one.
    fn visit(&mut self, page: u64, stay: Stay) {
        let hash = self.hash(page);
        self.visitors.recall(hash);
        if stay == Stay::Once && self.keeps_what_is_read() {
            self.visitors.remember(hash, 0);
        }
    }

    /// splitmix64 (Steele et al. 2014): ghosts are told apart by their upper bits.
    fn hash(&self, page: u64) -> u64 {
        let mut hash = (page ^ self.seed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }
}

/// What becomes of pages that are not to be kept: who expects them must find them once.
fn passing(coming: Coming) -> Stay {
    match coming {
        Coming::Asked => Stay::Not,
        Coming::Ahead => Stay::Once,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn admission(fill: Fill, sequential_max: Option<u32>) -> Admission {
        Admission::new(&AdmissionSettings {
            fill,
            sequential_max,
            ghosts: 1000,
            seed: 7,
        })
    }

    #[test]
    fn all_that_is_missed_is_kept() {
        let mut admission = admission(Fill::Miss, None);
        assert_eq!(admission.came(3..5, 0, Coming::Asked), Stay::Kept);
        assert_eq!(admission.came(5..9, 2, Coming::Ahead), Stay::Kept);
        assert_eq!(admission.was_read(5, 2), Stay::Kept);
        assert!(admission.keeps_what_is_read() && admission.bytes() == 0);
    }

    #[test]
    fn a_page_enters_on_its_second_miss_and_takes_its_read_with_it() {
        let mut admission = admission(Fill::SecondMiss, None);
        assert_eq!(admission.came(3..5, 0, Coming::Asked), Stay::Not);
        assert_eq!(admission.came(4..8, 0, Coming::Asked), Stay::Kept);
        assert_eq!(
            admission.came(4..8, 0, Coming::Asked),
            Stay::Not,
            "its ghost is spent"
        );
        assert_eq!(admission.came(3..4, 0, Coming::Asked), Stay::Kept);
        assert_eq!(admission.was_read(3, 0), Stay::Kept);
    }

    #[test]
    fn what_was_read_ahead_is_there_once_and_missed_once_then() {
        let mut admission = admission(Fill::SecondMiss, None);
        assert_eq!(admission.came(3..5, 0, Coming::Ahead), Stay::Once);
        assert_eq!(admission.was_read(3, 0), Stay::Not);
        assert_eq!(admission.came(3..4, 0, Coming::Asked), Stay::Kept);
        assert_eq!(
            admission.came(4..5, 0, Coming::Asked),
            Stay::Not,
            "it was never read"
        );
    }

    #[test]
    fn a_page_that_is_kept_at_last_is_no_visitor_any_more() {
        let mut admission = admission(Fill::SecondMiss, None);
        assert_eq!(admission.came(3..4, 0, Coming::Ahead), Stay::Once);
        // It was evicted before anybody read it, and missed twice.
        assert_eq!(admission.came(3..4, 0, Coming::Asked), Stay::Not);
        assert_eq!(admission.came(3..4, 0, Coming::Asked), Stay::Kept);
        assert_eq!(admission.was_read(3, 0), Stay::Kept);
    }

    #[test]
    fn a_page_is_dropped_when_it_is_read() {
        let mut admission = admission(Fill::DropOnRead, None);
        assert_eq!(admission.came(3..5, 0, Coming::Asked), Stay::Once);
        assert_eq!(admission.was_read(3, 0), Stay::Not);
        assert_eq!(admission.came(3..4, 0, Coming::Asked), Stay::Once);
        assert!(!admission.keeps_what_is_read() && admission.bytes() == 0);
    }

    #[test]
    fn a_run_is_kept_up_to_the_filters_length() {
        for fill in [Fill::Miss, Fill::SecondMiss, Fill::DropOnRead] {
            let mut admission = admission(fill, Some(4));
            let first = admission.came(0..2, 3, Coming::Asked);
            assert_eq!(first != Stay::Not, fill != Fill::SecondMiss);
            assert_eq!(admission.came(8..10, 4, Coming::Asked), Stay::Not);
            assert_eq!(
                admission.came(8..10, 4, Coming::Asked),
                Stay::Not,
                "no ghost"
            );
            assert_eq!(admission.came(8..10, 4, Coming::Ahead), Stay::Once);
            assert_eq!(admission.was_read(8, 4), Stay::Not);
        }
    }

    fn coming() -> impl Strategy<Value = Coming> {
        prop_oneof![Just(Coming::Asked), Just(Coming::Ahead)]
    }

    proptest! {
        /// Nothing is kept at its first miss, everything at its second; and nothing is allocated on the way.
        #[test]
        fn the_second_miss_admits(
            reads in prop::collection::vec((0u64..60, 1u64..6, 0u64..10, coming()), 1..200),
        ) {
            let mut admission = admission(Fill::SecondMiss, Some(8));
            let bytes = admission.bytes();
            let mut ghosts = std::collections::HashSet::new();
            for (first, pages, position, coming) in reads {
                let pages = first..first + pages;
                let stay = admission.came(pages.clone(), position, coming);
                let known = position < 8 && pages.clone().filter(|page| ghosts.remove(page)).count() > 0;
                prop_assert_eq!(stay == Stay::Kept, known);
                if position < 8 && !known && coming == Coming::Asked {
                    ghosts.extend(pages);
                }
                prop_assert_eq!(admission.bytes(), bytes, "it allocated");
            }
        }
    }
}
