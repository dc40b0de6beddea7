//! A worker: one thread, one epoll, many connections of all disks.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mio::{Interest, Token};
use rustix::thread::set_current_timer_slack;
use slab::Slab;

use super::connection::{Connection, Turn};
use super::letters::{Message, Newcomer, Parting};
use crate::block::{Outcome, Outcomes, REQUEST_BYTES_MAX};
use crate::nbd::HELD_MAX;
use crate::nbd::session::in_flight::{DiskId, Whose};
use crate::nbd::workplace::Workplace;
use crate::serving::{Mailbox, PollLoop, Readiness, Work};
use crate::tenancy::Doorman;

/// Events that one wait brings at most.
const EVENTS_MAX: usize = 256;

/// Bytes that one read takes at most: a deep pipeline of small writes.
const READ_BYTES: usize = 256 << 10;

/// How often connections are looked through for those that are late or stall, where there may be any.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Who neither sends nor reads for this long gives way while others wait for the memory that it holds.
const STALL_MAX: Duration = Duration::from_secs(10);

/// How long connections that shall end may finish what is under way.
pub(super) const PARTING_MAX: Duration = Duration::from_secs(5);

/// How long the requests of a client that has much to read yet may gather: as long as it takes for a few of its replies,
/// with being woken.
const GATHERING: Duration = Duration::from_micros(5);

/// Who woke later than this noticed that the core is wanted, or that its kernel's clock is coarse.
const GATHERED_LATE: Duration = Duration::from_micros(200);

/// How long requests do not gather after that.
const UNGATHERED: Duration = Duration::from_millis(20);

/// Requests gather where nobody else has asked for this long.
const ALONE_MIN: Duration = Duration::from_millis(1);

/// What a worker acts on. Connections are named by their place.
enum Event {
    Ready(usize, Readiness),
    TurnOf(usize),
    Letter(Message),
    Outcome(Outcome),
    Sweep,
}

/// Connections that shall end, until when, and who waits for that.
struct Farewell {
    whose: Parting,
    until: Instant,
    _gone: Sender<()>,
}

/// One thread's connections and what it needs to serve them.
pub(super) struct Worker {
    poll: PollLoop<Message>,
    events: VecDeque<Event>,
    read: Box<[u8]>,
    workplace: Workplace,
    connections: Slab<Connection>,
    serial: u64,
    /// Connections with more to do after the others' turn; each at most once.
    again: VecDeque<usize>,
    /// Connections that wait until others hold less; each at most once, some of them perhaps gone.
    parked: Vec<usize>,
    farewells: Vec<Farewell>,
    /// Whose turn was the last, and since when all have been its.
    asker: usize,
    asks_alone_since: Instant,
    /// Requests may gather from then on.
    gather_from: Instant,
    sweep_at: Option<Instant>,
    now: Instant,
    is_over: bool,
}

impl Worker {
    pub(super) fn new(doorman: Doorman) -> io::Result<(Worker, Arc<Mailbox<Message>>)> {
        let poll = PollLoop::new(EVENTS_MAX)?;
        let mailbox = Arc::clone(poll.mailbox());
        let outcomes: Arc<dyn Outcomes> = Arc::clone(&mailbox) as Arc<dyn Outcomes>;
        let now = Instant::now();
        let worker = Worker {
            poll,
            events: VecDeque::with_capacity(EVENTS_MAX),
            read: vec![0; READ_BYTES].into_boxed_slice(),
            workplace: Workplace::new(doorman, outcomes),
            connections: Slab::new(),
            serial: 0,
            again: VecDeque::new(),
            parked: Vec::new(),
            farewells: Vec::new(),
            asker: 0,
            asks_alone_since: now,
            gather_from: now,
            sweep_at: None,
            now,
            is_over: false,
        };
        Ok((worker, mailbox))
    }

    /// Blocks until there is something to apply.
    fn wait(&mut self) -> io::Result<()> {
        if self.again.is_empty() {
            self.let_gather();
            self.poll.wait(self.sweep_at)?;
        }
        self.now = self.poll.glance()?;
        self.collect();
        Ok(())
    }

    /// Answers that a client does not come to read yet do not help it. So while nobody else asks, its next requests may
    /// gather: one look, one send and one waking serve several. Where the kernel wakes late, not for a while.
    fn let_gather(&mut self) {
        let is_calm = self.now >= self.gather_from
            && self.now - self.asks_alone_since >= ALONE_MIN
            && !self.poll.mailbox().has_mail();
        let asker = self.connections.get(self.asker);
        if !is_calm || !asker.is_some_and(Connection::can_wait) {
            return;
        }
        let began = Instant::now();
        std::thread::sleep(GATHERING);
        if began.elapsed() > GATHERED_LATE {
            self.gather_from = began + UNGATHERED;
        }
    }

