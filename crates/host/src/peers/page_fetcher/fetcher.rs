//! Fetches batches of pages: one read for each lease, and a time limit for each lender.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use sublet_lend::guard::{GuardPolicy, LenderGuard};
use sublet_lend::wire::READS_IN_FLIGHT_MAX;
use sublet_pace::{AdaptivePoller, PollMode, PollOutcome};
use sublet_store::{AwayTicket, LeaseSlot, PageSending};

use super::asked_lender::AskedLender;
use super::fetch_batch::{FETCH_PAGES_MAX, FetchBatch, FetchId, Unasked};
use super::fetch_ledger::FetchLedger;
use super::fetch_outcome::{FetchOutcome, GoneCause};
use super::pending_read::{PendingRead, ReadPurpose, ReadState};
use super::read_connection::{AwaitedReads, ReadConnectionEnd};
use crate::peers::lease_routes::LeaseRoutes;
use crate::peers::lender_session::LenderSession;
use crate::peers::outgoing_socket::poll_sockets;
use crate::peers::page_faults::PageFault;
use crate::peers::page_ranges::page_ranges;

/// The most batches that are fetched side by side.
pub const FETCHES_MAX: usize = READS_IN_FLIGHT_MAX;

/// What a thread knows of the lenders' sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketReadiness {
    /// One of them has something, as the thread's wait said.
    Ready,
    /// None has anything, as the thread's wait said.
    NotReady,
    /// The thread has not waited.
    Unknown,
}

/// How a fetcher is made.
#[derive(Clone, Debug)]
pub struct FetcherSettings {
    /// The rule of the guards.
    pub guard: GuardPolicy,
    /// What a miss is expected to cost at first: a read of the disk, or [`RING_MISS`](sublet_lend::guard::RING_MISS).
    pub miss: Duration,
    /// The backing from which a miss is read: a disk's name, or `rings`.
    pub backing: Arc<str>,
}

/// A thread's connections to lenders, by which it fetches the pages of one backing.
///
/// A thread calls [`begin`](PageFetcher::begin), and [`take`](PageFetcher::take) when the batch is settled. If it may
/// wait, it calls [`wait`](PageFetcher::wait) in between. Otherwise it calls [`poll`](PageFetcher::poll) whenever a socket
/// is ready or time is up. [`fetch`](PageFetcher::fetch) does all of it for tests and benches.
pub struct PageFetcher {
    routes: Arc<LeaseRoutes>,
    ledger: Arc<FetchLedger>,
    settings: FetcherSettings,
    lenders: Vec<AskedLender>,
    batches: Vec<FetchBatch>,
    pace: AdaptivePoller,
}

impl Drop for PageFetcher {
    fn drop(&mut self) {
        for lender in &self.lenders {
            self.ledger.close(&lender.tally);
        }
    }
}

impl PageFetcher {
    /// A fetcher without a connection. Each is opened when a lender is first asked.
    pub fn new(
        routes: Arc<LeaseRoutes>,
        ledger: Arc<FetchLedger>,
        settings: FetcherSettings,
    ) -> PageFetcher {
        PageFetcher {
            routes,
            ledger,
            settings,
            lenders: Vec::new(),
            batches: Vec::new(),
            pace: AdaptivePoller::default(),
        }
    }

