//! A worker: one thread, one epoll, many connections.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Token};
use slab::Slab;

use super::admitted_peer::AdmittedPeer;
use super::connection::{Connection, MemcachedTurnEnd};
use super::group::Group;
use super::speculative_reads::SpeculativeReads;
use crate::clock::MonotonicClock;
use crate::listeners::{TlsStream, Transport};
use crate::memcached::watch::WATCH_INTERVAL;
use crate::serving::{
    BufferPool, Mailbox, OnShutdown, PollLoop, Readiness, StopMode, Stream, Tenancies, Work,
};
use crate::tenancy::Tenancy;

/// The most events that one wait returns.
const EVENTS_MAX: usize = 256;

/// The most bytes that one read takes, which is more than a deep pipeline of small requests.
const READ_BYTES: usize = 64 << 10;

/// How often the worker looks for idle and stalled connections, if there may be any.
const SWEEP_MIN: Duration = Duration::from_secs(1);

/// How long connections may finish what is under way after a graceful stop.
const GRACE_MAX: Duration = Duration::from_secs(5);

/// The most bytes that all connections of a worker hold in buffers, besides two of the largest items. The buffers hold
/// values that are still coming and replies that clients do not read.
pub const HELD_MAX: usize = 256 << 20;

/// The events of a connection for which the worker registers: bytes, including urgent ones.
const INPUT_INTEREST: Interest = Interest::READABLE.add(Interest::PRIORITY);

/// A connection on its way from the acceptor to its worker.
pub(super) struct AcceptedSocket {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) group: Arc<Group>,
    pub(super) transport: Transport,
    pub(super) admitted: AdmittedPeer,
}

/// A message of another thread to a worker. The limit on connections bounds the accepted sockets.
pub(super) enum Message {
    Accepted(AcceptedSocket),
    Stop(StopMode),
}

/// What a worker acts on.
enum WorkItem {
    Ready(Token, Readiness),
    Message(Message),
    Turn(Token),
    Sweep,
}

/// The connections of one thread, and what it needs to serve them.
pub(super) struct Worker {
    poll: PollLoop<Message>,
    events: VecDeque<WorkItem>,
    speculative_reads: SpeculativeReads,
    /// The buffer into which each read goes first.
    read: Box<[u8]>,
    pool: BufferPool,
    tenancies: Tenancies<Tenancy>,
    connections: Slab<Connection>,
    /// Connections with more to do after the turns of the others. Each is in it at most once.
    again: VecDeque<Token>,
    watchers: Vec<Token>,
    watch_at: Option<Instant>,
    sweep_at: Option<Instant>,
    now: Instant,
    on_shutdown: Arc<OnShutdown>,
    shutdown: ShutdownPhase,
    /// The memory of all connections' buffers, in bytes.
    held: usize,
}

/// How far the shutdown of a worker has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShutdownPhase {
    NotStopping,
    /// The connections finish what is under way, until this moment at most.
    Draining(Instant),
    Ended,
}

impl Worker {
    pub(super) fn new(
        tenancies: Tenancies<Tenancy>,
        on_shutdown: Arc<OnShutdown>,
        clock: MonotonicClock,
    ) -> io::Result<(Worker, Arc<Mailbox<Message>>)> {
        let poll = PollLoop::new(EVENTS_MAX, clock)?;
        let mailbox = Arc::clone(poll.mailbox());
        let worker = Worker {
            now: poll.clock().now(),
            poll,
            events: VecDeque::with_capacity(EVENTS_MAX),
            speculative_reads: SpeculativeReads::default(),
            read: vec![0; READ_BYTES].into_boxed_slice(),
            pool: BufferPool::new(),
            tenancies,
            connections: Slab::new(),
            again: VecDeque::new(),
            watchers: Vec::new(),
            watch_at: None,
            sweep_at: None,
            on_shutdown,
            shutdown: ShutdownPhase::NotStopping,
            held: 0,
        };
        Ok((worker, mailbox))
    }

    fn is_over(&self) -> bool {
        match self.shutdown {
            ShutdownPhase::NotStopping => false,
            ShutdownPhase::Draining(until) => self.connections.is_empty() || self.now >= until,
            ShutdownPhase::Ended => true,
        }
    }

    /// Serves the connections from which input is expected. Returns whether any had sent something.
    fn read_speculatively(&mut self) -> bool {
        let mut speculative_reads = std::mem::take(&mut self.speculative_reads);
        let any = speculative_reads.round(|token| self.try_candidate(token));
        self.speculative_reads = speculative_reads;
        any
    }

