//! A thread of the page server. Of what is ready, reads go first, and at most one write goes between two looks. When the
//! budget is spent, the rest waits, and a write that had no turn has the next one.

#[cfg(test)]
mod tests;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use sublet_lend::ids::SessionId;
use sublet_lend::wire::PAGE_BYTES;
use sublet_pace::{AdaptivePoller, PollMode, PollOutcome, PollRule};

use super::control_queries::AdmitConnections;
use super::due_connections::{DueConnections, QueuedConnection};
use super::inbox::{ThreadInbox, ThreadMessage};
use super::page_service::PageService;
use super::served_connection::{MovedPages, ServedConnection, ServedConnectionEnd, TurnOutcome};
use super::server_figures::ServerCounters;
use super::serving_budget::{CpuShare, ServingBudget, ServingCost};
use crate::peers::page_faults::{FaultParty, PageFault};

/// Events that one look takes.
pub(super) const EVENTS_MAX: usize = 256;

/// The most connections of a thread.
const CONNECTIONS_MAX: usize = 4096;

/// The most connections of a thread whose hello has not come. A further one takes the place of the oldest: whoever says
/// nothing keeps nobody out.
const HELLOS_AWAITED_MAX: usize = 256;

/// How long a connection may take to say its hello.
const HELLO_TIME_MAX: Duration = Duration::from_secs(1);

/// The longest that one wait polls. A lender's processor is not the borrower's: after a message of many pages the
/// borrower opens seals for longer than a wake-up takes.
const POLL_MAX: Duration = Duration::from_micros(20);

/// Whether borrowers may be served now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BudgetState {
    Left,
    Spent,
}

/// The token of the inbox.
pub(super) const INBOX: Token = Token(usize::MAX);

/// What is shared by all threads.
#[derive(Clone)]
pub(super) struct SharedService {
    pub(super) sessions: Arc<dyn AdmitConnections>,
    pub(super) budget: Arc<Mutex<ServingBudget>>,
    pub(super) cpu: CpuShare,
    /// When the budget's time began.
    pub(super) origin: Instant,
    pub(super) incarnation: u64,
}

/// A thread of the page server.
pub(super) struct ServingThread {
    poll: Poll,
    events: Events,
    pace: AdaptivePoller,
    inbox: Arc<ThreadInbox>,
    service: PageService,
    shared: SharedService,
    /// Connections by their token. Each is at most once in one of the queues.
    connections: Vec<Option<QueuedConnection>>,
    open: usize,
    /// Connections whose hello has not come.
    hellos_awaited: usize,
    due: DueConnections,
    /// Whether the budget was spent before a write had its turn. It has the next one.
    owes_write: bool,
    is_stopped: bool,
}

impl ServingThread {
    /// A thread with a poll in which its inbox's waker is registered.
    pub(super) fn new(
        poll: Poll,
        inbox: Arc<ThreadInbox>,
        service: PageService,
        shared: SharedService,
    ) -> ServingThread {
        ServingThread {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            pace: AdaptivePoller::new(PollRule::at_most(POLL_MAX)),
            inbox,
            service,
            shared,
            connections: Vec::new(),
            open: 0,
            hellos_awaited: 0,
            due: DueConnections::default(),
            owes_write: false,
            is_stopped: false,
        }
    }

    /// Serves until a message stops it.
    ///
    /// # Errors
    ///
    /// The kernel's poll failed.
    pub(super) fn run(&mut self) -> io::Result<()> {
        while !self.is_stopped {
            let delay = self.borrowers_delay();
            self.look(delay)?;
            self.note_events();
            self.take_messages();
            self.serve_hellos();
            self.drop_silent();
            if self.borrowers_delay().is_zero() {
                self.serve_round();
            }
        }
        for at in 0..self.connections.len() {
            self.close(at);
        }
        Ok(())
    }

    /// How long borrowers must wait now.
    fn borrowers_delay(&self) -> Duration {
        let now = self.shared.origin.elapsed();
        self.shared.budget.lock().delay(now)
    }