    /// Fetches pages, at most [`FETCH_PAGES_MAX`] at a time. `answer` gets the number of each ticket, once, and what
    /// became of its page. It waits no longer than the guards of the lenders allow.
    pub fn fetch(
        &mut self,
        tickets: &[AwayTicket],
        mut answer: impl FnMut(usize, FetchOutcome<'_>),
    ) {
        for (nth, part) in tickets.chunks(FETCH_PAGES_MAX).enumerate() {
            let before = nth * FETCH_PAGES_MAX;
            match self.begin(part) {
                Some(batch) => {
                    self.wait(batch);
                    self.take(batch, |n, outcome| answer(before + n, outcome));
                }
                None => (0..part.len()).for_each(|n| answer(before + n, FetchOutcome::NotAsked)),
            }
        }
    }

    /// Begins to fetch pages, at most [`FETCH_PAGES_MAX`]. `None` if [`FETCHES_MAX`] batches are fetched already. The next
    /// [`wait`](PageFetcher::wait) or [`poll`](PageFetcher::poll) sends what was asked, for several batches at once.
    pub fn begin(&mut self, tickets: &[AwayTicket]) -> Option<FetchId> {
        debug_assert!(tickets.len() <= FETCH_PAGES_MAX, "one message has room");
        let free = self.batches.iter().position(|batch| !batch.is_used);
        let id = free.unwrap_or(self.batches.len());
        if id == FETCHES_MAX {
            return None;
        }
        if free.is_none() {
            self.batches.push(FetchBatch::default());
        }
        self.batches[id].begin(tickets);
        let mut begin = 0;
        while let Some((lease, ranks)) = self.batches[id].of_lease(begin) {
            begin = ranks.end;
            if let Err(unasked) = self.ask(id, lease, ranks) {
                self.batches[id].unasked.push(unasked);
            }
        }
        Some(FetchId(id))
    }

    /// Returns whether what became of each page of a batch is known.
    pub fn is_settled(&self, batch: FetchId) -> bool {
        self.batches[batch.0].is_settled()
    }

    /// Waits until what became of each page of a batch is known. That lasts no longer than the guards allow.
    pub fn wait(&mut self, batch: FetchId) {
        // The reads must leave before anything waits.
        self.exchange(SocketReadiness::NotReady);
        let mut pace = std::mem::take(&mut self.pace);
        while !self.is_settled(batch) {
            let waited = pace.wait(|mode| {
                if mode == PollMode::Blocking {
                    self.sleep()?;
                }
                Ok::<PollOutcome, io::Error>(self.exchange(SocketReadiness::Unknown))
            });
            if waited.is_err() {
                for at in 0..self.lenders.len() {
                    self.end_awaited(at, FetchOutcome::Gone(GoneCause::Unreachable));
                }
            }
            self.expire(Instant::now());
        }
        self.pace = pace;
    }

    /// Says what became of each page of a batch that is settled, and ends it. Pages that are still awaited count as
    /// late.
    pub fn take(&mut self, batch: FetchId, mut answer: impl FnMut(usize, FetchOutcome<'_>)) {
        let (lenders, ledger) = (&self.lenders, &self.ledger);
        self.batches[batch.0].take(|n, lender, outcome| {
            if let Some(lender) = lender {
                lenders[lender].count(ledger, outcome);
            }
            answer(n, outcome);
        });
    }

    /// Sends and receives without waiting, and gives up what is late. Returns when the next read is late, if one is
    /// awaited.
    pub fn poll(&mut self, sockets: SocketReadiness) -> Option<Instant> {
        self.exchange(sockets);
        self.expire(Instant::now());
        let awaited = self.reads().filter(|read| read.is_awaited());
        awaited.map(|read| read.deadline).min()
    }

    /// The sockets for the caller's own wait, each with what to wait for. [`poll`](PageFetcher::poll) follows.
    pub fn sockets(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let connections = self.lenders.iter().flat_map(|lender| &lender.connection);
        connections.map(|connection| connection.awaited())
    }

    /// Returns whether pages may be sent to lenders: to none if all are too slow for this backing.
    pub fn sending(&self, now: Instant) -> PageSending {
        let is_worth = |lender: &AskedLender| lender.is_worth_sending(now);
        match self.lenders.is_empty() || self.lenders.iter().any(is_worth) {
            true => PageSending::Allowed,
            false => PageSending::Paused,
        }
    }

    /// Records that a read of the backing took `took`.
    pub fn missed(&mut self, took: Duration) {
        for lender in &mut self.lenders {
            let change = lender.guard.missed(took);
            lender.show_guard(&self.ledger, change);
        }
    }

    /// Asks for the pages of one lease.
    fn ask(&mut self, batch: usize, lease: LeaseSlot, ranks: Range<usize>) -> Result<(), Unasked> {
        let unasked = |lender: Option<usize>, outcome: FetchOutcome<'static>| Unasked {
            ranks: ranks.clone(),
            lender,
            outcome,
        };
        let Some(route) = self.routes.find(lease) else {
            return Err(unasked(None, FetchOutcome::Gone(GoneCause::LeaseEnded)));
        };
        let at = self.lender(&route.session);
        if route.session.is_over() {
            return Err(unasked(Some(at), FetchOutcome::NotAsked));
        }
        if !self.lenders[at].is_in(&route.session) {
            self.lenders[at].follow(&route.session);
            self.end_awaited(at, FetchOutcome::NotAsked);
        }
        let asked_at = Instant::now();
        let lender = &mut self.lenders[at];
        let Some(how) = lender.decide(asked_at) else {
            return Err(unasked(Some(at), FetchOutcome::NotAsked));
        };
        // Nothing was sent, and the page is still there.
        let Some(connection) = lender.connected(asked_at) else {
            return Err(unasked(Some(at), FetchOutcome::NotAsked));
        };
        let batch = &mut self.batches[batch];
        let ranges = page_ranges(ranks.clone().map(|rank| batch.ticket(rank).address));
        // As many requests as may wait for their answers. The lender is slow, and the page is still there.
        let Ok(request) = connection.ask(route.lease.0, &ranges) else {
            return Err(unasked(Some(at), FetchOutcome::NotAsked));
        };
        batch.reads.push(PendingRead {
            route,
            lender: at,
            tag: request.tag,
            ranks,
            asked_at,
            deadline: asked_at + how.time_limit,
            purpose: how.purpose,
            state: ReadState::Awaited,
            guard_is_done: false,
        });
        Ok(())
    }

    /// The number of a lender in the list. There are no more lenders than members.
    fn lender(&mut self, session: &Arc<LenderSession>) -> usize {
        let is_it = |lender: &AskedLender| lender.session.lender() == session.lender();
        if let Some(at) = self.lenders.iter().position(is_it) {
            return at;
        }
        let known = self.lenders.first().map(|lender| lender.guard.backing());
        let miss = known.unwrap_or(self.settings.miss);
        let guard = LenderGuard::new(self.settings.guard, session.round_trip(), miss);
        let tally = self.ledger.open(session.lender(), &self.settings.backing);
        let lender = AskedLender::new(Arc::clone(session), guard, tally);
        self.lenders.push(lender);
        self.lenders.len() - 1
    }

    fn reads(&self) -> impl Iterator<Item = &PendingRead> {
        self.batches.iter().flat_map(|batch| &batch.reads)
    }

    fn awaited_count(&self) -> usize {
        self.reads().filter(|read| read.is_awaited()).count()
    }

    /// Sends and receives on all connections as far as that may be of use. Returns whether a read was settled by it.
    fn exchange(&mut self, sockets: SocketReadiness) -> PollOutcome {
        let awaited_before = self.awaited_count();
        for at in 0..self.lenders.len() {
            let Some(connection) = &mut self.lenders[at].connection else {
                continue;
            };
            let awaited = AwaitedReads {
                batches: &mut self.batches,
                lender: at,
            };
            let receives = match sockets {
                SocketReadiness::Ready => true,
                SocketReadiness::NotReady => false,
                SocketReadiness::Unknown => awaited.are_there(),
            };
            let exchanged = match receives {
                true => connection.exchange(awaited),
                false => connection.send(),
            };
            let was_let_in = connection.was_let_in();
            let now = Instant::now();
            self.record_answers(at, now);
            if let Err(end) = exchanged {
                let outcome = match end {
                    // A lender that did not let it in, or that is away, was asked nothing.
                    ReadConnectionEnd::Socket(_) if !was_let_in => FetchOutcome::NotAsked,
                    ReadConnectionEnd::Socket(_) => FetchOutcome::Gone(GoneCause::Unreachable),
                    ReadConnectionEnd::Wire(_) => {
                        self.lenders[at].broke_protocol(&self.ledger);
                        FetchOutcome::Gone(GoneCause::BrokenProtocol)
                    }
                };
                self.lenders[at].disconnect(now);
                self.end_awaited(at, outcome);
            }
        }
        match self.awaited_count() < awaited_before {
            true => PollOutcome::Work,
            false => PollOutcome::Nothing,
        }
    }

    /// Tells a lender's guard of the answers that have come.
    fn record_answers(&mut self, at: usize, now: Instant) {
        let reads = self.batches.iter_mut().flat_map(|batch| &mut batch.reads);
        let new =
            reads.filter(|read| read.lender == at && !read.is_awaited() && !read.guard_is_done);
        let lender = &mut self.lenders[at];
        for read in new {
            read.guard_is_done = true;
            let took = now.saturating_duration_since(read.asked_at);
            let change = match read.purpose {
                ReadPurpose::Fetch => lender.guard.answered(took),
                ReadPurpose::Probe => lender.guard.pinged(took),
            };
            lender.show_guard(&self.ledger, change);
            if read.state == ReadState::Ended(FetchOutcome::Gone(GoneCause::Refused)) {
                lender.report(&self.ledger, PageFault::ReadRefused);
            }
        }
    }

    /// Gives up the reads whose time is over, and tells the guards.
    fn expire(&mut self, now: Instant) {
        let reads = self.batches.iter_mut().flat_map(|batch| &mut batch.reads);
        for read in reads.filter(|read| read.is_awaited() && read.deadline <= now) {
            read.state = ReadState::Ended(FetchOutcome::Gone(GoneCause::Late));
            read.guard_is_done = true;
            let limit = read.deadline - read.asked_at;
            let lender = &mut self.lenders[read.lender];
            let change = match read.purpose {
                ReadPurpose::Fetch => lender.guard.timed_out(limit),
                ReadPurpose::Probe => lender.guard.ping_timed_out(limit),
            };
            lender.show_guard(&self.ledger, change);
        }
    }

    /// Ends a lender's awaited reads without an answer. Its guard learns nothing by it.
    fn end_awaited(&mut self, lender: usize, outcome: FetchOutcome<'static>) {
        let reads = self.batches.iter_mut().flat_map(|batch| &mut batch.reads);
        for read in reads.filter(|read| read.is_awaited() && read.lender == lender) {
            read.state = ReadState::Ended(outcome);
            read.guard_is_done = true;
        }
    }

    /// Sleeps until a socket has something, or until the first read is late.
    fn sleep(&self) -> io::Result<()> {
        let awaited = || self.reads().filter(|read| read.is_awaited());
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
        match others.is_empty() {
            true => poll_sockets(&mut [first], Some(longest)),
            false => {
                let mut all = others;
                all.push(first);
                poll_sockets(&mut all, Some(longest))
            }
        }
    }
}
