//! Serves single requests from lent blocks. Each page is copied once.

use std::sync::Arc;

use sublet_frontends::tenancy::Clock;
use sublet_lend::ids::{LeaseId, PeerId, SessionId};
use sublet_lend::lender::LoanLookup;
use sublet_lend::wire::{
    ANSWER_BYTES, Answer, LenderChannel, LentPage, PAGE_BYTES, PageRequest, PageSet, PageSpan,
};
use sublet_store::Worker;

use super::control_queries::FindLentBlocks;
use super::server_figures::ServerCounters;

/// What a thread serves requests from.
pub(super) struct PageService {
    worker: Worker,
    clock: Clock,
    blocks: Arc<dyn FindLentBlocks>,
    counters: Arc<ServerCounters>,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedSession {
    pub(super) peer: PeerId,
    pub(super) session: SessionId,
}

/// A write whose pages arrive.
pub(super) struct ArrivingWrite {
    lease: LeaseId,
    taken: PageSet,
    is_refused: bool,
    /// The index that was looked up last, and what it stands for.
    found: Option<(u32, LoanLookup)>,
    /// The beginning of a page whose end has not arrived.
    partial: Box<[u8]>,
}

impl ArrivingWrite {
    /// A place for writes, without one.
    pub(super) fn new() -> ArrivingWrite {
        ArrivingWrite {
            lease: LeaseId(0),
            taken: PageSet::default(),
            is_refused: false,
            found: None,
            partial: vec![0; PAGE_BYTES].into(),
        }
    }

    /// Begins a write.
    pub(super) fn begin(&mut self, request: PageRequest) {
        self.lease = LeaseId(request.lease);
        self.taken = PageSet::default();
        self.is_refused = false;
        self.found = None;
    }
}

impl PageService {
    /// A service of one thread, with a worker of that thread.
    pub(super) fn new(
        worker: Worker,
        clock: Clock,
        blocks: Arc<dyn FindLentBlocks>,
        counters: Arc<ServerCounters>,
    ) -> PageService {
        PageService {
            worker,
            clock,
            blocks,
            counters,
        }
    }

    /// The counters of all threads.
    pub(super) fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// Answers a read. Its answer and its pages are appended to `out`. Returns the number of pages.
    pub(super) fn read(
        &self,
        from: ServedSession,
        request: PageRequest,
        channel: &mut LenderChannel,
        out: &mut Vec<u8>,
    ) -> usize {
        let begins = out.len();
        out.reserve(ANSWER_BYTES + request.pages * PAGE_BYTES);
        out.resize(begins + ANSWER_BYTES, 0);
        let answer = match self.append_pages(from, request, channel, out) {
            Some(present) => Answer::Pages(present),
            None => {
                out.truncate(begins + ANSWER_BYTES);
                Answer::Refused
            }
        };
        let head = answer_to(channel, answer);
        out[begins..begins + ANSWER_BYTES].copy_from_slice(&head);
        let present = answer.pages().len();
        let counters = self.counters.of(from.peer);
        ServerCounters::add(&counters.pages_read, present);
        match answer {
            Answer::Refused => ServerCounters::add(&counters.requests_refused, 1),
            _ => ServerCounters::add(&counters.pages_absent, request.pages - present),
        }
        present
    }

    /// Appends the pages that are here. `None` if the borrower asks for what it was never lent.
    fn append_pages(
        &self,
        from: ServedSession,
        request: PageRequest,
        channel: &LenderChannel,
        out: &mut Vec<u8>,
    ) -> Option<PageSet> {
        let (mut present, mut ordinal) = (PageSet::default(), 0);
        let now = self.clock.now();
        for range in channel.ranges().ranges() {
            let block = match self.find(from, LeaseId(request.lease), range.index()) {
                LoanLookup::Foreign => return None,
                LoanLookup::Gone => {
                    ordinal += usize::from(range.count());
                    continue;
                }
                LoanLookup::Lent(block) => block,
            };
            self.worker.pinned(|| {
                for place in range.place()..range.place() + range.count() {
                    let append = |page: &[u8]| out.extend_from_slice(page);
                    if self.worker.read_lent(block, place, now, append) {
                        present.insert(ordinal);
                    }
                    ordinal += 1;
                }
            });
        }
        Some(present)
    }

    fn find(&self, from: ServedSession, lease: LeaseId, index: u32) -> LoanLookup {
        self.blocks.find(from.peer, from.session, lease, index)
    }

    /// Takes bytes of a page that a borrower writes. The page is written when all of it has arrived.
    pub(super) fn take_page_bytes(
        &self,
        from: ServedSession,
        write: &mut ArrivingWrite,
        page: LentPage,
        span: PageSpan,
        bytes: &[u8],
    ) {
        let end = span.offset + span.len;
        if span.len == PAGE_BYTES {
            self.write_page(from, write, page, span.ordinal, bytes);
            return;
        }
        write.partial[span.offset..end].copy_from_slice(bytes);
        if end == PAGE_BYTES {
            let whole = std::mem::take(&mut write.partial);
            self.write_page(from, write, page, span.ordinal, &whole);
            write.partial = whole;
        }
    }

    fn write_page(
        &self,
        from: ServedSession,
        write: &mut ArrivingWrite,
        page: LentPage,
        ordinal: usize,
        bytes: &[u8],
    ) {
        let lookup = match write.found {
            Some((index, lookup)) if index == page.index => lookup,
            _ => self.find(from, write.lease, page.index),
        };
        write.found = Some((page.index, lookup));
        match lookup {
            LoanLookup::Foreign => write.is_refused = true,
            LoanLookup::Gone => {}
            LoanLookup::Lent(block) => {
                let fill = |place: &mut [u8]| place.copy_from_slice(bytes);
                if self.worker.write_lent(block, page.place, fill) {
                    write.taken.insert(ordinal);
                }
            }
        }
    }

    /// Answers a write whose pages have all arrived. The answer is appended to `out`.
    pub(super) fn end_write(
        &self,
        from: ServedSession,
        write: &ArrivingWrite,
        channel: &mut LenderChannel,
        out: &mut Vec<u8>,
    ) {
        let answer = match write.is_refused {
            true => Answer::Refused,
            false => Answer::Pages(write.taken),
        };
        out.extend_from_slice(&answer_to(channel, answer));
        let counters = self.counters.of(from.peer);
        ServerCounters::add(&counters.pages_written, write.taken.len());
        if write.is_refused {
            ServerCounters::add(&counters.requests_refused, 1);
        }
    }
}

fn answer_to(channel: &mut LenderChannel, answer: Answer) -> [u8; ANSWER_BYTES] {
    let head = channel.answer(answer);
    head.expect("the request is complete, and each page of the answer is one of its pages")
}
