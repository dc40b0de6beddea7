//! A worker: one thread, one epoll, many rings. While requests keep coming, the worker polls the rings themselves.
//! Before it sleeps, it says so in each ring, and clients ring its doorbell.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use mio::{Interest, Token};
use slab::Slab;
use sublet_client::ring::{CloseReason, SleepAttempt};
use sublet_pace::{PollMode, PollOutcome};

use super::connection::{Connection, Disconnect, GreetingProgress};
use super::group::Group;
use crate::clock::MonotonicClock;
use crate::ring::page_operations::{PageOperations, TenancyFactory};
use crate::ring::session::RingTurnEnd;
use crate::serving::{GroupPermit, Mailbox, PeerState, PollLoop, Tenancies, Work};

/// The most events that one wait returns.
const EVENTS_MAX: usize = 256;

/// How often the worker may find a ring empty while others keep it busy. After that it does not poll the ring until the
/// client rings.
const EMPTY_POLLS_MAX: u32 = 1024;

/// A connection on its way from the acceptor to its worker.
pub(super) struct AcceptedSocket {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) permit: GroupPermit<Group>,
}

/// A message to a worker. The limit on connections bounds how many `Accepted` there are.
pub(super) enum Message {
    Accepted(AcceptedSocket),
    Stop,
}

/// What a worker acts on. A number names a connection by its place.
enum WorkItem {
    SocketReady(usize, PeerState),
    DoorbellRung(usize),
    Turn(usize),
    Message(Message),
    Sweep,
}

/// Pages that a client left behind.
struct PendingRemoval<P: PageOperations> {
    pages: Rc<P>,
    removal: P::Removal,
}

/// One thread's connections, and what it needs to serve them.
pub(super) struct Worker<D: TenancyFactory> {
    poll: PollLoop<Message>,
    events: VecDeque<WorkItem>,
    tenancies: Tenancies<D::Tenancy>,
    connections: Slab<Connection<D::Tenancy>>,
    /// Connections whose rings are polled. Each is listed at most once, and some may be gone.
    awake: Vec<usize>,
    /// Connections with more to do after the others' turn. Each is listed at most once.
    again: VecDeque<usize>,
    /// What clients have left behind, and the tenancy that removes it. The worker removes one piece after each round.
    removals: VecDeque<PendingRemoval<D::Tenancy>>,
    sweep_at: Option<Instant>,
    now: Instant,
    is_over: bool,
}

impl<D: TenancyFactory> Worker<D> {
    pub(super) fn new(
        factory: D,
        clock: MonotonicClock,
    ) -> io::Result<(Worker<D>, Arc<Mailbox<Message>>)> {
        let poll = PollLoop::new(EVENTS_MAX, clock)?;
        let mailbox = Arc::clone(poll.mailbox());
        let worker = Worker {
            now: poll.clock().now(),
            poll,
            events: VecDeque::with_capacity(EVENTS_MAX),
            tenancies: Tenancies::new(move |tenant| factory.open(tenant)),
            connections: Slab::new(),
            awake: Vec::new(),
            again: VecDeque::new(),
            removals: VecDeque::new(),
            sweep_at: None,
            is_over: false,
        };
        Ok((worker, mailbox))
    }

    /// Blocks until there is something to apply.
    fn wait(&mut self) -> io::Result<()> {
        if self.again.is_empty() && self.removals.is_empty() {
            let (connections, awake) = (&mut self.connections, &mut self.awake);
            self.poll
                .wait_with_probe(self.sweep_at, |look| match look {
                    PollMode::NonBlocking => look_at_rings(connections, awake),
                    PollMode::Blocking => fall_asleep(connections, awake),
                })?;
        }
        self.now = self.poll.poll_if_due()?;
        self.collect();
        Ok(())
    }

    fn collect(&mut self) {
        let events = &mut self.events;
        self.poll.drain_events(|event| {
            let place = place_of(event.token());
            events.push_back(match is_doorbell_token(event.token()) {
                true => WorkItem::DoorbellRung(place),
                false => WorkItem::SocketReady(place, PeerState::of(event)),
            });
        });
        let messages = self.poll.mail().messages.drain(..);
        events.extend(messages.map(WorkItem::Message));
        self.events.extend(self.again.drain(..).map(WorkItem::Turn));
        self.collect_from_rings();
        if self.sweep_at.take_if(|at| *at <= self.now).is_some() {
            self.events.push_back(WorkItem::Sweep);
        }
    }

