//! What all fetchers of a host have done, and what of it others must hear.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sublet_lend::guard::{GuardChange, GuardState, LenderGuard};
use sublet_lend::ids::PeerId;

use super::fetch_outcome::{FetchOutcome, GoneCause};
use crate::peers::page_faults::{LIES_IN_A_ROW_MAX, PageFaults};

/// The most pieces of news that wait to be taken. Later ones are dropped.
const NEWS_MAX: usize = 256;

/// What fetchers have done, lender by lender and backing by backing.
#[derive(Debug, Default)]
pub struct FetchLedger {
    tallies: Mutex<Vec<Arc<LenderTally>>>,
    /// What fetchers did that are no more.
    past: Mutex<BTreeMap<PeerId, FetchFigures>>,
    news: Mutex<Vec<FetchNews>>,
    /// What peers do wrong on page connections, those of lenders and those of borrowers.
    faults: Arc<PageFaults>,
}

/// Something that others must hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchNews {
    /// A guard was shut or opened.
    Guard {
        /// The lender.
        lender: PeerId,
        /// The backing whose misses the lender spares.
        backing: Arc<str>,
        /// What changed.
        change: GuardChange,
    },
    /// Several times in a row, a lender gave a page that is not the one that was sealed, or broke the protocol.
    Forger {
        /// The lender.
        lender: PeerId,
    },
}

/// What was fetched of a lender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchFigures {
    /// Pages that came.
    pub pages: u64,
    /// Pages for which the lender was not asked.
    pub not_asked: u64,
    /// Pages that did not come, in the order of [`GoneCause::ALL`].
    pub gone: [u64; GoneCause::ALL.len()],
}

impl FetchFigures {
    /// Pages that did not come, for all causes.
    pub fn lost(&self) -> u64 {
        self.gone.iter().sum()
    }
}

impl AddAssign for FetchFigures {
    fn add_assign(&mut self, other: FetchFigures) {
        self.pages += other.pages;
        self.not_asked += other.not_asked;
        let both = self.gone.iter_mut().zip(other.gone);
        both.for_each(|(sum, more)| *sum += more);
    }
}

/// A guard, as it stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardFigures {
    /// The lender.
    pub lender: PeerId,
    /// The backing whose misses the lender spares: a disk's name, or `rings`.
    pub backing: Arc<str>,
    /// Whether the lender is asked.
    pub state: GuardState,
    /// What a request to the lender takes.
    pub far: Duration,
    /// What a miss costs.
    pub miss: Duration,
}

impl FetchLedger {
    /// A tally of one fetcher and one lender.
    pub(super) fn open(&self, lender: PeerId, backing: &Arc<str>) -> Arc<LenderTally> {
        let tally = Arc::new(LenderTally::new(lender, Arc::clone(backing)));
        self.tallies.lock().push(Arc::clone(&tally));
        tally
    }

    /// Ends a tally of a fetcher that is no more. What it did still counts.
    pub(super) fn close(&self, tally: &Arc<LenderTally>) {
        let mut tallies = self.tallies.lock();
        tallies.retain(|other| !Arc::ptr_eq(other, tally));
        let mut past = self.past.lock();
        *past.entry(tally.lender).or_default() += tally.figures();
    }

    /// What was fetched of each lender since the start.
    pub fn figures(&self) -> BTreeMap<PeerId, FetchFigures> {
        let tallies = self.tallies.lock();
        let mut figures = self.past.lock().clone();
        for tally in tallies.iter() {
            *figures.entry(tally.lender).or_default() += tally.figures();
        }
        figures
    }

    /// Every guard.
    pub fn guards(&self) -> Vec<GuardFigures> {
        let tallies = self.tallies.lock();
        tallies.iter().map(|tally| tally.guard()).collect()
    }

    /// What happened since the last call.
    pub fn take_news(&self) -> Vec<FetchNews> {
        let mut news = std::mem::take(&mut *self.news.lock());
        let liars = self.faults.take_liars().into_iter();
        news.extend(liars.map(|lender| FetchNews::Forger { lender }));
        news
    }

    /// Where all threads that serve page connections report what peers do wrong.
    pub fn faults(&self) -> &Arc<PageFaults> {
        &self.faults
    }

    pub(super) fn post(&self, news: FetchNews) {
        let mut waiting = self.news.lock();
        if waiting.len() < NEWS_MAX {
            waiting.push(news);
        }
    }
}

