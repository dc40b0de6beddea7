//! Pages that other hosts keep, as a frontend's thread gets them.

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

/// Gets of one thread that wait for lenders. It is used again and again, so that no get allocates one.
pub(crate) struct FarGets {
    source: Box<dyn FetchFarPages>,
    /// The gets' numbers in their batch.
    numbers: Vec<usize>,
    tickets: Vec<AwayTicket>,
}

impl FarGets {
    /// Gets that wait for nothing.
    pub(crate) fn new(source: Box<dyn FetchFarPages>) -> FarGets {
        FarGets {
            source,
            numbers: Vec::with_capacity(FAR_PAGES_MAX),
            tickets: Vec::with_capacity(FAR_PAGES_MAX),
        }
    }

    /// Forgets all gets.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.tickets.clear();
    }

    /// Returns whether no get waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Adds a get, unless there are as many as are fetched at once. Returns whether it was added.
    pub(crate) fn push(&mut self, number: usize, ticket: AwayTicket) -> bool {
        let has_room = self.tickets.len() < FAR_PAGES_MAX;
        if has_room {
            self.numbers.push(number);
            self.tickets.push(ticket);
        }
        has_room
    }

    /// Fetches the pages of all gets.
    pub(crate) fn fetch(&mut self) {
        self.source.fetch(&self.tickets);
    }

    /// Gives each get's number, its ticket, and its page if that came.
    pub(crate) fn take(&mut self, mut visit: impl FnMut(usize, &AwayTicket, Option<&[u8]>)) {
        let (numbers, tickets) = (&self.numbers, &self.tickets);
        self.source
            .take(&mut |n, page| visit(numbers[n], &tickets[n], page));
    }
}
