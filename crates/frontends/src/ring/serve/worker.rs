//! A worker: one thread, one epoll, many rings. While requests keep coming it looks at the rings themselves; before it
//! sleeps it says so in each, and is rung for.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use mio::{Interest, Token};
use slab::Slab;
use sublet_client::ring::{Farewell, Sleep};
use sublet_pace::{Found, Look};

use super::connection::{Connection, End, Greeting};
use super::group::Group;
use crate::ring::pages::{Desk, Pages};
use crate::ring::session::Turn;
use crate::serving::{Mailbox, Permit, PollLoop, Presence, Tenancies, Work};

/// Events that one wait brings at most.
const EVENTS_MAX: usize = 256;

/// Looks at a ring in vain after which it is not looked at any more until it rings, though others keep the worker busy.
const LOOKS_IN_VAIN_MAX: u32 = 1024;

/// A connection on its way from the acceptor to its worker.
pub(super) struct Newcomer {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) permit: Permit<Group>,
}

/// What others tell a worker. Newcomers are bounded by the seats.
pub(super) enum Message {
    Newcomer(Newcomer),
    Stop,
}

/// What a worker acts on. Connections are named by their place.
enum Event {
    Heard(usize, Presence),
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
    poll: PollLoop<Message>,
    events: VecDeque<Event>,
    tenancies: Tenancies<D::Tenancy>,
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
    pub(super) fn new(desk: D) -> io::Result<(Worker<D>, Arc<Mailbox<Message>>)> {
        let poll = PollLoop::new(EVENTS_MAX)?;
        let mailbox = Arc::clone(poll.mailbox());
        let worker = Worker {
            poll,
            events: VecDeque::with_capacity(EVENTS_MAX),
            tenancies: Tenancies::new(move |tenant| desk.open(tenant)),
            connections: Slab::new(),
            awake: Vec::new(),
            again: VecDeque::new(),
            left: VecDeque::new(),
            sweep_at: None,
            now: Instant::now(),
            is_over: false,
        };
        Ok((worker, mailbox))
    }

    /// Blocks until there is something to apply.
    fn wait(&mut self) -> io::Result<()> {
        if self.again.is_empty() && self.left.is_empty() {
            let (connections, awake) = (&mut self.connections, &mut self.awake);
            self.poll.wait_beside(self.sweep_at, |look| match look {
                Look::Glance => look_at_rings(connections, awake),
                Look::Sleep => fall_asleep(connections, awake),
            })?;
        }
        self.now = self.poll.glance()?;
        self.collect();
        Ok(())
    }

    fn collect(&mut self) {
        let events = &mut self.events;
        self.poll.take_events(|event| {
            let place = place_of(event.token());
            events.push_back(match is_bell(event.token()) {
                true => Event::Rung(place),
                false => Event::Heard(place, Presence::of(event)),
            });
        });
        let letters = self.poll.mail().letters.drain(..);
        events.extend(letters.map(Event::Letter));
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
            Event::Heard(place, presence) => self.hear(place, presence),
            Event::Rung(place) => self.answer_bell(place),
            Event::TurnOf(place) => self.turn(place),
            Event::Letter(Message::Newcomer(newcomer)) => self.admit(newcomer),
            Event::Letter(Message::Stop) => self.end(),
            Event::Sweep => self.sweep(),
        }
    }

    fn hear(&mut self, place: usize, presence: Presence) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        match connection.hear(presence) {
            Ok(Greeting::Unfinished) => {}
            Ok(Greeting::Over) => self.begin(place),
            Err(end) => self.dismiss(place, end),
        }
    }

    /// A greeting is over: from now on the client rings.
    fn begin(&mut self, place: usize) {
        let bell = self.connections[place].bell();
        let told = bell.map(|bell| self.poll.watch(bell, bell_of(place), Interest::READABLE));
        match told {
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
        let Newcomer { socket, permit } = newcomer;
        let group = permit.group();
        let (tenant, silence_max) = (group.tenant, group.settings.silence_max);
        let pages = self.tenancies.of(tenant);
        let connection = Connection::new(socket, permit, pages, self.now);
        let slot = self.connections.vacant_entry();
        let place = slot.key();
        let (socket, token) = (connection.socket(), socket_of(place));
        let told = self.poll.watch(socket, token, Interest::READABLE);
        if told.is_err() || self.is_over {
            return;
        }
        slot.insert(connection);
        let due = self.now + silence_max;
        self.sweep_at = Some(self.sweep_at.map_or(due, |at| at.min(due)));
        self.hear(place, Presence::Here);
    }

    /// The doorbell is the client's as well, so closing it would not take it out of the epoll.
    fn dismiss(&mut self, place: usize, end: End) {
        let connection = self.connections.remove(place);
        let both = [connection.bell(), Some(connection.socket())];
        for descriptor in both.into_iter().flatten() {
            self.poll.forget(descriptor);
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

/// Serves until it is told to stop.
impl<D: Desk> Work for Worker<D> {
    fn run(&mut self) -> io::Result<()> {
        while !self.is_over {
            self.wait()?;
            while let Some(event) = self.events.pop_front() {
                self.apply(event);
            }
            self.remove_some();
        }
        Ok(())
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
fn fall_asleep<P: Pages>(connections: &mut Slab<Connection<P>>, awake: &mut Vec<usize>) -> Found {
    awake.retain(|place| {
        let connection = connections.get_mut(*place);
        connection.is_some_and(|connection| !fell_asleep(connection))
    });
    match awake.is_empty() {
        true => Found::Nothing,
        false => Found::Work,
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