    /// Looks for events: at once if there is work, and otherwise at the pace of the last waits.
    fn look(&mut self, delay: Duration) -> io::Result<()> {
        let has_due = self.due.have_pages();
        let longest = self.longest_sleep();
        let (poll, events) = (&mut self.poll, &mut self.events);
        if has_due {
            let longest = longest.map_or(delay, |longest| longest.min(delay));
            poll_kernel(poll, events, Some(longest))?;
            return Ok(());
        }
        self.pace.wait(|mode| match mode {
            PollMode::NonBlocking => poll_kernel(poll, events, Some(Duration::ZERO)),
            PollMode::Blocking => poll_kernel(poll, events, longest),
        })
    }

    /// How long the thread may sleep without an event.
    fn longest_sleep(&self) -> Option<Duration> {
        (self.hellos_awaited > 0).then_some(HELLO_TIME_MAX)
    }

    fn note_events(&mut self) {
        for event in self.events.iter().filter(|event| event.token() != INBOX) {
            let Token(at) = event.token();
            self.due.mark(&mut self.connections, at);
        }
    }

    fn take_messages(&mut self) {
        for message in self.inbox.take() {
            match message {
                ThreadMessage::Serve(socket) => self.add(socket),
                ThreadMessage::EndSession(session) => self.end_session(session),
                ThreadMessage::Stop => self.is_stopped = true,
            }
        }
    }

    fn add(&mut self, socket: std::net::TcpStream) {
        // It has none if its other end is gone already.
        let Ok(address) = socket.peer_addr() else {
            return;
        };
        if self.hellos_awaited >= HELLOS_AWAITED_MAX {
            self.refuse_oldest();
        }
        if self.open >= CONNECTIONS_MAX {
            self.refuse(address.ip(), PageFault::NoRoom);
            return;
        }
        // A socket that cannot be set up is gone already. Dropping it closes it.
        if socket.set_nonblocking(true).is_err() || socket.set_nodelay(true).is_err() {
            return;
        }
        let free = self.connections.iter().position(Option::is_none);
        let at = free.unwrap_or(self.connections.len());
        let mut socket = TcpStream::from_std(socket);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .registry()
            .register(&mut socket, Token(at), interest);
        if registered.is_err() {
            return;
        }
        if free.is_none() {
            self.connections.push(None);
        }
        self.connections[at] = Some(QueuedConnection {
            connection: ServedConnection::new(socket, Instant::now()),
            address: address.ip(),
            is_due: false,
        });
        self.open += 1;
        self.hellos_awaited += 1;
    }

    fn end_session(&mut self, session: SessionId) {
        for at in 0..self.connections.len() {
            let of_it = |queued: &QueuedConnection| queued.connection.is_of(session);
            if self.connections[at].as_ref().is_some_and(of_it) {
                self.close(at);
            }
        }
    }

    /// Closes the connection whose hello has been awaited longest.
    fn refuse_oldest(&mut self) {
        let awaited = self
            .connections
            .iter()
            .enumerate()
            .filter_map(|(at, queued)| {
                let since = queued.as_ref()?.connection.awaits_hello_since()?;
                Some((since, at))
            });
        if let Some((_, oldest)) = awaited.min() {
            self.refuse_silent(oldest);
        }
    }

    /// Closes connections that said no hello in time.
    fn drop_silent(&mut self) {
        if self.hellos_awaited == 0 {
            return;
        }
        let now = Instant::now();
        for at in 0..self.connections.len() {
            let queued = self.connections[at].as_ref();
            let since = queued.and_then(|queued| queued.connection.awaits_hello_since());
            if since.is_some_and(|since| now - since >= HELLO_TIME_MAX) {
                self.refuse_silent(at);
            }
        }
    }

    /// Closes a connection that has said no hello.
    fn refuse_silent(&mut self, at: usize) {
        if let Some(queued) = &self.connections[at] {
            self.refuse(queued.address, PageFault::NoHello);
        }
        self.close(at);
    }

    /// Counts a connection that was not let in.
    fn refuse(&self, address: IpAddr, fault: PageFault) {
        ServerCounters::add(&self.service.counters().connections_refused, 1);
        self.shared
            .sessions
            .report(FaultParty::Address(address), fault);
    }

    /// Receives the hellos that have come, whatever the budget says.
    fn serve_hellos(&mut self) {
        for _ in 0..self.due.hellos.len() {
            if let Some(at) = self.due.hellos.pop_front() {
                self.serve_one(at);
            }
        }
    }

    /// Serves each read connection that is due once, and then at most one that writes. It ends when the budget is spent.
    fn serve_round(&mut self) {
        let began = self.thread_time();
        self.serve_due();
        let cost = ServingCost {
            cpu: self.thread_time().saturating_sub(began),
            page_bytes: 0,
        };
        self.shared.budget.lock().spend(cost);
    }

