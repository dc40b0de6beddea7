//! A worker: one thread, one epoll, many rings. While requests keep coming it looks at the rings themselves; before it
//! sleeps it says so in each, and is rung for.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use slab::Slab;
use sublet_client::ring::{Farewell, Sleep};
use sublet_pace::{Found, Look, Pace};
use sublet_types::TenantId;

use super::connection::{Connection, End, Greeting, Seat};
use crate::ring::pages::{Desk, Pages};
use crate::ring::session::Turn;

/// Events that one wait brings at most.
const EVENTS_MAX: usize = 256;

/// How long the kernel may go unasked while rings are busy: newcomers, doorbells and hang-ups wait that long at most.
const UNASKED_MAX: Duration = Duration::from_micros(100);

/// Looks at a ring in vain after which it is not looked at any more until it rings, though others keep the worker busy.
const LOOKS_IN_VAIN_MAX: u32 = 1024;

const POST: Token = Token(usize::MAX);

/// A connection on its way from the acceptor to its worker.
pub(super) struct Newcomer {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) seat: Seat,
}

/// What others tell a worker. Newcomers are bounded by the seats.
pub(super) enum Message {
    Newcomer(Newcomer),
    Stop,
}

/// A worker's letter box.
pub(super) struct Post {
    letters: Mutex<VecDeque<Message>>,
    waker: Waker,
}

impl Post {
    pub(super) fn send(&self, message: Message) {
        self.letters.lock().push_back(message);
        // A full counter means that the worker is awake already.
        let _ = self.waker.wake();
    }
}

/// What a worker acts on. Connections are named by their place.
enum Event {
    Heard(usize),
    Rung(usize),
    TurnOf(usize),
    Letter(Message),
    Sweep,
}

/// Pages of a client that is gone.
struct Left<P: Pages> {
    pages: Rc<P>,
    removal: P::Removal,
}

/// One thread's connections and what it needs to serve them.
pub(super) struct Worker<D: Desk> {
    poll: Poll,
    ready: Events,
    asked_at: Instant,
    post: Arc<Post>,
    events: VecDeque<Event>,
    pace: Pace,
    desk: D,
    tenancies: HashMap<TenantId, Rc<D::Tenancy>>,
    connections: Slab<Connection<D::Tenancy>>,
    /// Connections whose rings are looked at; each at most once, some of them perhaps gone.
    awake: Vec<usize>,
    /// Connections with more to do after the others' turn; each at most once.
    again: VecDeque<usize>,
    /// What clients that are gone have left, and through whom it is removed: a piece after each round of the others.
    left: VecDeque<Left<D::Tenancy>>,
    sweep_at: Option<Instant>,
    now: Instant,
    is_over: bool,
}

impl<D: Desk> Worker<D> {
    pub(super) fn new(desk: D) -> io::Result<(Worker<D>, Arc<Post>)> {
        let poll = Poll::new()?;
        let post = Arc::new(Post {
            letters: Mutex::default(),
            waker: Waker::new(poll.registry(), POST)?,
        });
        let now = Instant::now();
        let worker = Worker {
            poll,
            ready: Events::with_capacity(EVENTS_MAX),
            asked_at: now,
            post: Arc::clone(&post),
            events: VecDeque::with_capacity(EVENTS_MAX),
            pace: Pace::default(),
            desk,
            tenancies: HashMap::new(),
            connections: Slab::new(),
            awake: Vec::new(),
            again: VecDeque::new(),
            left: VecDeque::new(),
            sweep_at: None,
            now,
            is_over: false,
        };
        Ok((worker, post))
    }

    /// Serves until it is told to stop.
    pub(super) fn run(&mut self) -> io::Result<()> {
        while !self.is_over {
            self.wait()?;
            while let Some(event) = self.events.pop_front() {
                self.apply(event);
            }
            self.remove_some();
        }
        Ok(())
    }

    /// Blocks until there is something to apply.
    fn wait(&mut self) -> io::Result<()> {
        self.ready.clear();
        if self.again.is_empty() && self.left.is_empty() {
            self.wait_at_pace()?;
        }
        self.now = Instant::now();
        // What the kernel has said once, it does not say again: never ask over it.
        if self.ready.is_empty() && self.now - self.asked_at >= UNASKED_MAX {
            self.asked_at = self.now;
            ask(&mut self.poll, &mut self.ready, Some(Duration::ZERO))?;
        }
        self.collect();
        Ok(())
    }

