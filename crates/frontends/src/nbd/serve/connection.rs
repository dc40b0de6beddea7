//! One connection: a socket, what travels on it, and its session.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;

use super::Group;
use crate::block::Outcome;
use crate::doors::{Place, Transport, Veil, socket};
use crate::nbd::flights::{DiskId, Flight, Whose};
use crate::nbd::negotiate::Tls;
use crate::nbd::queue::Queue;
use crate::nbd::session::{Advance, Next, Session};
use crate::nbd::workplace::Workplace;

/// Reads of one connection before others get a turn.
const READS_PER_TURN: usize = 16;

/// Rounds of replies that one connection's requests fill before others get a turn: about 1 MiB.
const ROUNDS_PER_TURN: usize = 4;

/// What a closing connection's client may still have sent: it is read, lest the kernel answers with a reset that
/// overtakes the last reply.
const LAST_WORDS_MAX: usize = 256 << 10;

/// Bytes of a small read, at the most: of such, those that a client has yet to read take it some time.
const SMALL_READ: u64 = 8 << 10;

/// One of the connections that a listener takes; free again when dropped.
pub(super) struct Seat {
    group: Arc<Group>,
    place: Place,
}

impl Seat {
    /// A seat; none where all are taken.
    pub(super) fn take(group: &Arc<Group>, socket: &Arc<OwnedFd>) -> Option<Seat> {
        let figures = &group.figures;
        let Ok((place, gave_way)) = group.lobby.enter(socket, Instant::now()) else {
            figures.refused_full.bump();
            return None;
        };
        if gave_way.is_some() {
            figures.ended_late.bump();
        }
        figures.connections.bump();
        figures.connections_made.bump();
        let group = Arc::clone(group);
        Some(Seat { group, place })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.group.figures.connections.drop_one();
    }
}

/// How a turn of a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It waits for its client or its disk.
    Rest,
    /// It waits for its client to read.
    Blocked,
    /// It has more to do, but it is the others' turn.
    Again,
    /// It waits until others hold less memory.
    Park,
    /// It is over.
    Over,
}

/// What the kernel says of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Presence {
    /// It may send and read.
    #[default]
    Here,
    /// It sends nothing more. Over TCP that is all that is heard of one that is gone.
    Silent,
    /// Nobody reads what it is sent.
    Gone,
}

/// The other side is gone, or its socket is of no more use.
struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Gone {
        Gone
    }
}

/// Whether a socket took all it was given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Open,
    Blocked,
}

/// One connection.
pub(super) struct Connection {
    socket: Arc<OwnedFd>,
    is_local: bool,
    veil: Option<Box<Veil>>,
    session: Session,
    seat: Seat,
    serial: u64,
    inbox: Queue,
    outbox: Queue,
    next: Next,
    readable: bool,
    presence: Presence,
    /// Whether what its last turn's requests read was small on average.
    reads_small: bool,
    /// Memory of its queues that the workplace knows of.
    held_counted: usize,
    pub(super) since: Instant,
    /// When bytes last went either way.
    pub(super) moved_at: Instant,
    pub(super) turn_is_due: bool,
    pub(super) was_blocked: bool,
    pub(super) is_parked: bool,
}