    fn serve_due(&mut self) {
        let was_owed = std::mem::take(&mut self.owes_write);
        if was_owed && self.serve_write() == BudgetState::Spent {
            return;
        }
        for _ in 0..self.due.reads.len() {
            let Some(at) = self.due.reads.pop_front() else {
                break;
            };
            if self.serve_within_budget(at) == BudgetState::Spent {
                self.owes_write = true;
                return;
            }
        }
        if !was_owed {
            self.serve_write();
        }
    }

    /// Serves the next connection that writes, if one is due.
    fn serve_write(&mut self) -> BudgetState {
        match self.due.writes.pop_front() {
            Some(at) => self.serve_within_budget(at),
            None => BudgetState::Left,
        }
    }

    /// Serves a connection once. Returns whether the budget lets others be served now.
    fn serve_within_budget(&mut self, at: usize) -> BudgetState {
        let moved = self.serve_one(at);
        let cost = ServingCost {
            cpu: Duration::ZERO,
            page_bytes: (moved.0 * PAGE_BYTES) as u64,
        };
        self.shared.budget.lock().spend(cost);
        match self.borrowers_delay().is_zero() {
            true => BudgetState::Left,
            false => BudgetState::Spent,
        }
    }

    /// Serves a connection once. Returns the pages that it moved.
    fn serve_one(&mut self, at: usize) -> MovedPages {
        let mut moved = MovedPages::default();
        let Some(queued) = self.connections.get_mut(at).and_then(Option::as_mut) else {
            return moved;
        };
        queued.is_due = false;
        let shared = &self.shared;
        let (sessions, incarnation) = (shared.sessions.as_ref(), shared.incarnation);
        let class_before = queued.connection.class();
        let served = queued
            .connection
            .serve(&self.service, sessions, incarnation, &mut moved);
        if class_before.is_none() && queued.connection.class().is_some() {
            self.hellos_awaited -= 1;
        }
        match served {
            Ok(TurnOutcome::Idle) => {}
            Ok(TurnOutcome::MoreDue) => self.due.mark(&mut self.connections, at),
            Err(end) => {
                self.count(at, &end);
                self.close(at);
            }
        }
        moved
    }

    /// The processor time that this thread has used. Without a bound on it, nobody asks the kernel.
    fn thread_time(&self) -> Duration {
        match self.shared.cpu {
            CpuShare::Unbounded => Duration::ZERO,
            CpuShare::Percent(_) => {
                Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
            }
        }
    }

    fn count(&self, at: usize, end: &ServedConnectionEnd) {
        let Some(queued) = &self.connections[at] else {
            return;
        };
        match end {
            ServedConnectionEnd::Socket(_) | ServedConnectionEnd::Replaced => {}
            ServedConnectionEnd::Hello(_) => self.refuse(queued.address, PageFault::BadHello),
            ServedConnectionEnd::Refused(_) => self.refuse(queued.address, PageFault::NotAdmitted),
            ServedConnectionEnd::Wire(_) => {
                ServerCounters::add(&self.service.counters().connections_broken, 1);
                let party = match queued.connection.session() {
                    Some(from) => FaultParty::Peer(from.peer),
                    None => FaultParty::Address(queued.address),
                };
                let sessions = &self.shared.sessions;
                sessions.report(party, PageFault::BrokenProtocol);
            }
        }
    }

    fn close(&mut self, at: usize) {
        let Some(mut queued) = self.connections[at].take() else {
            return;
        };
        self.open -= 1;
        if queued.connection.class().is_none() {
            self.hellos_awaited -= 1;
        }
        // Closing the socket would end its reports as well.
        let _ = self.poll.registry().deregister(queued.connection.socket());
        if let Some(from) = queued.connection.session() {
            self.shared.sessions.release(from.session);
        }
    }
}

fn poll_kernel(
    poll: &mut Poll,
    events: &mut Events,
    longest: Option<Duration>,
) -> io::Result<PollOutcome> {
    match poll.poll(events, longest) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(PollOutcome::Nothing),
        Err(error) => Err(error),
        Ok(()) if events.is_empty() => Ok(PollOutcome::Nothing),
        Ok(()) => Ok(PollOutcome::Work),
    }
}
