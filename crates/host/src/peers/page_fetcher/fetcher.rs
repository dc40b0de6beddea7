//! Fetches batches of pages: one read for each lease, and a time limit for each lender.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sublet_lend::guard::{GuardChange, GuardPolicy, GuardState, LenderGuard};
use sublet_lend::ids::PeerId;
use sublet_lend::seal::{PageNonce, PageTag, WriteSequence};
use sublet_lend::wire::{PAGE_BYTES, PAGES_MAX, PageSet};
use sublet_pace::{AdaptivePoller, PollMode, PollOutcome};
use sublet_store::AwayTicket;

use super::asked_lender::AskedLender;
use super::fetch_outcome::{FetchOutcome, GoneCause};
use super::pending_read::{PendingRead, ReadPurpose, ReadState};
use super::read_connection::{AwaitedReads, ReadConnectionEnd};
use crate::peers::lease_routes::LeaseRoutes;
use crate::peers::lender_session::LenderSession;
use crate::peers::page_ranges::page_ranges;

/// The most pages that are fetched together.
pub const FETCH_PAGES_MAX: usize = PAGES_MAX;

/// The most changes of guards that wait to be taken. Later ones are dropped.
const GUARD_CHANGES_MAX: usize = 64;

/// How a fetcher is made.
#[derive(Clone, Copy, Debug)]
pub struct FetcherSettings {
    /// The rule of the guards.
    pub guard: GuardPolicy,
    /// What a miss is expected to cost at first: a read of the disk, or [`RING_MISS`](sublet_lend::guard::RING_MISS).
    pub miss: Duration,
}

/// A thread's connections to lenders, by which it fetches the pages of one backing.
pub struct PageFetcher {
    routes: Arc<LeaseRoutes>,
    settings: FetcherSettings,
    lenders: Vec<AskedLender>,
    reads: Vec<PendingRead>,
    /// The bytes of a batch's pages, in the order of the batch's addresses.
    pages: Box<[u8]>,
    pace: AdaptivePoller,
    guard_changes: Vec<(PeerId, GuardChange)>,
}

impl PageFetcher {
    /// A fetcher without a connection. Each is opened when a lender is first asked.
    pub fn new(routes: Arc<LeaseRoutes>, settings: FetcherSettings) -> PageFetcher {
        PageFetcher {
            routes,
            settings,
            lenders: Vec::new(),
            reads: Vec::with_capacity(FETCH_PAGES_MAX),
            pages: vec![0; FETCH_PAGES_MAX * PAGE_BYTES].into(),
            pace: AdaptivePoller::default(),
            guard_changes: Vec::new(),
        }
    }

    /// Fetches pages, at most [`FETCH_PAGES_MAX`] at a time. `answer` gets the number of each ticket, once, and what
    /// became of its page. It waits no longer than the guards of the lenders allow.
    pub fn fetch(
        &mut self,
        tickets: &[AwayTicket],
        mut answer: impl FnMut(usize, FetchOutcome<'_>),
    ) {
        let batches = tickets.chunks(FETCH_PAGES_MAX).enumerate();
        for (nth, batch) in batches {
            let begin = nth * FETCH_PAGES_MAX;
            self.fetch_batch(batch, |n, outcome| answer(begin + n, outcome));
        }
    }

    /// Records that a read of the backing took `took`.
    pub fn missed(&mut self, took: Duration) {
        for at in 0..self.lenders.len() {
            let change = self.lenders[at].guard.missed(took);
            self.note(at, change);
        }
    }

    /// Takes the changes of guards since the last call.
    pub fn take_guard_changes(&mut self) -> Vec<(PeerId, GuardChange)> {
        std::mem::take(&mut self.guard_changes)
    }

    /// Whether each lender that was asked so far is asked now.
    pub fn guards(&self) -> impl Iterator<Item = (PeerId, GuardState)> {
        let lenders = self.lenders.iter();
        lenders.map(|lender| (lender.session.lender(), lender.guard.state()))
    }

    /// The sockets, for the caller's poll. When one is readable, `drain` takes what came late.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let connections = self.lenders.iter().flat_map(|lender| &lender.connection);
        connections.map(|connection| connection.awaited().0)
    }

    /// Throws away answers that came late, and notices connections that have ended. It does not wait.
    pub fn drain(&mut self) {
        self.reads.clear();
        self.exchange();
    }