    fn collect(&mut self) {
        let events = &mut self.events;
        self.poll.take_events(|event| {
            let place = event.token().0;
            events.push_back(Event::Ready(place, Readiness::of(event)));
        });
        let mail = self.poll.mail();
        events.extend(mail.letters.drain(..).map(Event::Letter));
        events.extend(mail.outcomes.drain(..).map(Event::Outcome));
        // Who heard an outcome or waited for its turn goes on after that.
        self.events.extend(self.again.drain(..).map(Event::TurnOf));
        if self.sweep_at.take_if(|at| *at <= self.now).is_some() {
            self.events.push_back(Event::Sweep);
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Ready(place, readiness) => self.hear(place, readiness),
            Event::TurnOf(place) => self.turn(place),
            Event::Outcome(outcome) => self.hear_outcome(outcome),
            Event::Letter(Message::Newcomer(newcomer)) => self.admit(newcomer),
            Event::Letter(Message::Part(whose, gone)) => self.begin_parting(whose, gone),
            Event::Sweep => self.sweep(),
        }
    }

    fn hear(&mut self, place: usize, readiness: Readiness) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        connection.notice(readiness, self.now);
        let has_hung_up = connection.has_hung_up();
        if !connection.turn_is_due {
            self.turn(place);
        }
        if has_hung_up {
            self.sweep_by(SWEEP_INTERVAL);
        }
    }

    /// One turn follows for all the outcomes that came together.
    fn hear_outcome(&mut self, outcome: Outcome) {
        let Some(flight) = self.workplace.land(outcome.token) else {
            return;
        };
        let Whose { place, serial } = flight.whose;
        let connection = self.connections.get_mut(place);
        match connection.filter(|connection| connection.serial() == serial) {
            None => self
                .workplace
                .take_back(flight.disk, outcome.buffer, flight.held),
            Some(connection) => {
                connection.hear(flight, outcome, &mut self.workplace);
                self.owe_turn(place);
            }
        }
    }

    /// It gets a turn after what is to be applied now.
    fn owe_turn(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        if !std::mem::replace(&mut connection.turn_is_due, true) {
            self.events.push_back(Event::TurnOf(place));
        }
    }

    fn turn(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        let turn = connection.turn(&mut self.read, &mut self.workplace, self.now);
        connection.turn_is_due = turn == Turn::Again;
        if self.asker != place {
            (self.asker, self.asks_alone_since) = (place, self.now);
        }
        match turn {
            Turn::Rest => {}
            Turn::Blocked => self.watch_for_room(place),
            Turn::Again => self.again.push_back(place),
            Turn::Park => self.park(place),
            Turn::Over => self.dismiss(place),
        }
    }

    /// A reader was too slow once: from now on the kernel says when it has room again. Others are spared that, since
    /// a Unix socket would wake its worker each time its reader reads.
    fn watch_for_room(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        if std::mem::replace(&mut connection.was_blocked, true) {
            return;
        }
        let both = Interest::READABLE | Interest::WRITABLE;
        let told = self.poll.watch_for(connection.socket(), Token(place), both);
        if told.is_err() {
            self.dismiss(place);
        }
    }

    fn park(&mut self, place: usize) {
        if !std::mem::replace(&mut self.connections[place].is_parked, true) {
            self.parked.push(place);
            self.sweep_by(SWEEP_INTERVAL);
        }
    }

    /// Those that wait for memory go on once there is enough for any request.
    fn unpark(&mut self) {
        const ENOUGH_FREE: usize = HELD_MAX - REQUEST_BYTES_MAX as usize;
        let may_be_enough =
            std::mem::take(&mut self.workplace.was_freed) && self.workplace.held <= ENOUGH_FREE;
        if self.parked.is_empty() || !may_be_enough {
            return;
        }
        for place in std::mem::take(&mut self.parked) {
            let connection = self.connections.get_mut(place);
            let Some(connection) = connection.filter(|connection| connection.is_parked) else {
                continue;
            };
            connection.unpark();
            if !std::mem::replace(&mut connection.turn_is_due, true) {
                self.again.push_back(place);
            }
        }
    }

    fn admit(&mut self, newcomer: Newcomer) {
        let Newcomer { socket, permit } = newcomer;
        let slot = self.connections.vacant_entry();
        let place = slot.key();
        self.serial += 1;
        let whose = Whose {
            place,
            serial: self.serial,
        };
        let connection = Connection::new(socket, permit, whose, self.now);
        let told = self
            .poll
            .watch(connection.socket(), Token(place), Interest::READABLE);
        if told.is_err() {
            return;
        }
        let patience = connection.group().settings.handshake_max;
        slot.insert(connection);
        self.sweep_by(patience.min(SWEEP_INTERVAL));
        self.turn(place);
    }

    fn dismiss(&mut self, place: usize) {
        let connection = self.connections.remove(place);
        self.poll.forget(connection.socket());
        // Its place may be taken by another before these are looked through again.
        if connection.turn_is_due {
            self.again.retain(|again| *again != place);
        }
        if connection.is_parked {
            self.parked.retain(|parked| *parked != place);
        }
        connection.end(&mut self.workplace);
        self.end_farewells();
    }

    fn sweep_by(&mut self, soon: Duration) {
        let due = self.now + soon;
        self.sweep_at = Some(self.sweep_at.map_or(due, |at| at.min(due)));
    }

    /// Turns out who haggles for too long, who stalls while others wait for the memory that it holds, who is gone, and
    /// who does not end in time.
    fn sweep(&mut self) {
        let now = self.now;
        let waiting: Vec<DiskId> = self.waiting_disks();
        let mut out = Vec::new();
        let mut look_again = !waiting.is_empty() || !self.farewells.is_empty();
        for (place, connection) in &self.connections {
            let (figures, settings) = (&connection.group().figures, connection.group().settings);
            let is_late = connection.since + settings.handshake_max <= now;
            let is_gone =
                connection.has_hung_up() && connection.moved_at + settings.absence_max <= now;
            if connection.is_haggling() && is_late {
                figures.ended_late.bump();
                out.push(place);
            } else if self.is_in_the_way(connection, &waiting)
                && connection.moved_at + STALL_MAX <= now
            {
                figures.ended_stalled.bump();
                out.push(place);
            } else if is_gone || self.is_overdue(connection) {
                out.push(place);
            }
            look_again |= connection.is_haggling() || connection.has_hung_up();
        }
        for place in out {
            self.dismiss(place);
        }
        if look_again {
            self.sweep_by(SWEEP_INTERVAL);
        }
    }

    /// The disks whose connections wait for memory.
    fn waiting_disks(&self) -> Vec<DiskId> {
        let parked = self.parked.iter();
        let parked = parked.filter_map(|place| self.connections.get(*place));
        parked.filter_map(Connection::disk).collect()
    }

    /// Whether a connection holds memory that others wait for: its own disk's share, or what there is at all.
    fn is_in_the_way(&self, connection: &Connection, waiting: &[DiskId]) -> bool {
        let shares = |disk: DiskId| waiting.contains(&disk);
        connection.hoards()
            && !waiting.is_empty()
            && (self.workplace.is_short() || connection.disk().is_some_and(shares))
    }

    fn is_overdue(&self, connection: &Connection) -> bool {
        let mut due = self
            .farewells
            .iter()
            .filter(|farewell| farewell.until <= self.now);
        due.any(|farewell| farewell.whose.names(connection))
    }

    fn begin_parting(&mut self, whose: Parting, gone: Sender<()>) {
        let named = self.connections.iter_mut();
        let named: Vec<usize> = named
            .filter(|(_, connection)| whose.names(connection))
            .map(|(place, connection)| {
                connection.part();
                place
            })
            .collect();
        named.into_iter().for_each(|place| self.owe_turn(place));
        self.farewells.push(Farewell {
            whose,
            until: self.now + PARTING_MAX,
            _gone: gone,
        });
        self.sweep_by(SWEEP_INTERVAL);
        self.end_farewells();
    }

    /// Tells those who wait for ends that have come.
    fn end_farewells(&mut self) {
        let (connections, workplace, is_over) =
            (&self.connections, &mut self.workplace, &mut self.is_over);
        self.farewells.retain(|farewell| {
            let some_left = connections
                .iter()
                .any(|(_, connection)| farewell.whose.names(connection));
            match &farewell.whose {
                _ if some_left => {}
                Parting::Disk(name) => workplace.forget(name),
                Parting::Group(_) => {}
                Parting::All => *is_over = true,
            }
            some_left
        });
    }
}

/// Serves until it is told to stop and all is answered.
impl Work for Worker {
    fn run(&mut self) -> io::Result<()> {
        // As exact as the kernel can be: by default it may be ten times as late as requests gather.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        while !self.is_over {
            self.wait()?;
            while let Some(event) = self.events.pop_front() {
                self.apply(event);
            }
            self.unpark();
        }
        Ok(())
    }
}

impl Parting {
    fn names(&self, connection: &Connection) -> bool {
        match self {
            Parting::Disk(name) => connection.uses(name),
            Parting::Group(group) => Arc::ptr_eq(group, connection.group()),
            Parting::All => true,
        }
    }
}
