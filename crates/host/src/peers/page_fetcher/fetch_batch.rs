//! Pages that are fetched together: what was asked, and where their bytes arrive.

use std::ops::Range;

use sublet_lend::seal::{PageNonce, PageTag, WriteSequence};
use sublet_lend::wire::{PAGE_BYTES, PAGES_MAX};
use sublet_store::{AwayTicket, LeaseSlot};

use super::fetch_outcome::{FetchOutcome, GoneCause};
use super::pending_read::{PendingRead, ReadState};

/// The most pages that are fetched together.
pub const FETCH_PAGES_MAX: usize = PAGES_MAX;

/// The number of a batch that is fetched, until it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchId(pub(super) usize);

/// Pages that are fetched together, or a place for such. Its memory is kept for the next ones.
#[derive(Default)]
pub(super) struct FetchBatch {
    tickets: Vec<AwayTicket>,
    /// Places in `tickets`, in the order of their addresses.
    order: Vec<usize>,
    /// One read for each lease.
    pub(super) reads: Vec<PendingRead>,
    /// Places in `tickets` of pages that no lender was asked for, and the place of the lender that has them.
    unasked: Vec<(usize, Option<usize>, FetchOutcome<'static>)>,
    /// The pages' bytes, in the order of their addresses.
    pub(super) pages: Vec<u8>,
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
        if self.pages.len() < bytes {
            self.pages.resize(bytes, 0);
        }
    }

    /// The number of its pages.
    pub(super) fn len(&self) -> usize {
        self.tickets.len()
    }

    /// The ticket of a page, by its place in the order of addresses.
    pub(super) fn ticket(&self, place: usize) -> &AwayTicket {
        &self.tickets[self.order[place]]
    }

    /// The pages of one lease, from `begin` on in the order of addresses. `None` if `begin` is the end.
    pub(super) fn of_lease(&self, begin: usize) -> Option<(LeaseSlot, Range<usize>)> {
        let lease = self
            .order
            .get(begin)
            .map(|n| self.tickets[*n].address.lease)?;
        let same =
            (begin..self.len()).take_while(|place| self.ticket(*place).address.lease == lease);
        Some((lease, begin..begin + same.count()))
    }

    /// Records that no lender is asked for these pages.
    pub(super) fn leave_unasked(
        &mut self,
        places: Range<usize>,
        lender: Option<usize>,
        outcome: FetchOutcome<'static>,
    ) {
        let of_places = self.order[places].iter();
        self.unasked
            .extend(of_places.map(|n| (*n, lender, outcome)));
    }

    /// Returns whether each read is answered or late.
    pub(super) fn is_settled(&self) -> bool {
        !self.reads.iter().any(PendingRead::is_awaited)
    }

    /// Says what became of each page and at which lender, and frees the place.
    pub(super) fn take(&mut self, mut answer: impl FnMut(usize, Option<usize>, FetchOutcome<'_>)) {
        self.is_used = false;
        for (n, lender, outcome) in &self.unasked {
            answer(*n, *lender, *outcome);
        }
        for read in &self.reads {
            for (ordinal, n) in self.order[read.pages.clone()].iter().enumerate() {
                let bytes = &mut self.pages[read.bytes_at(ordinal, 0)..][..PAGE_BYTES];
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
        ReadState::Awaited(_) => return FetchOutcome::Gone(GoneCause::Late),
    };
    if !pages.contains(ordinal) {
        return FetchOutcome::Gone(GoneCause::Absent);
    }
    let nonce = PageNonce {
        index: ticket.address.index,
        place: ticket.address.place,
        sequence: WriteSequence(ticket.seal.sequence),
    };
    let page = bytes.first_chunk_mut().expect("a page of the batch");
    match read.route.key.open(nonce, PageTag(ticket.seal.tag.0), page) {
        Ok(()) => FetchOutcome::Page(page),
        Err(_) => FetchOutcome::Gone(GoneCause::Forged),
    }
}
