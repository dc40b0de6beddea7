//! A worker: one thread, one epoll, many connections.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Token};
use slab::Slab;

use super::connection::{Connection, Turn};
use super::group::Group;
use super::guesses::Guesses;
use super::seat::Seat;
use crate::doors::{TlsStream, Transport};
use crate::memcached::watch::WATCH_INTERVAL;
use crate::serving::{
    Asked, BufferPool, Mailbox, PollLoop, Readiness, Stop, Stream, Tenancies, Work,
};
use crate::tenancy::Tenancy;

/// Events that one wait brings at most.
const EVENTS_MAX: usize = 256;

/// Bytes that one read takes at most: more than a deep pipeline of small requests.
const READ_BYTES: usize = 64 << 10;

/// How often idle and stalled connections are looked for, where there may be any.
const SWEEP_MIN: Duration = Duration::from_secs(1);

/// How long connections may finish what is under way after a graceful stop.
const GRACE_MAX: Duration = Duration::from_secs(5);

/// What all connections of a worker may hold in buffers, besides two of the largest items: values that
/// are still coming and replies that nobody reads.
pub const HELD_MAX: usize = 256 << 20;

/// What a worker hears of a connection: bytes, also urgent ones.
const HEARD: Interest = Interest::READABLE.add(Interest::PRIORITY);

/// A connection on its way from the acceptor to its worker.
pub(super) struct Newcomer {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) group: Arc<Group>,
    pub(super) transport: Transport,
    pub(super) seat: Seat,
}

/// What others tell a worker. Newcomers are bounded by the limit on connections.
pub(super) enum Message {
    Newcomer(Newcomer),
    Stop(Stop),
}

/// What a worker acts on.
enum Event {
    Ready(Token, Readiness),
    Letter(Message),
    TurnOf(Token),
    Sweep,
}

/// One thread's connections and what it needs to serve them.
pub(super) struct Worker {
    poll: PollLoop<Message>,
    events: VecDeque<Event>,
    guesses: Guesses,
    /// Where each read goes first.
    read: Box<[u8]>,
    pool: BufferPool,
    tenancies: Tenancies<Tenancy>,
    connections: Slab<Connection>,
    /// Connections with more to do after the others' turn; each at most once.
    again: VecDeque<Token>,
    watchers: Vec<Token>,
    watch_at: Option<Instant>,
    sweep_at: Option<Instant>,
    now: Instant,
    asked: Arc<Asked>,
    ending: Ending,
    /// Memory of all connections' buffers, bytes.
    held: usize,
}

/// How far a worker's end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    NotYet,
    /// What is under way is finished, until then at most.
    Finishing(Instant),
    Ended,
}

impl Worker {
    pub(super) fn new(
        tenancies: Tenancies<Tenancy>,
        asked: Arc<Asked>,
    ) -> io::Result<(Worker, Arc<Mailbox<Message>>)> {
        let poll = PollLoop::new(EVENTS_MAX)?;
        let mailbox = Arc::clone(poll.mailbox());
        let worker = Worker {
            poll,
            events: VecDeque::with_capacity(EVENTS_MAX),
            guesses: Guesses::default(),
            read: vec![0; READ_BYTES].into_boxed_slice(),
            pool: BufferPool::new(),
            tenancies,
            connections: Slab::new(),
            again: VecDeque::new(),
            watchers: Vec::new(),
            watch_at: None,
            sweep_at: None,
            now: Instant::now(),
            asked,
            ending: Ending::NotYet,
            held: 0,
        };
        Ok((worker, mailbox))
    }

    fn is_over(&self) -> bool {
        match self.ending {
            Ending::NotYet => false,
            Ending::Finishing(until) => self.connections.is_empty() || self.now >= until,
            Ending::Ended => true,
        }
    }

    /// Serves who is expected to have asked again; says whether anybody had.
    fn guess(&mut self) -> bool {
        let mut guesses = std::mem::take(&mut self.guesses);
        let any = guesses.round(|token| self.guess_at(token));
        self.guesses = guesses;
        any
    }

    /// Whether a connection's client has sent something.
    fn guess_at(&mut self, token: Token) -> bool {
        match self.connections.get_mut(token.0) {
            Some(connection) if !connection.turn_is_due => connection.expect_input(),
            _ => return false,
        }
        self.turn(token);
        let connection = self.connections.get_mut(token.0);
        connection.is_some_and(|connection| connection.has_heard(self.now))
    }

    /// Blocks until there is something to apply.
    fn wait(&mut self) -> io::Result<()> {
        if self.again.is_empty() {
            self.poll.wait(self.wakes_at())?;
        }
        self.now = self.poll.glance()?;
        self.collect();
        Ok(())
    }

    /// When there is something to do though nobody says so.
    fn wakes_at(&self) -> Option<Instant> {
        let end_at = match self.ending {
            Ending::Finishing(until) => Some(until),
            _ => None,
        };
        let times = [self.sweep_at, self.watch_at, end_at];
        times.into_iter().flatten().min()
    }

    fn collect(&mut self) {
        let events = &mut self.events;
        self.poll.take_events(|event| {
            events.push_back(Event::Ready(event.token(), Readiness::of(event)));
        });
        let letters = self.poll.mail().letters.drain(..);
        events.extend(letters.map(Event::Letter));
        self.events.extend(self.again.drain(..).map(Event::TurnOf));
        if take_if_past(&mut self.watch_at, self.now) {
            self.events
                .extend(self.watchers.drain(..).map(Event::TurnOf));
        }
        if take_if_past(&mut self.sweep_at, self.now) {
            self.events.push_back(Event::Sweep);
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Ready(token, readiness) => self.hear(token, readiness),
            Event::TurnOf(token) => self.turn(token),
            Event::Letter(Message::Newcomer(newcomer)) => self.admit(newcomer),
            Event::Letter(Message::Stop(stop)) => self.begin_end(stop),
            Event::Sweep => self.sweep(),
        }
    }

