//! Pages of a disk that are fetched together.

use std::ops::Range;

use sublet_store::AwayTicket;

/// Pages that are fetched together, and what became of them. It is used again and again, so that no read allocates one.
#[derive(Default)]
pub(super) struct FarFetch {
    pub(super) pages: Vec<u64>,
    pub(super) tickets: Vec<AwayTicket>,
    pub(super) missing: Vec<u64>,
}

impl FarFetch {
    /// Runs of pages that did not come.
    pub(super) fn missing_runs(&self) -> impl Iterator<Item = Range<u64>> {
        let neighbours = self.missing.chunk_by(|page, next| page + 1 == *next);
        neighbours.map(|run| run[0]..run[run.len() - 1] + 1)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.pages.clear();
        self.tickets.clear();
        self.missing.clear();
    }

    pub(super) fn push(&mut self, page: u64, ticket: AwayTicket) {
        self.pages.push(page);
        self.tickets.push(ticket);
    }
}
