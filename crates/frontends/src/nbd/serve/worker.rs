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

use super::connection::{Connection, NbdTurnEnd};
use super::messages::{AcceptedSocket, Message, ShutdownScope};
use crate::block_device::{DiskOutcome, OutcomeSink, REQUEST_BYTES_MAX};
use crate::clock::MonotonicClock;
use crate::nbd::HELD_MAX;
use crate::nbd::session::in_flight::{ConnectionId, DiskId};
use crate::nbd::worker_resources::WorkerResources;
use crate::serving::{Mailbox, PollLoop, Readiness, Work};
use crate::tenancy::StoreHandle;

/// The most events that one wait returns.
const EVENTS_MAX: usize = 256;

/// The most bytes that one read takes: a deep pipeline of small writes.
const READ_BYTES: usize = 256 << 10;

/// How often the worker looks for connections that are late or stall, while there may be any.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How long a connection may neither send nor read while others wait for the memory that it holds. After that the
/// worker closes it.
const STALL_MAX: Duration = Duration::from_secs(10);

/// How long connections that are being closed may finish what is under way.
pub(super) const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(5);

/// How long the worker lets requests gather if their client still has much to read. A client takes about that long for
/// a few replies and a wake-up.
const BATCH_DELAY: Duration = Duration::from_micros(5);

/// If the worker wakes later than this, others want the core or the kernel's clock is coarse.
const BATCH_DELAY_LATE: Duration = Duration::from_micros(200);

/// How long the worker does not let requests gather after a late wake-up.
const BATCH_BACKOFF: Duration = Duration::from_millis(20);

/// How long a client must have been the only one to ask before the worker lets its requests gather.
const ALONE_MIN: Duration = Duration::from_millis(1);

/// What a worker acts on. A number names a connection by its place.
enum WorkItem {
    Ready(usize, Readiness),
    Turn(usize),
    Message(Message),
    Outcome(DiskOutcome),
    Sweep,
}

/// Connections that are being closed, their deadline, and the sender whose drop reports the end.
struct PendingShutdown {
    scope: ShutdownScope,
    deadline: Instant,
    _gone: Sender<()>,
}

/// One thread's connections, and what it needs to serve them.
pub(super) struct Worker {
    poll: PollLoop<Message>,
    events: VecDeque<WorkItem>,
    read: Box<[u8]>,
    resources: WorkerResources,
    connections: Slab<Connection>,
    serial: u64,
    /// Connections with more to do after the others' turn. Each is listed at most once.
    again: VecDeque<usize>,
    /// Connections that wait until others hold less memory. Each is listed at most once, and some may be gone.
    parked: Vec<usize>,
    pending_shutdowns: Vec<PendingShutdown>,
    /// Which connection had the last turn, and since when it has had every turn.
    last_served: usize,
    alone_since: Instant,
    /// From when on requests may gather.
    batching_allowed_from: Instant,
    sweep_at: Option<Instant>,
    now: Instant,
    is_over: bool,
}

impl Worker {
    pub(super) fn new(
        store: StoreHandle,
        clock: MonotonicClock,
    ) -> io::Result<(Worker, Arc<Mailbox<Message>>)> {
        let poll = PollLoop::new(EVENTS_MAX, clock)?;
        let mailbox = Arc::clone(poll.mailbox());
        let outcomes: Arc<dyn OutcomeSink> = Arc::clone(&mailbox) as Arc<dyn OutcomeSink>;
        let now = poll.clock().now();
        let worker = Worker {
            poll,
            events: VecDeque::with_capacity(EVENTS_MAX),
            read: vec![0; READ_BYTES].into_boxed_slice(),
            resources: WorkerResources::new(store, outcomes),
            connections: Slab::new(),
            serial: 0,
            again: VecDeque::new(),
            parked: Vec::new(),
            pending_shutdowns: Vec::new(),
            last_served: 0,
            alone_since: now,
            batching_allowed_from: now,
            sweep_at: None,
            now,
            is_over: false,
        };
        Ok((worker, mailbox))
    }

    /// Blocks until there is something to apply.
    fn wait(&mut self) -> io::Result<()> {
        if self.again.is_empty() {
            self.delay_to_batch();
            self.poll.wait(self.sweep_at)?;
        }
        self.now = self.poll.poll_if_due()?;
        self.collect();
        Ok(())
    }

    /// Lets a client's next requests gather while nobody else asks. Earlier answers would not help the client, because
    /// it has not read the last ones yet. So one poll, one send and one wake-up serve several requests. If the kernel
    /// wakes the worker late, requests do not gather for a while.
    fn delay_to_batch(&mut self) {
        let is_calm = self.now >= self.batching_allowed_from
            && self.now - self.alone_since >= ALONE_MIN
            && !self.poll.mailbox().has_mail();
        let asker = self.connections.get(self.last_served);
        if !is_calm || !asker.is_some_and(Connection::may_delay_next) {
            return;
        }
        let began = self.poll.clock().now();
        std::thread::sleep(BATCH_DELAY);
        if self.poll.clock().now() - began > BATCH_DELAY_LATE {
            self.batching_allowed_from = began + BATCH_BACKOFF;
        }
    }