    fn wait_at_pace(&mut self) -> io::Result<()> {
        let sweep_at = self.sweep_at;
        let (poll, ready, asked_at) = (&mut self.poll, &mut self.ready, &mut self.asked_at);
        let (connections, awake) = (&mut self.connections, &mut self.awake);
        self.pace.wait(|look| match look {
            Look::Glance => Ok(look_at_rings(connections, awake)),
            Look::Sleep => {
                if fall_asleep(connections, awake) == Sleep::Disturbed {
                    return Ok(Found::Work);
                }
                let longest = sweep_at.map(|at| at.saturating_duration_since(Instant::now()));
                let found = ask(poll, ready, longest);
                *asked_at = Instant::now();
                found
            }
        })
    }

    fn collect(&mut self) {
        for event in &self.ready {
            match event.token() {
                POST => self
                    .events
                    .extend(self.post.letters.lock().drain(..).map(Event::Letter)),
                token if is_bell(token) => self.events.push_back(Event::Rung(place_of(token))),
                token => self.events.push_back(Event::Heard(place_of(token))),
            }
        }
        self.events.extend(self.again.drain(..).map(Event::TurnOf));
        self.collect_from_rings();
        if self.sweep_at.take_if(|at| *at <= self.now).is_some() {
            self.events.push_back(Event::Sweep);
        }
    }

    /// Who is awake and has asked something gets a turn; who has not for long is left to ring.
    fn collect_from_rings(&mut self) {
        let (connections, events) = (&mut self.connections, &mut self.events);
        self.awake.retain(|place| {
            let Some(connection) = connections.get_mut(*place) else {
                return false;
            };
            if connection.turn_is_due {
                return true;
            }
            let Some(ring) = connection.ring() else {
                return false;
            };
            if !ring.has_work() {
                connection.looks_in_vain += 1;
                return connection.looks_in_vain < LOOKS_IN_VAIN_MAX || !fell_asleep(connection);
            }
            connection.looks_in_vain = 0;
            connection.turn_is_due = true;
            events.push_back(Event::TurnOf(*place));
            true
        });
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Heard(place) => self.hear(place),
            Event::Rung(place) => self.answer_bell(place),
            Event::TurnOf(place) => self.turn(place),
            Event::Letter(Message::Newcomer(newcomer)) => self.admit(newcomer),
            Event::Letter(Message::Stop) => self.end(),
            Event::Sweep => self.sweep(),
        }
    }

    fn hear(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        match connection.hear() {
            Ok(Greeting::Unfinished) => {}
            Ok(Greeting::Over) => self.begin(place),
            Err(end) => self.dismiss(place, end),
        }
    }

    /// A greeting is over: from now on the client rings.
    fn begin(&mut self, place: usize) {
        let registry = self.poll.registry();
        let registered = self.connections[place].bell().map(|bell| {
            let raw = bell.as_raw_fd();
            registry.register(&mut SourceFd(&raw), bell_of(place), Interest::READABLE)
        });
        match registered {
            Some(Ok(())) => self.wake(place),
            _ => self.dismiss(place, End::Silent),
        }
    }

    fn answer_bell(&mut self, place: usize) {
        if let Some(connection) = self.connections.get(place) {
            connection.group().figures.bells_heard.bump();
            self.wake(place);
        }
    }

    fn wake(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        let Some(ring) = connection.ring() else {
            return;
        };
        ring.wake_up();
        if !std::mem::replace(&mut connection.is_awake, true) {
            connection.looks_in_vain = 0;
            self.awake.push(place);
        }
        if !connection.turn_is_due {
            self.turn(place);
        }
    }

    fn turn(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        connection.turn_is_due = false;
        match connection.turn() {
            Ok(Turn::Rest) => {}
            Ok(Turn::Again) => {
                connection.turn_is_due = true;
                self.again.push_back(place);
            }
            Err(end) => self.dismiss(place, end),
        }
    }

    fn admit(&mut self, newcomer: Newcomer) {
        let Newcomer { socket, seat } = newcomer;
        let (tenant, silence_max) = (seat.group().tenant, seat.group().settings.silence_max);
        let opened = self.tenancies.entry(tenant);
        let pages = Rc::clone(opened.or_insert_with(|| Rc::new(self.desk.open(tenant))));
        let connection = Connection::new(socket, seat, pages, self.now);
        let slot = self.connections.vacant_entry();
        let place = slot.key();
        let raw = connection.socket().as_raw_fd();
        let registry = self.poll.registry();
        let token = socket_of(place);
        let registered = registry.register(&mut SourceFd(&raw), token, Interest::READABLE);
        if registered.is_err() || self.is_over {
            return;
        }
        slot.insert(connection);
        let due = self.now + silence_max;
        self.sweep_at = Some(self.sweep_at.map_or(due, |at| at.min(due)));
        self.hear(place);
    }

    /// The doorbell is the client's as well, so closing it would not take it out of the epoll.
    fn dismiss(&mut self, place: usize, end: End) {
        let connection = self.connections.remove(place);
        let registry = self.poll.registry();
        let both = [connection.bell(), Some(connection.socket())];
        for descriptor in both.into_iter().flatten() {
            let _ = registry.deregister(&mut SourceFd(&descriptor.as_raw_fd()));
        }
        // Its place may be taken by another before the list is looked through again.
        if connection.is_awake {
            self.awake.retain(|awake| *awake != place);
        }
        if connection.turn_is_due {
            self.again.retain(|again| *again != place);
        }
        let (pages, left) = connection.close(end);
        self.left.extend(left.into_iter().map(|removal| Left {
            pages: Rc::clone(&pages),
            removal,
        }));
    }

    /// Removes a piece of what clients have left.
    fn remove_some(&mut self) {
        let more = match self.left.front_mut() {
            None => return,
            Some(left) => left.pages.remove_some(&mut left.removal),
        };
        if !more {
            self.left.pop_front();
        }
    }

    /// Turns out who has not greeted in time; says when to look again.
    fn sweep(&mut self) {
        let mut next: Option<Instant> = None;
        let mut late = Vec::new();
        for (place, connection) in &self.connections {
            if connection.ring().is_some() {
                continue;
            }
            match connection.since + connection.group().settings.silence_max {
                due if due <= self.now => late.push(place),
                due => next = Some(next.map_or(due, |next| next.min(due))),
            }
        }
        for place in late {
            self.dismiss(place, End::Told(Farewell::Late));
        }
        self.sweep_at = next;
    }

    fn end(&mut self) {
        self.is_over = true;
        let places: Vec<usize> = self.connections.iter().map(|(place, _)| place).collect();
        for place in places {
            self.dismiss(place, End::Told(Farewell::Stopping));
        }
        while !self.left.is_empty() {
            self.remove_some();
        }
    }
}