    /// Returns whether a connection's client has sent something.
    fn try_candidate(&mut self, token: Token) -> bool {
        match self.connections.get_mut(token.0) {
            Some(connection) if !connection.turn_is_due => connection.expect_input(),
            _ => return false,
        }
        self.serve_turn(token);
        let connection = self.connections.get_mut(token.0);
        connection.is_some_and(|connection| connection.got_expected_input(self.now))
    }

    /// Blocks until there is something to apply.
    fn wait(&mut self) -> io::Result<()> {
        if self.again.is_empty() {
            self.poll.wait(self.wakes_at())?;
        }
        self.now = self.poll.poll_if_due()?;
        self.collect_events();
        Ok(())
    }

    /// Returns when the worker must act even if nothing is reported.
    fn wakes_at(&self) -> Option<Instant> {
        let end_at = match self.shutdown {
            ShutdownPhase::Draining(until) => Some(until),
            _ => None,
        };
        let times = [self.sweep_at, self.watch_at, end_at];
        times.into_iter().flatten().min()
    }

    fn collect_events(&mut self) {
        let events = &mut self.events;
        self.poll.drain_events(|event| {
            events.push_back(WorkItem::Ready(event.token(), Readiness::of(event)));
        });
        let messages = self.poll.mail().messages.drain(..);
        events.extend(messages.map(WorkItem::Message));
        self.events.extend(self.again.drain(..).map(WorkItem::Turn));
        if take_if_past(&mut self.watch_at, self.now) {
            self.events
                .extend(self.watchers.drain(..).map(WorkItem::Turn));
        }
        if take_if_past(&mut self.sweep_at, self.now) {
            self.events.push_back(WorkItem::Sweep);
        }
    }

    fn apply(&mut self, event: WorkItem) {
        match event {
            WorkItem::Ready(token, readiness) => self.handle_readiness(token, readiness),
            WorkItem::Turn(token) => self.serve_turn(token),
            WorkItem::Message(Message::Accepted(accepted)) => self.add_connection(accepted),
            WorkItem::Message(Message::Stop(stop)) => self.begin_shutdown(stop),
            WorkItem::Sweep => self.sweep(),
        }
    }

    fn handle_readiness(&mut self, token: Token, readiness: Readiness) {
        let Some(connection) = self.connections.get_mut(token.0) else {
            return;
        };
        connection.stream.update_readiness(readiness);
        connection.last_input_at = self.now;
        self.speculative_reads.record_input(token);
        if !connection.turn_is_due {
            self.serve_turn(token);
        }
    }