/// What one fetcher did with one lender. Its thread counts, and others look.
#[derive(Debug)]
pub(super) struct LenderTally {
    lender: PeerId,
    backing: Arc<str>,
    pages: AtomicU64,
    not_asked: AtomicU64,
    gone: [AtomicU64; GoneCause::ALL.len()],
    is_shut: AtomicBool,
    far_nanos: AtomicU64,
    miss_nanos: AtomicU64,
    /// Forged pages and broken protocols since the last true page.
    lies_in_a_row: AtomicU64,
}

impl LenderTally {
    fn new(lender: PeerId, backing: Arc<str>) -> LenderTally {
        LenderTally {
            lender,
            backing,
            pages: AtomicU64::new(0),
            not_asked: AtomicU64::new(0),
            gone: Default::default(),
            is_shut: AtomicBool::new(false),
            far_nanos: AtomicU64::new(0),
            miss_nanos: AtomicU64::new(0),
            lies_in_a_row: AtomicU64::new(0),
        }
    }

    /// Counts what became of a page. Returns whether the lender has lied so often in a row that others must hear it.
    pub(super) fn count(&self, outcome: FetchOutcome<'_>) -> bool {
        match outcome {
            FetchOutcome::Page(_) => {
                bump(&self.pages);
                self.lies_in_a_row.store(0, Ordering::Relaxed);
            }
            FetchOutcome::NotAsked => bump(&self.not_asked),
            FetchOutcome::Gone(cause) => {
                bump(&self.gone[cause as usize]);
                return cause == GoneCause::Forged && self.count_lie();
            }
        }
        false
    }

    /// Counts a forged page, or that the lender broke the protocol. Returns whether others must hear it.
    pub(super) fn count_lie(&self) -> bool {
        bump(&self.lies_in_a_row);
        self.lies_in_a_row.load(Ordering::Relaxed) >= LIES_IN_A_ROW_MAX
    }

    /// Shows a guard to others.
    pub(super) fn show(&self, guard: &LenderGuard) {
        let is_shut = guard.state() == GuardState::Shut;
        self.is_shut.store(is_shut, Ordering::Relaxed);
        self.far_nanos.store(nanos(guard.far()), Ordering::Relaxed);
        self.miss_nanos
            .store(nanos(guard.backing()), Ordering::Relaxed);
    }

    /// The news that the guard has changed.
    pub(super) fn guard_news(&self, change: GuardChange) -> FetchNews {
        FetchNews::Guard {
            lender: self.lender,
            backing: Arc::clone(&self.backing),
            change,
        }
    }

    fn figures(&self) -> FetchFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FetchFigures {
            pages: read(&self.pages),
            not_asked: read(&self.not_asked),
            gone: std::array::from_fn(|cause| read(&self.gone[cause])),
        }
    }

    fn guard(&self) -> GuardFigures {
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        GuardFigures {
            lender: self.lender,
            backing: Arc::clone(&self.backing),
            state: match self.is_shut.load(Ordering::Relaxed) {
                false => GuardState::Open,
                true => GuardState::Shut,
            },
            far: time(&self.far_nanos),
            miss: time(&self.miss_nanos),
        }
    }
}

/// Adds one. Only one thread counts, so that nothing is locked.
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_liar_is_news_as_long_as_it_lies_however_much_news_waits() {
        let (ledger, lender) = (FetchLedger::default(), PeerId(3));
        let tally = ledger.open(lender, &"disk".into());
        let (far, backing) = (Duration::from_millis(2), Duration::from_millis(1));
        for _ in 0..2 * NEWS_MAX {
            ledger.post(tally.guard_news(GuardChange::Shut { far, backing }));
        }
        let forged = FetchOutcome::Gone(GoneCause::Forged);
        let is_liar: Vec<_> = (0..5).map(|_| tally.count(forged)).collect();
        assert_eq!(is_liar, [false, false, true, true, true]);
        ledger.faults().report_liar(lender);
        ledger.faults().report_liar(lender);
        let news = ledger.take_news();
        assert_eq!(news.len(), NEWS_MAX + 1);
        assert_eq!(news.last(), Some(&FetchNews::Forger { lender }));
        assert_eq!(ledger.take_news(), []);
        tally.count(FetchOutcome::Page(&[]));
        assert!(!tally.count(forged));
    }
}