    fn hear(&mut self, token: Token, readiness: Readiness) {
        let Some(connection) = self.connections.get_mut(token.0) else {
            return;
        };
        connection.stream.notice(readiness);
        connection.last_heard = self.now;
        self.guesses.note(token);
        if !connection.turn_is_due {
            self.turn(token);
        }
    }

    fn turn(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token.0) else {
            return;
        };
        let turn = connection.serve(&mut self.read, &mut self.pool, &self.tenancies);
        let turn = turn.unwrap_or(Turn::Over);
        if matches!(turn, Turn::Over | Turn::Shutdown { .. }) {
            connection.stream.hear_last_words(&mut self.read);
        }
        connection.turn_is_due = matches!(turn, Turn::Again | Turn::Watch);
        let held = connection.held();
        self.held = self.held - connection.held_counted + held;
        connection.held_counted = held;
        if connection.holds_shared_memory() {
            self.sweep_at.get_or_insert(self.now + SWEEP_MIN);
        }
        let held_max = HELD_MAX + 2 * connection.instance().settings.item_max as usize;
        match turn {
            _ if held > READ_BYTES && self.held > held_max => self.refuse(token),
            Turn::Rest if self.ending != Ending::NotYet && connection.is_idle() => {
                self.dismiss(token);
            }
            Turn::Rest => {}
            Turn::Blocked => self.watch_for_room(token),
            Turn::Again => self.again.push_back(token),
            Turn::Watch => {
                self.watchers.push(token);
                self.watch_at.get_or_insert(self.now + WATCH_INTERVAL);
            }
            Turn::Over => self.dismiss(token),
            Turn::Shutdown { graceful } => {
                self.dismiss(token);
                (self.asked)(if graceful { Stop::Graceful } else { Stop::Now });
            }
        }
    }

    /// A reader was too slow once: from now on the kernel says when it has room again. Others are
    /// spared that, since a Unix socket would wake its worker each time its reader reads.
    fn watch_for_room(&mut self, token: Token) {
        let connection = &mut self.connections[token.0];
        if std::mem::replace(&mut connection.was_blocked, true) {
            return;
        }
        let both = HEARD | Interest::WRITABLE;
        let told = self.poll.watch_for(connection.stream.socket(), token, both);
        if told.is_err() {
            self.dismiss(token);
        }
    }

    fn admit(&mut self, newcomer: Newcomer) {
        let Some(connection) = newcomer.connection(self.now) else {
            return;
        };
        let slot = self.connections.vacant_entry();
        let token = Token(slot.key());
        let told = self.poll.watch(connection.stream.socket(), token, HEARD);
        if told.is_err() || self.ending != Ending::NotYet {
            return;
        }
        if connection.instance().settings.idle_timeout.is_some() {
            self.sweep_at.get_or_insert(self.now + SWEEP_MIN);
        }
        slot.insert(connection);
        self.turn(token);
    }

    /// There is no memory for what a connection still sends or does not read.
    fn refuse(&mut self, token: Token) {
        tracing::warn!("connections hold too much in buffers: closing the one that wants more");
        self.dismiss(token);
    }

    fn dismiss(&mut self, token: Token) {
        let connection = self.connections.remove(token.0);
        self.held -= connection.held_counted;
        // Its place may be another's before these are looked through again.
        if connection.turn_is_due {
            self.again.retain(|again| *again != token);
            self.watchers.retain(|watcher| *watcher != token);
        }
        self.poll.forget(connection.stream.socket());
    }

    /// Closes who was idle for too long, or keeps others from the memory for large values; says when to look again.
    fn sweep(&mut self) {
        let mut next = None;
        let mut idle = Vec::new();
        for (key, connection) in &self.connections {
            let look_again = connection
                .may_have_to_leave()
                .then_some(self.now + SWEEP_MIN);
            let Some(due) = connection.leaves_at().or(look_again) else {
                continue;
            };
            if due <= self.now {
                idle.push(Token(key));
            } else {
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            }
        }
        for token in idle {
            self.connections[token.0].note_idle();
            self.dismiss(token);
        }
        self.sweep_at = next.map(|due| due.max(self.now + SWEEP_MIN));
    }

    fn begin_end(&mut self, stop: Stop) {
        self.ending = match stop {
            Stop::Now => Ending::Ended,
            Stop::Graceful => Ending::Finishing(self.now + GRACE_MAX),
        };
        let idle = self.connections.iter().filter(|(_, c)| c.is_idle());
        let idle: Vec<Token> = idle.map(|(key, _)| Token(key)).collect();
        for token in idle {
            self.dismiss(token);
        }
    }
}

/// Serves until it is told to stop and, if gracefully, all is said.
impl Work for Worker {
    fn run(&mut self) -> io::Result<()> {
        while !self.is_over() {
            if self.again.is_empty() && self.guess() {
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

impl Newcomer {
    /// The connection; none where its listener lets nobody in.
    fn connection(self, now: Instant) -> Option<Connection> {
        let Newcomer {
            socket,
            group,
            transport,
            seat,
        } = self;
        let tls = match (transport, &group.tls) {
            (Transport::Plain, _) => None,
            (_, Some(tls)) => Some(TlsStream::new(tls, transport)?),
            (_, None) => return None,
        };
        let stream = Stream::new(socket, tls);
        Some(Connection::new(stream, seat, group.tenant, now))
    }
}

fn take_if_past(at: &mut Option<Instant>, now: Instant) -> bool {
    at.take_if(|at| *at <= now).is_some()
}