    fn fetch_batch(
        &mut self,
        tickets: &[AwayTicket],
        mut answer: impl FnMut(usize, FetchOutcome<'_>),
    ) {
        let mut order = [0; FETCH_PAGES_MAX];
        let order = &mut order[..tickets.len()];
        order.iter_mut().enumerate().for_each(|(n, at)| *at = n);
        order.sort_unstable_by_key(|n| {
            let address = tickets[*n].address;
            (address.lease.0, address.index, address.place)
        });
        self.reads.clear();
        let mut begin = 0;
        let same_lease =
            |a: &usize, b: &usize| tickets[*a].address.lease == tickets[*b].address.lease;
        for of_lease in order.chunk_by(same_lease) {
            let pages = begin..begin + of_lease.len();
            begin = pages.end;
            if let Err(outcome) = self.ask(tickets, of_lease, pages) {
                of_lease.iter().for_each(|n| answer(*n, outcome));
            }
        }
        self.await_answers();
        for read in &self.reads {
            let pages = &mut self.pages;
            let opened = order[read.pages.clone()].iter().enumerate();
            for (ordinal, n) in opened {
                let bytes = &mut pages[read.bytes_at(ordinal, 0)..][..PAGE_BYTES];
                answer(*n, open_page(read, ordinal, &tickets[*n], bytes));
            }
        }
    }

    /// Asks for the pages of one lease.
    fn ask(
        &mut self,
        tickets: &[AwayTicket],
        of_lease: &[usize],
        pages: Range<usize>,
    ) -> Result<(), FetchOutcome<'static>> {
        let lease = tickets[of_lease[0]].address.lease;
        let Some(route) = self.routes.find(lease) else {
            return Err(FetchOutcome::Gone(GoneCause::LeaseEnded));
        };
        if route.session.is_over() {
            return Err(FetchOutcome::NotAsked);
        }
        let at = self.lender(&route.session);
        if !self.lenders[at].is_in(&route.session) {
            // Reads of this batch wait on a connection of the other session.
            if self.reads.iter().any(|read| read.lender == at) {
                return Err(FetchOutcome::NotAsked);
            }
            self.lenders[at].follow(&route.session);
        }
        let asked_at = Instant::now();
        let lender = &mut self.lenders[at];
        let Some(how) = lender.decide(asked_at) else {
            return Err(FetchOutcome::NotAsked);
        };
        let Some(connection) = lender.connected(asked_at) else {
            return Err(FetchOutcome::Gone(GoneCause::Unreachable));
        };
        let ranges = page_ranges(of_lease.iter().map(|n| tickets[*n].address));
        // As many requests as may wait for their answers. The lender is slow, and the page is still there.
        let Ok(request) = connection.ask(route.lease.0, &ranges) else {
            return Err(FetchOutcome::NotAsked);
        };
        self.reads.push(PendingRead {
            route,
            lender: at,
            tag: request.tag,
            pages,
            asked_at,
            deadline: asked_at + how.time_limit,
            purpose: how.purpose,
            state: ReadState::Awaited(None),
            is_counted: false,
        });
        Ok(())
    }

    /// The place of a lender in the list. There are no more lenders than members.
    fn lender(&mut self, session: &Arc<LenderSession>) -> usize {
        let is_it = |lender: &AskedLender| lender.session.lender() == session.lender();
        if let Some(at) = self.lenders.iter().position(is_it) {
            return at;
        }
        let known = self.lenders.first().map(|lender| lender.guard.backing());
        let miss = known.unwrap_or(self.settings.miss);
        let guard = LenderGuard::new(self.settings.guard, session.round_trip(), miss);
        let lender = AskedLender::new(Arc::clone(session), guard);
        self.lenders.push(lender);
        self.lenders.len() - 1
    }

    /// Waits until each read is answered or late.
    fn await_answers(&mut self) {
        // The reads must leave before anything waits.
        self.exchange();
        let mut pace = std::mem::take(&mut self.pace);
        while !self.is_settled() {
            let waited = pace.wait(|mode| {
                if mode == PollMode::Blocking {
                    self.sleep()?;
                }
                Ok::<PollOutcome, io::Error>(self.exchange())
            });
            if waited.is_err() {
                self.end_awaited(|_| true, GoneCause::Unreachable);
            }
            self.expire(Instant::now());
        }
        self.pace = pace;
    }

    fn is_settled(&self) -> bool {
        !self.reads.iter().any(PendingRead::is_awaited)
    }

