//! Pages that other hosts keep, as a frontend's thread gets them.

use std::ops::Range;
use std::sync::Arc;

use sublet_store::AwayTicket;

/// The most pages that are fetched at once.
pub const FAR_PAGES_MAX: usize = 64;

/// Fetches pages from lenders, for one thread.
pub trait FetchFarPages {
    /// Fetches pages, at most [`FAR_PAGES_MAX`]. It waits as long as the lenders are worth waiting for.
    fn fetch(&mut self, tickets: &[AwayTicket]);

    /// Gives the pages of the last fetch to `visit`: the number of each ticket, once, with its page if that came.
    fn take(&mut self, visit: &mut dyn FnMut(usize, Option<&[u8]>));
}

/// Makes a fetcher for each thread.
pub type FarPagesFactory = Arc<dyn Fn() -> Box<dyn FetchFarPages> + Send + Sync>;

/// Gets of one thread that wait for lenders, at most those of one batch. It is used again and again, so that no get
/// allocates one.
pub(crate) struct FarGets {
    source: Box<dyn FetchFarPages>,
    /// The gets' numbers in their batch.
    numbers: Vec<usize>,
    tickets: Vec<AwayTicket>,
    /// The gets that were fetched last. Those before were taken, and those behind wait.
    fetched: Range<usize>,
}

impl FarGets {
    /// Gets that wait for nothing.
    pub(crate) fn new(source: Box<dyn FetchFarPages>) -> FarGets {
        FarGets {
            source,
            numbers: Vec::with_capacity(FAR_PAGES_MAX),
            tickets: Vec::with_capacity(FAR_PAGES_MAX),
            fetched: 0..0,
        }
    }

    /// Forgets all gets.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.tickets.clear();
        self.fetched = 0..0;
    }

    /// Adds a get.
    pub(crate) fn push(&mut self, number: usize, ticket: AwayTicket) {
        self.numbers.push(number);
        self.tickets.push(ticket);
    }

    /// Returns whether there are gets that were not fetched yet.
    pub(crate) fn are_waiting(&self) -> bool {
        self.fetched.end < self.tickets.len()
    }

    /// Fetches the pages of the next gets, as many as are fetched at once.
    pub(crate) fn fetch_some(&mut self) {
        let begin = self.fetched.end;
        self.fetched = begin..self.tickets.len().min(begin + FAR_PAGES_MAX);
        self.source.fetch(&self.tickets[self.fetched.clone()]);
    }

    /// Gives the number of each get that was fetched last, its ticket, and its page if that came.
    pub(crate) fn take(&mut self, mut visit: impl FnMut(usize, &AwayTicket, Option<&[u8]>)) {
        let numbers = &self.numbers[self.fetched.clone()];
        let tickets = &self.tickets[self.fetched.clone()];
        self.source
            .take(&mut |n, page| visit(numbers[n], &tickets[n], page));
    }
}