    /// Gives a turn to each polled connection that has asked something. A connection that has not asked for long is no
    /// longer polled.
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
                connection.empty_polls += 1;
                return connection.empty_polls < EMPTY_POLLS_MAX || !fell_asleep(connection);
            }
            connection.empty_polls = 0;
            connection.turn_is_due = true;
            events.push_back(WorkItem::Turn(*place));
            true
        });
    }

    fn apply(&mut self, event: WorkItem) {
        match event {
            WorkItem::SocketReady(place, peer_state) => self.handle_socket(place, peer_state),
            WorkItem::DoorbellRung(place) => self.handle_doorbell(place),
            WorkItem::Turn(place) => self.serve_turn(place),
            WorkItem::Message(Message::Accepted(accepted)) => self.admit(accepted),
            WorkItem::Message(Message::Stop) => self.shut_down(),
            WorkItem::Sweep => self.sweep(),
        }
    }

    fn handle_socket(&mut self, place: usize, peer_state: PeerState) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        match connection.read_socket(peer_state) {
            Ok(GreetingProgress::Unfinished) => {}
            Ok(GreetingProgress::Complete) => self.attach_ring(place),
            Err(end) => self.close_connection(place, end),
        }
    }

    /// Begins to watch the doorbell, after the greeting.
    fn attach_ring(&mut self, place: usize) {
        let doorbell = self.connections[place].doorbell();
        let registered = doorbell.map(|doorbell| {
            self.poll
                .register(doorbell, doorbell_token(place), Interest::READABLE)
        });
        match registered {
            Some(Ok(())) => self.wake(place),
            _ => self.close_connection(place, Disconnect::Silent),
        }
    }

    fn handle_doorbell(&mut self, place: usize) {
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
            connection.empty_polls = 0;
            self.awake.push(place);
        }
        if !connection.turn_is_due {
            self.serve_turn(place);
        }
    }

    fn serve_turn(&mut self, place: usize) {
        let clock = *self.poll.clock();
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        connection.turn_is_due = false;
        match connection.serve_turn(clock) {
            Ok(RingTurnEnd::Drained) => {}
            Ok(RingTurnEnd::Again) => {
                connection.turn_is_due = true;
                self.again.push_back(place);
            }
            Err(end) => self.close_connection(place, end),
        }
    }

    fn admit(&mut self, accepted: AcceptedSocket) {
        let AcceptedSocket { socket, permit } = accepted;
        let group = permit.group();
        let (tenant, silence_max) = (group.tenant, group.settings.silence_max);
        let pages = self.tenancies.of(tenant);
        let connection = Connection::new(socket, permit, pages, self.now);
        let slot = self.connections.vacant_entry();
        let place = slot.key();
        let (socket, token) = (connection.socket(), socket_token(place));
        let registered = self.poll.register(socket, token, Interest::READABLE);
        if registered.is_err() || self.is_over {
            return;
        }
        slot.insert(connection);
        let due = self.now + silence_max;
        self.sweep_at = Some(self.sweep_at.map_or(due, |at| at.min(due)));
        self.handle_socket(place, PeerState::Open);
    }

    /// Closes a connection. The client has the doorbell as well, so closing it here would not take it out of the epoll.
    fn close_connection(&mut self, place: usize, end: Disconnect) {
        let connection = self.connections.remove(place);
        let both = [connection.doorbell(), Some(connection.socket())];
        for descriptor in both.into_iter().flatten() {
            self.poll.deregister(descriptor);
        }
        // Another connection may take this place before the worker looks through the list again.
        if connection.is_awake {
            self.awake.retain(|awake| *awake != place);
        }
        if connection.turn_is_due {
            self.again.retain(|again| *again != place);
        }
        let (pages, left) = connection.close(end);
        self.removals
            .extend(left.into_iter().map(|removal| PendingRemoval {
                pages: Rc::clone(&pages),
                removal,
            }));
    }

    /// Removes one piece of what clients have left behind.
    fn remove_some(&mut self) {
        let more = match self.removals.front_mut() {
            None => return,
            Some(left) => left.pages.remove_some(&mut left.removal),
        };
        if !more {
            self.removals.pop_front();
        }
    }

    /// Closes connections that have not greeted in time, and sets the time of the next sweep.
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
            self.close_connection(place, Disconnect::WithReason(CloseReason::Late));
        }
        self.sweep_at = next;
    }

    fn shut_down(&mut self) {
        self.is_over = true;
        let places: Vec<usize> = self.connections.iter().map(|(place, _)| place).collect();
        for place in places {
            self.close_connection(place, Disconnect::WithReason(CloseReason::Stopping));
        }
        while !self.removals.is_empty() {
            self.remove_some();
        }
    }
}

/// Serves until the worker is told to stop.
impl<D: TenancyFactory> Work for Worker<D> {
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

fn look_at_rings<P: PageOperations>(
    connections: &Slab<Connection<P>>,
    awake: &[usize],
) -> PollOutcome {
    let rings = awake
        .iter()
        .filter_map(|place| connections.get(*place)?.ring());
    match rings.into_iter().any(|ring| ring.has_work()) {
        true => PollOutcome::Work,
        false => PollOutcome::Nothing,
    }
}

/// Says in every ring that the worker sleeps, unless a ring has work after all.
fn fall_asleep<P: PageOperations>(
    connections: &mut Slab<Connection<P>>,
    awake: &mut Vec<usize>,
) -> PollOutcome {
    awake.retain(|place| {
        let connection = connections.get_mut(*place);
        connection.is_some_and(|connection| !fell_asleep(connection))
    });
    match awake.is_empty() {
        true => PollOutcome::Nothing,
        false => PollOutcome::Work,
    }
}

fn fell_asleep<P: PageOperations>(connection: &mut Connection<P>) -> bool {
    let slept = connection.ring().map(|ring| ring.fall_asleep());
    connection.is_awake = slept == Some(SleepAttempt::WorkArrived);
    !connection.is_awake
}

fn socket_token(place: usize) -> Token {
    Token(place * 2)
}

fn doorbell_token(place: usize) -> Token {
    Token(place * 2 + 1)
}

fn is_doorbell_token(token: Token) -> bool {
    token.0 % 2 == 1
}

fn place_of(token: Token) -> usize {
    token.0 / 2
}
