//! Pages of a lender, as the daemon's fetcher reads them.

use std::rc::Rc;
use std::time::{Duration, Instant};

use sublet_host::peers::page_fetcher::{FetchOutcome, GoneCause, PageFetcher};
use sublet_store::AwayTicket;

use super::borrower_store::BorrowerStore;
use super::error::LendBenchError;
use super::fetch_pages::{FetchPages, FetchedPages};
use super::test_page::TestPage;

/// What a miss costs, for the guard. It is so much that the guard never shuts.
const MISS: Duration = Duration::from_secs(10);

/// When the clock stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchEnd {
    /// When the seals of the pages are opened, as the daemon needs it.
    Opened,
    /// When the pages are here. Their seals are opened after that.
    Received,
}

/// Pages that a lender has, with their tickets.
pub(super) struct BorrowedPages {
    pages: Rc<[(TestPage, AwayTicket)]>,
    fetcher: PageFetcher,
    end: FetchEnd,
    tickets: Vec<AwayTicket>,
}

/// The tickets of those of the pages that the lender has.
pub(super) fn tickets(
    borrower: &BorrowerStore,
    pages: u32,
) -> Result<Rc<[(TestPage, AwayTicket)]>, LendBenchError> {
    /// One page in this many may have stayed here, or be lost.
    const MISSING_ONE_IN: usize = 4;
    let ticket = |page: TestPage| Some((page, borrower.ticket(page)?));
    let away: Rc<[_]> = (0..pages).map(TestPage).filter_map(ticket).collect();
    match away.len() + pages as usize / MISSING_ONE_IN < pages as usize {
        true => Err(LendBenchError::FewPages(away.len())),
        false => Ok(away),
    }
}

/// A fetcher of a borrower's pages.
pub(super) fn fetcher(borrower: &BorrowerStore) -> PageFetcher {
    borrower.far.fetcher("bench", MISS)
}

impl BorrowedPages {
    /// A fetcher of its own for these pages.
    pub(super) fn new(
        borrower: &BorrowerStore,
        pages: &Rc<[(TestPage, AwayTicket)]>,
        end: FetchEnd,
    ) -> BorrowedPages {
        BorrowedPages {
            pages: Rc::clone(pages),
            fetcher: fetcher(borrower),
            end,
            tickets: Vec::new(),
        }
    }
}

impl FetchPages for BorrowedPages {
    fn len(&self) -> usize {
        self.pages.len()
    }

    fn fetch(&mut self, places: &[usize]) -> Result<FetchedPages, LendBenchError> {
        self.tickets.clear();
        let tickets = places.iter().map(|place| self.pages[*place].1);
        self.tickets.extend(tickets);
        let began = Instant::now();
        let Some(batch) = self.fetcher.begin(&self.tickets) else {
            return Err(LendBenchError::NotAsked);
        };
        self.fetcher.wait(batch);
        let received = began.elapsed();
        let (mut late, mut wrong) = (0, None);
        self.fetcher.take(batch, |n, fetched| match fetched {
            FetchOutcome::Page(bytes) if self.pages[places[n]].0.begins(bytes) => {}
            FetchOutcome::Page(_) => wrong = Some(LendBenchError::WrongPage("the lender")),
            FetchOutcome::Gone(GoneCause::Late) => late += 1,
            FetchOutcome::Gone(cause) => wrong = Some(LendBenchError::Gone(cause)),
            FetchOutcome::NotAsked => wrong = Some(LendBenchError::NotAsked),
        });
        let took = match self.end {
            FetchEnd::Opened => began.elapsed(),
            FetchEnd::Received => received,
        };
        wrong.map_or(Ok(FetchedPages { took, late }), Err)
    }
}
