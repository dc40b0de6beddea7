//! Pages that are fetched together: what was asked, and where their bytes arrive.

use std::ops::Range;

use sublet_lend::wire::{PAGE_BYTES, PAGES_MAX};
use sublet_store::{AwayTicket, LeaseSlot};

use super::fetch_outcome::{FetchOutcome, GoneCause};
use super::pending_read::{PendingRead, ReadState};
use crate::peers::lease_routes::LeaseRoute;

/// The most pages that are fetched together.
pub const FETCH_PAGES_MAX: usize = PAGES_MAX;

/// The number of a batch that is fetched, until it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchId(pub(super) usize);

/// Pages of a batch that no lender was asked for.
pub(super) struct Unasked {
    pub(super) ranks: Range<usize>,
    /// The number of the lender that has them, if it is known.
    pub(super) lender: Option<usize>,
    /// What becomes of them.
    pub(super) outcome: FetchOutcome<'static>,
}

/// Pages that are fetched together, or a place for such. Its memory is kept for the next ones.
#[derive(Default)]
pub(super) struct FetchBatch {
    tickets: Vec<AwayTicket>,
    /// The numbers of the tickets in the order of their addresses. A page's rank is its place here.
    order: Vec<usize>,
    /// One read for each lease.
    pub(super) reads: Vec<PendingRead>,
    pub(super) unasked: Vec<Unasked>,
    /// The pages' bytes, by rank.
    pub(super) bytes: Vec<u8>,
    pub(super) is_used: bool,
}

impl FetchBatch {
    /// Begins another batch in the place of the one before.
    pub(super) fn begin(&mut self, tickets: &[AwayTicket]) {
        self.is_used = true;
        self.tickets.clear();
        self.tickets.extend_from_slice(tickets);
        self.order.clear();
        self.order.extend(0..tickets.len());
        self.order.sort_unstable_by_key(|n| {
            let address = tickets[*n].address;
            (address.lease.0, address.index, address.place)
        });
        self.reads.clear();
        self.unasked.clear();
        let bytes = tickets.len() * PAGE_BYTES;
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
    }

    /// The number of its pages.
    pub(super) fn len(&self) -> usize {
        self.tickets.len()
    }

    /// The ticket of a page.
    pub(super) fn ticket(&self, rank: usize) -> &AwayTicket {
        &self.tickets[self.order[rank]]
    }

    /// The ranks of the pages of one lease, from `begin` on. `None` if `begin` is the end.
    pub(super) fn of_lease(&self, begin: usize) -> Option<(LeaseSlot, Range<usize>)> {
        let lease_of = |rank: usize| self.ticket(rank).address.lease;
        let lease = (begin < self.len()).then(|| lease_of(begin))?;
        let same = (begin..self.len()).take_while(|rank| lease_of(*rank) == lease);
        Some((lease, begin..begin + same.count()))
    }

    /// Returns whether each read is answered or late.
    pub(super) fn is_settled(&self) -> bool {
        !self.reads.iter().any(PendingRead::is_awaited)
    }

    /// Says what became of each page and at which lender, and frees the place.
    pub(super) fn take(&mut self, mut answer: impl FnMut(usize, Option<usize>, FetchOutcome<'_>)) {
        self.is_used = false;
        for unasked in &self.unasked {
            for n in &self.order[unasked.ranks.clone()] {
                answer(*n, unasked.lender, unasked.outcome);
            }
        }
        for read in &self.reads {
            for (ordinal, n) in self.order[read.ranks.clone()].iter().enumerate() {
                let bytes = &mut self.bytes[read.bytes_at(ordinal, 0)..][..PAGE_BYTES];
                let outcome = open_page(read, ordinal, &self.tickets[*n], bytes);
                answer(*n, Some(read.lender), outcome);
            }
        }
        self.reads.clear();
    }
}

/// Opens the seal of a page that came, in place.
fn open_page<'p>(
    read: &PendingRead,
    ordinal: usize,
    ticket: &AwayTicket,
    bytes: &'p mut [u8],
) -> FetchOutcome<'p> {
    let pages = match read.state {
        ReadState::Complete(pages) => pages,
        ReadState::Ended(outcome) => return outcome,
        ReadState::Awaited | ReadState::Arriving(_) => return FetchOutcome::Gone(GoneCause::Late),
    };
    if !pages.contains(ordinal) {
        return FetchOutcome::Gone(GoneCause::Absent);
    }
    let page = bytes.first_chunk_mut().expect("a page of the batch");
    match read.route.open(ticket, page) {
        Ok(()) => FetchOutcome::Page(page),
        Err(_) => FetchOutcome::Gone(cause_of_wrong_seal(&read.route, ticket)),
    }
}

/// Why the seal of a page was wrong. A lender is blamed only if it must have this version, and no other can have come.
fn cause_of_wrong_seal(route: &LeaseRoute, ticket: &AwayTicket) -> GoneCause {
    let was_overtaken = !route.tickets.is_current(ticket);
    match was_overtaken || route.lost_writes.excuse(ticket.address) {
        true => GoneCause::Overwritten,
        false => GoneCause::Forged,
    }
}