    /// Sends and receives on all connections. Returns whether a read was settled by it.
    fn exchange(&mut self) -> PollOutcome {
        let awaited_before = self.awaited_count();
        for at in 0..self.lenders.len() {
            // A drain looks at all lenders, a batch at those that it awaits.
            let is_awaited = |read: &PendingRead| read.lender == at && read.is_awaited();
            if !self.reads.is_empty() && !self.reads.iter().any(is_awaited) {
                continue;
            }
            let Some(connection) = &mut self.lenders[at].connection else {
                continue;
            };
            let awaited = AwaitedReads {
                reads: &mut self.reads,
                lender: at,
                pages: &mut self.pages,
            };
            let exchanged = connection.exchange(awaited);
            let now = Instant::now();
            self.record_answers(at, now);
            if let Err(end) = exchanged {
                let cause = match end {
                    ReadConnectionEnd::Socket(_) => GoneCause::Unreachable,
                    ReadConnectionEnd::Wire(_) => GoneCause::BrokenProtocol,
                };
                self.lenders[at].disconnect(now);
                self.end_awaited(|read| read.lender == at, cause);
            }
        }
        match self.awaited_count() < awaited_before {
            true => PollOutcome::Work,
            false => PollOutcome::Nothing,
        }
    }

    fn awaited_count(&self) -> usize {
        self.reads.iter().filter(|read| read.is_awaited()).count()
    }

    /// Tells a lender's guard of the answers that have come.
    fn record_answers(&mut self, at: usize, now: Instant) {
        for n in 0..self.reads.len() {
            let read = &mut self.reads[n];
            if read.lender == at && !read.is_awaited() && !read.is_counted {
                read.is_counted = true;
                let took = now.saturating_duration_since(read.asked_at);
                let guard = &mut self.lenders[at].guard;
                let change = match read.purpose {
                    ReadPurpose::Fetch => guard.answered(took),
                    ReadPurpose::Probe => guard.pinged(took),
                };
                self.note(at, change);
            }
        }
    }

    /// Gives up the reads whose time is over, and tells the guards.
    fn expire(&mut self, now: Instant) {
        for n in 0..self.reads.len() {
            let read = &mut self.reads[n];
            if read.is_awaited() && read.deadline <= now {
                read.state = ReadState::Ended(GoneCause::Late);
                read.is_counted = true;
                let (at, limit) = (read.lender, read.deadline - read.asked_at);
                let guard = &mut self.lenders[at].guard;
                let change = match read.purpose {
                    ReadPurpose::Fetch => guard.timed_out(limit),
                    ReadPurpose::Probe => guard.pinged(limit),
                };
                self.note(at, change);
            }
        }
    }

    /// Ends awaited reads without an answer. The guards learn nothing by it.
    fn end_awaited(&mut self, is_meant: impl Fn(&PendingRead) -> bool, cause: GoneCause) {
        for read in &mut self.reads {
            if read.is_awaited() && is_meant(read) {
                read.state = ReadState::Ended(cause);
                read.is_counted = true;
            }
        }
    }

    fn note(&mut self, at: usize, change: Option<GuardChange>) {
        let lender = self.lenders[at].session.lender();
        if self.guard_changes.len() < GUARD_CHANGES_MAX {
            let change = change.map(|change| (lender, change));
            self.guard_changes.extend(change);
        }
    }

    /// Sleeps until a socket has something, or until the first read is late.
    fn sleep(&self) -> io::Result<()> {
        let awaited = || self.reads.iter().filter(|read| read.is_awaited());
        let Some(deadline) = awaited().map(|read| read.deadline).min() else {
            return Ok(());
        };
        let is_awaited = |at: usize| awaited().any(|read| read.lender == at);
        let lenders = self.lenders.iter().enumerate();
        let asked = lenders.filter(|(at, _)| is_awaited(*at));
        let connections = asked.flat_map(|(_, lender)| &lender.connection);
        let mut sockets = connections.map(|connection| {
            let (socket, events) = connection.awaited();
            PollFd::from_borrowed_fd(socket, events | PollFlags::ERR)
        });
        let Some(first) = sockets.next() else {
            return Ok(());
        };
        // A batch of one lender allocates nothing.
        let others: Vec<PollFd<'_>> = sockets.collect();
        let longest = deadline.saturating_duration_since(Instant::now());
        let longest = Timespec::try_from(longest).ok();
        let polled = match others.is_empty() {
            true => poll(&mut [first], longest.as_ref()),
            false => {
                let mut all = others;
                all.push(first);
                poll(&mut all, longest.as_ref())
            }
        };
        match polled {
            Ok(_) | Err(Errno::INTR | Errno::NOMEM | Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens the seal of a page that came, in place.
fn open_page<'p>(
    read: &PendingRead,
    ordinal: usize,
    ticket: &AwayTicket,
    bytes: &'p mut [u8],
) -> FetchOutcome<'p> {
    let pages: PageSet = match read.state {
        ReadState::Complete(pages) => pages,
        ReadState::Ended(cause) => return FetchOutcome::Gone(cause),
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