    fn collect(&mut self) {
        let events = &mut self.events;
        self.poll.drain_events(|event| {
            let place = event.token().0;
            events.push_back(WorkItem::Ready(place, Readiness::of(event)));
        });
        let mail = self.poll.mail();
        events.extend(mail.messages.drain(..).map(WorkItem::Message));
        events.extend(mail.outcomes.drain(..).map(WorkItem::Outcome));
        // A connection that got an outcome or waited for its turn goes on after these.
        self.events.extend(self.again.drain(..).map(WorkItem::Turn));
        if self.sweep_at.take_if(|at| *at <= self.now).is_some() {
            self.events.push_back(WorkItem::Sweep);
        }
    }

    fn apply(&mut self, event: WorkItem) {
        match event {
            WorkItem::Ready(place, readiness) => self.handle_readiness(place, readiness),
            WorkItem::Turn(place) => self.serve_turn(place),
            WorkItem::Outcome(outcome) => self.handle_outcome(outcome),
            WorkItem::Message(Message::Accepted(accepted)) => self.admit(accepted),
            WorkItem::Message(Message::Shutdown(scope, gone)) => self.begin_shutdown(scope, gone),
            WorkItem::Sweep => self.sweep(),
        }
    }

    fn handle_readiness(&mut self, place: usize, readiness: Readiness) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        connection.update_readiness(readiness, self.now);
        let has_hung_up = connection.has_hung_up();
        if !connection.turn_is_due {
            self.serve_turn(place);
        }
        if has_hung_up {
            self.schedule_sweep(SWEEP_INTERVAL);
        }
    }

    /// Takes a request's outcome. All outcomes that came together share one turn.
    fn handle_outcome(&mut self, outcome: DiskOutcome) {
        let Some(request) = self.resources.remove_in_flight(outcome.token) else {
            return;
        };
        let ConnectionId { place, serial } = request.connection;
        let connection = self.connections.get_mut(place);
        match connection.filter(|connection| connection.serial() == serial) {
            None => self
                .resources
                .release_buffer(request.disk, outcome.buffer, request.held),
            Some(connection) => {
                connection.complete_request(request, outcome, &mut self.resources);
                self.schedule_turn(place);
            }
        }
    }

    /// Gives the connection a turn after what is already to be applied.
    fn schedule_turn(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        if !std::mem::replace(&mut connection.turn_is_due, true) {
            self.events.push_back(WorkItem::Turn(place));
        }
    }

    fn serve_turn(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        let turn = connection.serve_turn(&mut self.read, &mut self.resources, self.now);
        connection.turn_is_due = turn == NbdTurnEnd::Again;
        if self.last_served != place {
            (self.last_served, self.alone_since) = (place, self.now);
        }
        match turn {
            NbdTurnEnd::Waiting => {}
            NbdTurnEnd::Blocked => self.watch_writable(place),
            NbdTurnEnd::Again => self.again.push_back(place),
            NbdTurnEnd::AwaitMemory => self.park(place),
            NbdTurnEnd::Closed => self.close_connection(place),
        }
    }

    /// Has the kernel report when the socket has room again. The worker does this only after a client was too slow
    /// once, because a Unix socket would wake the worker at every read.
    fn watch_writable(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        if std::mem::replace(&mut connection.was_blocked, true) {
            return;
        }
        let both = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .reregister(connection.socket(), Token(place), both);
        if registered.is_err() {
            self.close_connection(place);
        }
    }

    fn park(&mut self, place: usize) {
        if !std::mem::replace(&mut self.connections[place].is_parked, true) {
            self.parked.push(place);
            self.schedule_sweep(SWEEP_INTERVAL);
        }
    }

    /// Lets connections that wait for memory go on once there is enough for any request.
    fn unpark(&mut self) {
        const ENOUGH_FREE: usize = HELD_MAX - REQUEST_BYTES_MAX as usize;
        let may_be_enough =
            std::mem::take(&mut self.resources.was_freed) && self.resources.held <= ENOUGH_FREE;
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

    fn admit(&mut self, accepted: AcceptedSocket) {
        let AcceptedSocket { socket, permit } = accepted;
        let slot = self.connections.vacant_entry();
        let place = slot.key();
        self.serial += 1;
        let id = ConnectionId {
            place,
            serial: self.serial,
        };
        let connection = Connection::new(socket, permit, id, self.now);
        let registered = self
            .poll
            .register(connection.socket(), Token(place), Interest::READABLE);
        if registered.is_err() {
            return;
        }
        let handshake_max = connection.group().settings.handshake_max;
        slot.insert(connection);
        self.schedule_sweep(handshake_max.min(SWEEP_INTERVAL));
        self.serve_turn(place);
    }

    fn close_connection(&mut self, place: usize) {
        let connection = self.connections.remove(place);
        self.poll.deregister(connection.socket());
        // Another connection may take this place before the worker looks through these lists again.
        if connection.turn_is_due {
            self.again.retain(|again| *again != place);
        }
        if connection.is_parked {
            self.parked.retain(|parked| *parked != place);
        }
        connection.end(&mut self.resources);
        self.finish_shutdowns();
    }

    fn schedule_sweep(&mut self, soon: Duration) {
        let due = self.now + soon;
        self.sweep_at = Some(self.sweep_at.map_or(due, |at| at.min(due)));
    }

    /// Closes connections that:
    ///
    /// - negotiate for too long,
    /// - stall while others wait for the memory that they hold,
    /// - have lost their client, or
    /// - do not end in time.
    fn sweep(&mut self) {
        let now = self.now;
        let waiting: Vec<DiskId> = self.waiting_disks();
        let mut out = Vec::new();
        let mut look_again = !waiting.is_empty() || !self.pending_shutdowns.is_empty();
        for (place, connection) in &self.connections {
            let (figures, settings) = (&connection.group().figures, connection.group().settings);
            let is_late = connection.connected_at + settings.handshake_max <= now;
            let is_gone =
                connection.has_hung_up() && connection.last_progress + settings.absence_max <= now;
            if connection.is_negotiating() && is_late {
                figures.ended_late.bump();
                out.push(place);
            } else if self.is_in_the_way(connection, &waiting)
                && connection.last_progress + STALL_MAX <= now
            {
                figures.ended_stalled.bump();
                out.push(place);
            } else if is_gone || self.is_overdue(connection) {
                out.push(place);
            }
            look_again |= connection.is_negotiating() || connection.has_hung_up();
        }
        for place in out {
            self.close_connection(place);
        }
        if look_again {
            self.schedule_sweep(SWEEP_INTERVAL);
        }
    }

    /// The disks whose connections wait for memory.
    fn waiting_disks(&self) -> Vec<DiskId> {
        let parked = self.parked.iter();
        let parked = parked.filter_map(|place| self.connections.get(*place));
        parked.filter_map(Connection::disk).collect()
    }

    /// Returns whether a connection holds memory that others wait for: the share of its own disk, or all there is.
    fn is_in_the_way(&self, connection: &Connection, waiting: &[DiskId]) -> bool {
        let shares = |disk: DiskId| waiting.contains(&disk);
        connection.ties_up_memory()
            && !waiting.is_empty()
            && (self.resources.is_memory_short() || connection.disk().is_some_and(shares))
    }

    fn is_overdue(&self, connection: &Connection) -> bool {
        let mut due = self
            .pending_shutdowns
            .iter()
            .filter(|shutdown| shutdown.deadline <= self.now);
        due.any(|shutdown| shutdown.scope.covers(connection))
    }

    fn begin_shutdown(&mut self, scope: ShutdownScope, gone: Sender<()>) {
        let named = self.connections.iter_mut();
        let named: Vec<usize> = named
            .filter(|(_, connection)| scope.covers(connection))
            .map(|(place, connection)| {
                connection.shut_down();
                place
            })
            .collect();
        named
            .into_iter()
            .for_each(|place| self.schedule_turn(place));
        self.pending_shutdowns.push(PendingShutdown {
            scope,
            deadline: self.now + SHUTDOWN_TIME_MAX,
            _gone: gone,
        });
        self.schedule_sweep(SWEEP_INTERVAL);
        self.finish_shutdowns();
    }

    /// Ends the shutdowns whose connections are all gone.
    fn finish_shutdowns(&mut self) {
        let (connections, resources, is_over) =
            (&self.connections, &mut self.resources, &mut self.is_over);
        self.pending_shutdowns.retain(|shutdown| {
            let some_left = connections
                .iter()
                .any(|(_, connection)| shutdown.scope.covers(connection));
            match &shutdown.scope {
                _ if some_left => {}
                ShutdownScope::Disk(name) => resources.forget_disk(name),
                ShutdownScope::Group(_) => {}
                ShutdownScope::All => *is_over = true,
            }
            some_left
        });
    }
}

/// Serves until the worker is told to stop and everything is answered.
impl Work for Worker {
    fn run(&mut self) -> io::Result<()> {
        // Asks for the most exact timer. By default a sleep may be ten times as late as requests gather.
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

impl ShutdownScope {
    fn covers(&self, connection: &Connection) -> bool {
        match self {
            ShutdownScope::Disk(name) => connection.uses(name),
            ShutdownScope::Group(group) => Arc::ptr_eq(group, connection.group()),
            ShutdownScope::All => true,
        }
    }
}