impl Connection {
    pub(super) fn new(socket: Arc<OwnedFd>, seat: Seat, whose: Whose, now: Instant) -> Connection {
        let tls = match seat.group.tls {
            Some(_) => Tls::Required,
            None => Tls::Absent,
        };
        let mut outbox = Queue::default();
        Connection {
            is_local: socket::is_local(&socket),
            socket,
            veil: None,
            session: Session::new(whose, tls, &mut outbox),
            seat,
            serial: whose.serial,
            inbox: Queue::default(),
            outbox,
            next: Next::Read,
            readable: true,
            presence: Presence::Here,
            reads_small: false,
            held_counted: 0,
            since: now,
            moved_at: now,
            turn_is_due: false,
            was_blocked: false,
            is_parked: false,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn group(&self) -> &Arc<Group> {
        &self.seat.group
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn is_haggling(&self) -> bool {
        self.session.is_haggling()
    }

    /// Its disk, once it has one.
    pub(super) fn disk(&self) -> Option<DiskId> {
        self.session.disk().map(DiskId::of)
    }

    /// Whether it is about the disk of that name.
    pub(super) fn uses(&self, disk: &str) -> bool {
        self.session.disk().is_some_and(|used| used.name() == disk)
    }

    /// It keeps memory from others and waits for its client.
    pub(super) fn hoards(&self) -> bool {
        self.session.is_amid_payload() || !self.outbox.is_empty()
    }

    /// Whether its client has so many replies to read yet that it would not notice if the next came a little later. Few
    /// large ones are read too soon for that.
    pub(super) fn can_wait(&self) -> bool {
        let all_is_said = self.outbox.is_empty() && self.session.in_flight() == 0;
        self.is_local && self.reads_small && all_is_said && socket::is_far_behind(&self.socket)
    }

    /// Notes what the kernel said; a turn follows.
    pub(super) fn notice(&mut self, readable: bool, presence: Presence, now: Instant) {
        let had_hung_up = self.has_hung_up();
        self.presence = self.presence.max(presence);
        self.readable |= readable | (presence > Presence::Here);
        if self.has_hung_up() && !had_hung_up {
            self.moved_at = now;
        }
    }

    /// Whether its client is gone, or sends nothing more.
    pub(super) fn has_hung_up(&self) -> bool {
        self.presence > Presence::Here
    }

    /// Whether its client may have gone on elsewhere.
    fn may_be_elsewhere(&self) -> bool {
        match self.presence {
            Presence::Here => false,
            Presence::Silent => !self.is_local,
            Presence::Gone => true,
        }
    }

    /// Hears what became of a request; a turn follows.
    pub(super) fn hear(&mut self, flight: Flight, outcome: Outcome, workplace: &mut Workplace) {
        if self.outbox.held() == 0 {
            self.outbox = workplace.queue();
        }
        self.session
            .hear(flight, outcome, &mut self.outbox, workplace);
        if self.next == Next::Hold {
            self.next = Next::Write;
        }
    }

    /// Others hold less now; a turn follows.
    pub(super) fn unpark(&mut self) {
        self.is_parked = false;
        if self.next == Next::Park {
            self.next = Next::Write;
        }
    }

    /// Nothing more is heard: it is over once what is under way is answered; a turn follows.
    pub(super) fn part(&mut self) {
        self.next = Next::Close;
    }

    /// Sends, reads and runs requests until the socket or fairness stops it. `read` is room for what comes.
    pub(super) fn turn(
        &mut self,
        read: &mut [u8],
        workplace: &mut Workplace,
        now: Instant,
    ) -> Turn {
        if self.outbox.held() == 0 {
            self.outbox = workplace.queue();
        }
        let turn = self.serve(read, workplace, now).unwrap_or(Turn::Over);
        if !self.is_haggling() {
            self.seat.place.speak();
        }
        let tally = std::mem::take(&mut self.session.tally);
        self.reads_small = tally.reads > 0 && tally.bytes_read <= tally.reads * SMALL_READ;
        self.seat.group.figures.count(tally);
        if turn == Turn::Over {
            self.hear_last_words(read);
        }
        for queue in [&mut self.inbox, &mut self.outbox] {
            if queue.is_empty() && queue.held() > 0 {
                workplace.take_back_queue(std::mem::take(queue));
            }
        }
        let held = self.inbox.held() + self.outbox.held();
        workplace.recount(self.held_counted, held);
        self.held_counted = held;
        turn
    }

    /// Gives back what it holds of its workplace.
    pub(super) fn end(self, workplace: &mut Workplace) {
        workplace.recount(self.held_counted, 0);
        self.session.end(workplace);
    }

    fn serve(
        &mut self,
        read: &mut [u8],
        workplace: &mut Workplace,
        now: Instant,
    ) -> Result<Turn, Gone> {
        let (mut reads, mut rounds) = (0, 0);
        loop {
            let flow = self.send(now)?;
            let rest = match flow {
                Flow::Open => Turn::Rest,
                Flow::Blocked => Turn::Blocked,
            };
            match self.next {
                Next::Garbage => {
                    self.seat.group.figures.ended_garbage.bump();
                    return Ok(Turn::Over);
                }
                Next::Close if flow == Flow::Open && self.session.in_flight() == 0 => {
                    return Ok(Turn::Over);
                }
                // What it asked for last was never begun. It may ask anew over another connection, and be past that
                // by the time that there is room here.
                Next::Hold | Next::Park if self.may_be_elsewhere() => self.next = Next::Close,
                Next::Close | Next::Hold => return Ok(rest),
                Next::Veil | Next::Write | Next::Park if flow == Flow::Blocked => return Ok(rest),
                Next::Veil => self.begin_tls()?,
                Next::Park => return Ok(Turn::Park),
                Next::Write if rounds == ROUNDS_PER_TURN => return Ok(Turn::Again),
                Next::Write => {
                    self.run_inbox(workplace);
                    rounds += 1;
                }
                Next::Read if !self.readable => return Ok(rest),
                Next::Read if reads == READS_PER_TURN => return Ok(Turn::Again),
                Next::Read => {
                    self.receive(read, workplace, now)?;
                    reads += 1;
                }
            }
        }
    }

    /// What was said in the open beyond the request for TLS would be believed as if it had come through it.
    fn begin_tls(&mut self) -> Result<(), Gone> {
        let tls = self.seat.group.tls.as_ref().ok_or(Gone)?;
        if !self.inbox.is_empty() {
            return Err(Gone);
        }
        let veil = Veil::new(tls, Transport::Tls).ok_or(Gone)?;
        self.veil = Some(Box::new(veil));
        self.session.veil();
        self.next = Next::Read;
        self.readable = true;
        Ok(())
    }

    /// Writes what waits to be sent.
    fn send(&mut self, now: Instant) -> Result<Flow, Gone> {
        while !self.outbox.is_empty() {
            let sent = match &mut self.veil {
                None => self.outbox.send(&self.socket),
                Some(veil) => {
                    let sent = veil.write(&self.socket, self.outbox.waiting());
                    sent.map(|count| self.outbox.finish(count))
                }
            };
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Flow::Blocked);
                }
                Err(error) => return Err(error.into()),
            }
            self.moved_at = now;
        }
        match &mut self.veil {
            None => Ok(Flow::Open),
            Some(veil) => match veil.flush(&self.socket)? {
                true => Ok(Flow::Open),
                false => Ok(Flow::Blocked),
            },
        }
    }