    fn serve_turn(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token.0) else {
            return;
        };
        let turn = connection.serve(&mut self.read, &mut self.pool, &self.tenancies);
        let turn = turn.unwrap_or(MemcachedTurnEnd::Closed);
        if matches!(
            turn,
            MemcachedTurnEnd::Closed | MemcachedTurnEnd::Shutdown(_)
        ) {
            connection.stream.drain_input(&mut self.read);
        }
        connection.turn_is_due = matches!(turn, MemcachedTurnEnd::Again | MemcachedTurnEnd::Watch);
        let held = connection.held();
        self.held = self.held - connection.held_counted + held;
        connection.held_counted = held;
        if connection.holds_shared_memory() {
            self.sweep_at.get_or_insert(self.now + SWEEP_MIN);
        }
        let held_max = HELD_MAX + 2 * connection.instance().settings.item_max as usize;
        match turn {
            _ if held > READ_BYTES && self.held > held_max => {
                self.close_for_memory(token, held_max);
            }
            MemcachedTurnEnd::Waiting
                if self.shutdown != ShutdownPhase::NotStopping && connection.is_idle() =>
            {
                self.close_connection(token);
            }
            MemcachedTurnEnd::Waiting => {}
            MemcachedTurnEnd::Blocked => self.watch_writable(token),
            MemcachedTurnEnd::Again => self.again.push_back(token),
            MemcachedTurnEnd::Watch => {
                self.watchers.push(token);
                self.watch_at.get_or_insert(self.now + WATCH_INTERVAL);
            }
            MemcachedTurnEnd::Closed => self.close_connection(token),
            MemcachedTurnEnd::Shutdown(mode) => {
                self.close_connection(token);
                (self.on_shutdown)(mode);
            }
        }
    }

    /// Makes the kernel report when the socket of a slow reader becomes writable. The worker does this only after the
    /// client was too slow once. For other clients it would be costly, because a Unix socket would wake its worker each
    /// time its client reads.
    fn watch_writable(&mut self, token: Token) {
        let connection = &mut self.connections[token.0];
        if std::mem::replace(&mut connection.was_blocked, true) {
            return;
        }
        let both = INPUT_INTEREST | Interest::WRITABLE;
        let registered = self
            .poll
            .reregister(connection.stream.socket(), token, both);
        if registered.is_err() {
            self.close_connection(token);
        }
    }

    fn add_connection(&mut self, accepted: AcceptedSocket) {
        let Some(connection) = accepted.connection(self.now) else {
            return;
        };
        let slot = self.connections.vacant_entry();
        let token = Token(slot.key());
        let registered = self
            .poll
            .register(connection.stream.socket(), token, INPUT_INTEREST);
        if registered.is_err() || self.shutdown != ShutdownPhase::NotStopping {
            return;
        }
        if connection.instance().settings.idle_timeout.is_some() {
            self.sweep_at.get_or_insert(self.now + SWEEP_MIN);
        }
        slot.insert(connection);
        self.serve_turn(token);
    }

    /// Closes a connection because there is no memory for what it still sends or does not read.
    fn close_for_memory(&mut self, token: Token, held_max: usize) {
        let peer = self.connections[token.0].peer();
        tracing::warn!(
            listener = peer.listener.as_deref(),
            peer = peer.address,
            held = self.held,
            held_max,
            "the connections of a memcached worker hold more bytes in buffers than they may; the worker closes the one that wants more: its client has to read its replies and send values without a pause"
        );
        self.close_connection(token);
    }

    fn close_connection(&mut self, token: Token) {
        let connection = self.connections.remove(token.0);
        self.held -= connection.held_counted;
        // Another connection may have the same token before these queues are looked through again.
        if connection.turn_is_due {
            self.again.retain(|again| *again != token);
            self.watchers.retain(|watcher| *watcher != token);
        }
        self.poll.deregister(connection.stream.socket());
    }

    /// Closes connections that were idle for too long, or that keep others from the memory for large values. Sets the
    /// time of the next sweep.
    fn sweep(&mut self) {
        let mut next = None;
        let mut idle = Vec::new();
        for (key, connection) in &self.connections {
            let look_again = connection.may_time_out().then_some(self.now + SWEEP_MIN);
            let Some(due) = connection.closes_at().or(look_again) else {
                continue;
            };
            if due <= self.now {
                idle.push(Token(key));
            } else {
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            }
        }
        for token in idle {
            self.connections[token.0].set_idle_closed();
            self.close_connection(token);
        }
        self.sweep_at = next.map(|due| due.max(self.now + SWEEP_MIN));
    }

    fn begin_shutdown(&mut self, stop: StopMode) {
        self.shutdown = match stop {
            StopMode::Now => ShutdownPhase::Ended,
            StopMode::Graceful => ShutdownPhase::Draining(self.now + GRACE_MAX),
        };
        let idle = self.connections.iter().filter(|(_, c)| c.is_idle());
        let idle: Vec<Token> = idle.map(|(key, _)| Token(key)).collect();
        for token in idle {
            self.close_connection(token);
        }
    }
}

/// Serves until a message stops it. After a graceful stop it first finishes what is under way.
impl Work for Worker {
    fn run(&mut self) -> io::Result<()> {
        while !self.is_over() {
            if self.again.is_empty() && self.read_speculatively() {
                continue;
            }
            self.wait()?;
            while let Some(event) = self.events.pop_front() {
                self.apply(event);
            }
        }
        Ok(())
    }
}

impl AcceptedSocket {
    /// Makes the connection. Returns `None` if its listener admits nobody.
    fn connection(self, now: Instant) -> Option<Connection> {
        let AcceptedSocket {
            socket,
            group,
            transport,
            admitted,
        } = self;
        let tls = match (transport, &group.tls) {
            (Transport::Plain, _) => None,
            (_, Some(tls)) => Some(TlsStream::new(tls, transport)?),
            (_, None) => return None,
        };
        let stream = Stream::new(socket, tls);
        Some(Connection::new(stream, admitted, group.tenant, now))
    }
}

fn take_if_past(at: &mut Option<Instant>, now: Instant) -> bool {
    at.take_if(|at| *at <= now).is_some()
}
