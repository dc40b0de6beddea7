//! One connection: a socket, what travels on it, and its session.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::group::Group;
use crate::block::Outcome;
use crate::doors::{TlsStream, Transport, socket};
use crate::nbd::queue::Queue;
use crate::nbd::session::in_flight::{DiskId, Flight, Whose};
use crate::nbd::session::negotiate::Tls;
use crate::nbd::session::{Advance, Next, Session};
use crate::nbd::workplace::Workplace;
use crate::serving::{Came, Flow, Gone, Permit, Presence, Readiness, Stream};

/// Reads of one connection before others get a turn.
const READS_PER_TURN: usize = 16;

/// Rounds of replies that one connection's requests fill before others get a turn: about 1 MiB.
const ROUNDS_PER_TURN: usize = 4;

/// Bytes of a small read, at the most: of such, those that a client has yet to read take it some time.
const SMALL_READ: u64 = 8 << 10;

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

/// One connection.
pub(super) struct Connection {
    stream: Stream,
    session: Session,
    permit: Permit<Group>,
    serial: u64,
    inbox: Queue,
    outbox: Queue,
    next: Next,
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
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        permit: Permit<Group>,
        whose: Whose,
        now: Instant,
    ) -> Connection {
        let tls = match permit.group().tls {
            Some(_) => Tls::Required,
            None => Tls::Absent,
        };
        let mut outbox = Queue::default();
        Connection {
            stream: Stream::new(socket, None),
            session: Session::new(whose, tls, &mut outbox),
            permit,
            serial: whose.serial,
            inbox: Queue::default(),
            outbox,
            next: Next::Read,
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
        self.stream.socket()
    }

    pub(super) fn group(&self) -> &Arc<Group> {
        self.permit.group()
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
        let is_worth_it = self.stream.is_local() && self.reads_small && all_is_said;
        is_worth_it && socket::is_far_behind(self.stream.socket())
    }

    /// Notes what the kernel said; a turn follows.
    pub(super) fn notice(&mut self, readiness: Readiness, now: Instant) {
        let had_hung_up = self.has_hung_up();
        self.stream.notice(readiness);
        if self.has_hung_up() && !had_hung_up {
            self.moved_at = now;
        }
    }

    /// Whether its client is gone, or sends nothing more.
    pub(super) fn has_hung_up(&self) -> bool {
        self.stream.presence() > Presence::Here
    }

    /// Whether its client may have gone on elsewhere.
    fn may_be_elsewhere(&self) -> bool {
        match self.stream.presence() {
            Presence::Here => false,
            Presence::Silent => !self.stream.is_local(),
            Presence::Gone => true,
        }
    }

    /// Whether all that was asked is answered, or nobody is there to read it.
    fn owes_nothing(&self) -> bool {
        self.session.in_flight() == 0 || self.stream.presence() == Presence::Gone
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
            self.permit.keep();
        }
        let tally = std::mem::take(&mut self.session.tally);
        let reads = std::mem::take(&mut self.session.reads);
        self.reads_small = reads.count > 0 && reads.bytes <= reads.count * SMALL_READ;
        self.permit.group().figures.count(tally);
        if turn == Turn::Over {
            self.stream.hear_last_words(read);
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
                    self.permit.group().figures.ended_garbage.bump();
                    return Ok(Turn::Over);
                }
                Next::Close if flow == Flow::Open && self.owes_nothing() => return Ok(Turn::Over),
                // What it asked for last was never begun. It may ask anew over another connection, and be past that
                // by the time that there is room here.
                Next::Hold | Next::Park if self.may_be_elsewhere() => self.next = Next::Close,
                Next::Close | Next::Hold => return Ok(rest),
                Next::Tls | Next::Write | Next::Park if flow == Flow::Blocked => return Ok(rest),
                Next::Tls => self.begin_tls()?,
                Next::Park => return Ok(Turn::Park),
                Next::Write if rounds == ROUNDS_PER_TURN => return Ok(Turn::Again),
                Next::Write => {
                    self.run_inbox(workplace);
                    rounds += 1;
                }
                Next::Read if !self.stream.is_readable() => return Ok(rest),
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
        let tls = self.permit.group().tls.as_ref().ok_or(Gone)?;
        if !self.inbox.is_empty() {
            return Err(Gone);
        }
        let tls = TlsStream::new(tls, Transport::Tls).ok_or(Gone)?;
        self.stream.begin_tls(tls);
        self.session.begin_tls();
        self.next = Next::Read;
        Ok(())
    }

    /// Sends what waits.
    fn send(&mut self, now: Instant) -> Result<Flow, Gone> {
        let waited = self.outbox.len();
        let flow = self.stream.send(&mut self.outbox)?;
        if self.outbox.len() < waited {
            self.moved_at = now;
        }
        Ok(flow)
    }

    /// Reads once, a payload straight into its buffer, and runs what came in.
    fn receive(
        &mut self,
        read: &mut [u8],
        workplace: &mut Workplace,
        now: Instant,
    ) -> Result<(), Gone> {
        let figures = &self.permit.group().figures;
        let apart = self.session.wanted();
        let wanted = apart.len();
        match self.stream.receive(apart, read, figures)? {
            Came::Nothing => {}
            Came::End => self.next = Next::Close,
            Came::Bytes(count) => {
                let apart = count.min(wanted);
                self.moved_at = now;
                self.permit.begin();
                self.session.got(apart);
                self.run_fresh(&read[..count - apart], workplace);
            }
        }
        Ok(())
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
        let exports = &self.permit.group().exports;
        let Advance { consumed, next } =
            self.session
                .advance(input, exports, &mut self.outbox, workplace);
        self.next = next;
        consumed
    }
}