    /// Reads once, and runs what came in.
    fn receive(
        &mut self,
        read: &mut [u8],
        workplace: &mut Workplace,
        now: Instant,
    ) -> Result<(), Gone> {
        match self.read(read) {
            Ok((0, 0)) => {
                self.next = Next::Close;
                Ok(())
            }
            Ok((apart, count)) => {
                self.moved_at = now;
                self.seat.place.begin();
                self.session.got(apart);
                self.run_fresh(&read[..count], workplace);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads from the socket: a payload straight into its buffer, and what follows it into `space`. Says how many
    /// bytes came of each.
    fn read(&mut self, space: &mut [u8]) -> io::Result<(usize, usize)> {
        let apart = self.session.wanted();
        let wanted = apart.len();
        let (count, most) = match &mut self.veil {
            Some(veil) if wanted > 0 => (
                veil.read(&self.socket, apart, &self.seat.group.figures)?,
                wanted,
            ),
            Some(veil) => (
                veil.read(&self.socket, space, &self.seat.group.figures)?,
                space.len(),
            ),
            None if wanted > 0 => {
                let most = wanted + space.len();
                (receive_both(&self.socket, apart, space)?, most)
            }
            None => (socket::receive(&self.socket, space)?, space.len()),
        };
        // A short read emptied the socket, and the kernel tells when more comes. Not so after a hang-up, which it
        // told already, nor through TLS, which keeps bytes of its own.
        let emptied = count < most && !self.has_hung_up() && self.veil.is_none();
        self.readable = !emptied;
        let went_apart = count.min(wanted);
        Ok((went_apart, count - went_apart))
    }

    /// Runs requests, where nothing was left over straight out of the worker's room; what remains of it is kept.
    fn run_fresh(&mut self, input: &[u8], workplace: &mut Workplace) {
        if !self.inbox.is_empty() {
            self.inbox.push(input);
            self.run_inbox(workplace);
            return;
        }
        let consumed = self.advance(input, workplace);
        if consumed < input.len() && self.next != Next::Close {
            if self.inbox.held() == 0 {
                self.inbox = workplace.queue();
            }
            self.inbox.push(&input[consumed..]);
        }
    }

    fn run_inbox(&mut self, workplace: &mut Workplace) {
        let mut inbox = std::mem::take(&mut self.inbox);
        let consumed = self.advance(inbox.waiting(), workplace);
        inbox.finish(consumed);
        self.inbox = inbox;
    }

    fn advance(&mut self, input: &[u8], workplace: &mut Workplace) -> usize {
        let exports = &self.seat.group.exports;
        let Advance { consumed, next } =
            self.session
                .advance(input, exports, &mut self.outbox, workplace);
        self.next = next;
        consumed
    }

    fn hear_last_words(&mut self, read: &mut [u8]) {
        if let Some(veil) = &mut self.veil {
            veil.close(&self.socket);
        }
        let mut heard = 0;
        while heard < LAST_WORDS_MAX {
            match socket::receive(&self.socket, read) {
                Ok(count) if count > 0 => heard += count,
                _ => return,
            }
        }
    }
}

/// Fills `first`, then `second`.
fn receive_both(socket: &OwnedFd, first: &mut [u8], second: &mut [u8]) -> io::Result<usize> {
    let mut both = [IoSliceMut::new(first), IoSliceMut::new(second)];
    loop {
        match rustix::io::readv(socket, &mut both) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(count) => return Ok(count),
        }
    }
}
