//! A read that was sent to a lender, from one batch of pages.

use std::ops::Range;
use std::time::Instant;

use sublet_lend::wire::{Answer, MessageTag, PAGE_BYTES, PageSet};

use super::fetch_outcome::{FetchOutcome, GoneCause};
use crate::peers::lease_routes::LeaseRoute;

/// A read of pages of one lease.
pub(super) struct PendingRead {
    pub(super) route: LeaseRoute,
    /// The lender's number in the fetcher's list.
    pub(super) lender: usize,
    pub(super) tag: MessageTag,
    /// Its pages in the batch.
    pub(super) ranks: Range<usize>,
    pub(super) asked_at: Instant,
    pub(super) deadline: Instant,
    pub(super) purpose: ReadPurpose,
    pub(super) state: ReadState,
    /// Whether the lender's guard has nothing more to learn of it.
    pub(super) guard_is_done: bool,
}

/// Why the lender is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadPurpose {
    /// It is quick enough.
    Fetch,
    /// The read is a ping, too. While the guard is shut, it tells whether the lender is quick again.
    Probe,
}

/// How far a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadState {
    /// The lender has not answered.
    Awaited,
    /// The lender has the pages of the set, and not all have come.
    Arriving(PageSet),
    /// The pages of the set have come.
    Complete(PageSet),
    /// It ended without pages.
    Ended(FetchOutcome<'static>),
}

impl PendingRead {
    /// Returns whether its answer, or a page of it, is still awaited.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.state, ReadState::Awaited | ReadState::Arriving(_))
    }

    /// Records what the lender says.
    pub(super) fn answered(&mut self, answer: Answer) {
        self.state = match answer {
            Answer::Pages(pages) => ReadState::Arriving(pages),
            Answer::LeaseGone => ReadState::Ended(FetchOutcome::Gone(GoneCause::LeaseEnded)),
            Answer::Busy => ReadState::Ended(FetchOutcome::Gone(GoneCause::Busy)),
            Answer::Refused => ReadState::Ended(FetchOutcome::Gone(GoneCause::Refused)),
        };
    }

    /// Records that all pages of the answer have come.
    pub(super) fn completed(&mut self) {
        if let ReadState::Arriving(pages) = self.state {
            self.state = ReadState::Complete(pages);
        }
    }

    /// Where the bytes of a page of the message belong in the batch.
    pub(super) fn bytes_at(&self, ordinal: usize, offset: usize) -> usize {
        (self.ranks.start + ordinal) * PAGE_BYTES + offset
    }
}