fn look_at_rings<P: Pages>(connections: &Slab<Connection<P>>, awake: &[usize]) -> Found {
    let rings = awake
        .iter()
        .filter_map(|place| connections.get(*place)?.ring());
    match rings.into_iter().any(|ring| ring.has_work()) {
        true => Found::Work,
        false => Found::Nothing,
    }
}

/// Says in every ring that the worker sleeps, unless one of them has work after all.
fn fall_asleep<P: Pages>(connections: &mut Slab<Connection<P>>, awake: &mut Vec<usize>) -> Sleep {
    awake.retain(|place| {
        let connection = connections.get_mut(*place);
        connection.is_some_and(|connection| !fell_asleep(connection))
    });
    match awake.is_empty() {
        true => Sleep::Sound,
        false => Sleep::Disturbed,
    }
}

fn fell_asleep<P: Pages>(connection: &mut Connection<P>) -> bool {
    let slept = connection.ring().map(|ring| ring.fall_asleep());
    connection.is_awake = slept == Some(Sleep::Disturbed);
    !connection.is_awake
}

fn socket_of(place: usize) -> Token {
    Token(place * 2)
}

fn bell_of(place: usize) -> Token {
    Token(place * 2 + 1)
}

fn is_bell(token: Token) -> bool {
    token.0 % 2 == 1
}

fn place_of(token: Token) -> usize {
    token.0 / 2
}

/// Asks the kernel for events, for at most `longest`; for as long as it takes if `None`.
fn ask(poll: &mut Poll, ready: &mut Events, longest: Option<Duration>) -> io::Result<Found> {
    match poll.poll(ready, longest) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Found::Nothing),
        Err(error) => Err(error),
        Ok(()) if ready.is_empty() => Ok(Found::Nothing),
        Ok(()) => Ok(Found::Work),
    }
}
