//! One connection: its socket, its buffers and its session.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::group::Group;
use crate::block_device::DiskOutcome;
use crate::listeners::{TlsStream, Transport, socket};
use crate::nbd::session::in_flight::{ConnectionId, DiskId, InFlightRequest};
use crate::nbd::session::negotiation::TlsState;
use crate::nbd::session::{Advance, LoopAction, Session};
use crate::nbd::socket_buffer::SocketBuffer;
use crate::nbd::worker_resources::WorkerResources;
use crate::serving::{
    GroupPermit, PeerGone, PeerState, Readiness, ReceiveOutcome, SendStatus, Stream,
};

/// How often one connection reads before others get a turn.
const READS_PER_TURN: usize = 16;

/// How many rounds of replies one connection makes before others get a turn. That is about 1 MiB.
const ROUNDS_PER_TURN: usize = 4;

/// The largest average read, bytes, that counts as small. A client needs some time to read many small replies.
const SMALL_READ: u64 = 8 << 10;

/// How a turn of a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NbdTurnEnd {
    /// The connection waits for its client or its disk.
    Waiting,
    /// The connection waits for its client to read.
    Blocked,
    /// The connection has more to do, but others get their turn first.
    Again,
    /// The connection waits until others hold less memory.
    AwaitMemory,
    /// The connection is over.
    Closed,
}

/// One connection.
pub(super) struct Connection {
    stream: Stream,
    session: Session,
    permit: GroupPermit<Group>,
    serial: u64,
    inbox: SocketBuffer,
    outbox: SocketBuffer,
    next: LoopAction,
    /// Whether the reads of the last turn were small on average.
    reads_small: bool,
    /// How much memory of its socket buffers the worker's resources count.
    held_counted: usize,
    pub(super) connected_at: Instant,
    /// When bytes last went in either direction.
    pub(super) last_progress: Instant,
    pub(super) turn_is_due: bool,
    pub(super) was_blocked: bool,
    pub(super) is_parked: bool,
}

impl Connection {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        permit: GroupPermit<Group>,
        id: ConnectionId,
        now: Instant,
    ) -> Connection {
        let tls = match permit.group().tls {
            Some(_) => TlsState::Required,
            None => TlsState::Absent,
        };
        let mut outbox = SocketBuffer::default();
        Connection {
            stream: Stream::new(socket, None),
            session: Session::new(id, tls, &mut outbox),
            permit,
            serial: id.serial,
            inbox: SocketBuffer::default(),
            outbox,
            next: LoopAction::Read,
            reads_small: false,
            held_counted: 0,
            connected_at: now,
            last_progress: now,
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

    pub(super) fn is_negotiating(&self) -> bool {
        self.session.is_negotiating()
    }

    /// The connection's disk, after the client chose one.
    pub(super) fn disk(&self) -> Option<DiskId> {
        self.session.disk().map(DiskId::of)
    }

    /// Returns whether the connection uses the disk of that name.
    pub(super) fn uses(&self, disk: &str) -> bool {
        self.session.disk().is_some_and(|used| used.name() == disk)
    }

    /// Returns whether the connection keeps memory from others while it waits for its client.
    pub(super) fn ties_up_memory(&self) -> bool {
        self.session.is_amid_payload() || !self.outbox.is_empty()
    }

    /// Returns whether the client still has so many replies to read that it would not notice a short delay of the next
    /// ones. A client reads few large replies too soon for that.
    pub(super) fn may_delay_next(&self) -> bool {
        let all_is_said = self.outbox.is_empty() && self.session.in_flight() == 0;
        let is_worth_it = self.stream.is_local() && self.reads_small && all_is_said;
        is_worth_it && socket::is_far_behind(self.stream.socket())
    }

    /// Notes what the kernel reported. The caller must give the connection a turn.
    pub(super) fn update_readiness(&mut self, readiness: Readiness, now: Instant) {
        let had_hung_up = self.has_hung_up();
        self.stream.update_readiness(readiness);
        if self.has_hung_up() && !had_hung_up {
            self.last_progress = now;
        }
    }

    /// Returns whether the client is gone, or sends nothing more.
    pub(super) fn has_hung_up(&self) -> bool {
        self.stream.peer_state() > PeerState::Open
    }

    /// Returns whether the client may have connected again.
    fn may_have_reconnected(&self) -> bool {
        match self.stream.peer_state() {
            PeerState::Open => false,
            PeerState::HalfClosed => !self.stream.is_local(),
            PeerState::Closed => true,
        }
    }

    /// Returns whether every request is answered, or nobody is there to read the replies.
    fn has_no_pending_replies(&self) -> bool {
        self.session.in_flight() == 0 || self.stream.peer_state() == PeerState::Closed
    }

    /// Answers a request whose outcome came. The caller must give the connection a turn.
    pub(super) fn complete_request(
        &mut self,
        request: InFlightRequest,
        outcome: DiskOutcome,
        resources: &mut WorkerResources,
    ) {
        if self.outbox.capacity_held() == 0 {
            self.outbox = resources.allocate_socket_buffer();
        }
        self.session
            .complete_request(request, outcome, &mut self.outbox, resources);
        if self.next == LoopAction::AwaitDisk {
            self.next = LoopAction::Write;
        }
    }

    /// Notes that other connections hold less memory now. The caller must give the connection a turn.
    pub(super) fn unpark(&mut self) {
        self.is_parked = false;
        if self.next == LoopAction::AwaitMemory {
            self.next = LoopAction::Write;
        }
    }

    /// Reads no more requests. The connection ends after what is under way is answered. The caller must give it a turn.
    pub(super) fn shut_down(&mut self) {
        self.next = LoopAction::Close;
    }

    /// Sends, reads and runs requests until the socket or fairness stops it. `read` is scratch space for incoming
    /// bytes.
    pub(super) fn serve_turn(
        &mut self,
        read: &mut [u8],
        resources: &mut WorkerResources,
        now: Instant,
    ) -> NbdTurnEnd {
        if self.outbox.capacity_held() == 0 {
            self.outbox = resources.allocate_socket_buffer();
        }
        let turn = self
            .serve(read, resources, now)
            .unwrap_or(NbdTurnEnd::Closed);
        if !self.is_negotiating() {
            self.permit.mark_spoken();
        }
        let tally = std::mem::take(&mut self.session.tally);
        let reads = std::mem::take(&mut self.session.reads);
        self.reads_small = reads.count > 0 && reads.bytes <= reads.count * SMALL_READ;
        self.permit.group().figures.count(tally);
        if turn == NbdTurnEnd::Closed {
            self.stream.drain_input(read);
        }
        for queue in [&mut self.inbox, &mut self.outbox] {
            if queue.is_empty() && queue.capacity_held() > 0 {
                resources.release_socket_buffer(std::mem::take(queue));
            }
        }
        let held = self.inbox.capacity_held() + self.outbox.capacity_held();
        resources.recount(self.held_counted, held);
        self.held_counted = held;
        turn
    }

    /// Gives back everything that the connection holds of the worker's resources.
    pub(super) fn end(self, resources: &mut WorkerResources) {
        resources.recount(self.held_counted, 0);
        self.session.end(resources);
    }

    fn serve(
        &mut self,
        read: &mut [u8],
        resources: &mut WorkerResources,
        now: Instant,
    ) -> Result<NbdTurnEnd, PeerGone> {
        let (mut reads, mut rounds) = (0, 0);
        loop {
            let flow = self.send(now)?;
            let rest = match flow {
                SendStatus::AllSent => NbdTurnEnd::Waiting,
                SendStatus::Blocked => NbdTurnEnd::Blocked,
            };
            match self.next {
                LoopAction::ProtocolError => {
                    self.permit.group().figures.ended_garbage.bump();
                    return Ok(NbdTurnEnd::Closed);
                }
                LoopAction::Close
                    if flow == SendStatus::AllSent && self.has_no_pending_replies() =>
                {
                    return Ok(NbdTurnEnd::Closed);
                }
                // The client's last request was never begun. The client may repeat it over another connection, and may
                // be past it by the time that this connection gets room.
                LoopAction::AwaitDisk | LoopAction::AwaitMemory if self.may_have_reconnected() => {
                    self.next = LoopAction::Close
                }
                LoopAction::Close | LoopAction::AwaitDisk => return Ok(rest),
                LoopAction::Tls | LoopAction::Write | LoopAction::AwaitMemory
                    if flow == SendStatus::Blocked =>
                {
                    return Ok(rest);
                }
                LoopAction::Tls => self.begin_tls()?,
                LoopAction::AwaitMemory => return Ok(NbdTurnEnd::AwaitMemory),
                LoopAction::Write if rounds == ROUNDS_PER_TURN => return Ok(NbdTurnEnd::Again),
                LoopAction::Write => {
                    self.run_inbox(resources);
                    rounds += 1;
                }
                LoopAction::Read if !self.stream.is_readable() => return Ok(rest),
                LoopAction::Read if reads == READS_PER_TURN => return Ok(NbdTurnEnd::Again),
                LoopAction::Read => {
                    self.receive(read, resources, now)?;
                    reads += 1;
                }
            }
        }
    }

    /// Begins TLS, but not if bytes followed the option in the clear. Otherwise the session would trust them as if they
    /// had come through TLS.
    fn begin_tls(&mut self) -> Result<(), PeerGone> {
        let tls = self.permit.group().tls.as_ref().ok_or(PeerGone)?;
        if !self.inbox.is_empty() {
            return Err(PeerGone);
        }
        let tls = TlsStream::new(tls, Transport::Tls).ok_or(PeerGone)?;
        self.stream.begin_tls(tls);
        self.session.begin_tls();
        self.next = LoopAction::Read;
        Ok(())
    }

    /// Sends the replies that wait.
    fn send(&mut self, now: Instant) -> Result<SendStatus, PeerGone> {
        let waited = self.outbox.len();
        let flow = self.stream.send(&mut self.outbox)?;
        if self.outbox.len() < waited {
            self.last_progress = now;
        }
        Ok(flow)
    }

    /// Reads once, and runs what came in. A payload goes straight into its buffer.
    fn receive(
        &mut self,
        read: &mut [u8],
        resources: &mut WorkerResources,
        now: Instant,
    ) -> Result<(), PeerGone> {
        let figures = &self.permit.group().figures;
        let apart = self.session.payload_space();
        let wanted = apart.len();
        match self.stream.receive(apart, read, figures)? {
            ReceiveOutcome::WouldBlock => {}
            ReceiveOutcome::Eof => self.next = LoopAction::Close,
            ReceiveOutcome::Bytes(count) => {
                let apart = count.min(wanted);
                self.last_progress = now;
                self.permit.mark_begun();
                self.session.payload_received(apart);
                self.run_from_read_buffer(&read[..count - apart], resources);
            }
        }
        Ok(())
    }

    /// Runs requests straight from the worker's read buffer if nothing was left over. It keeps the bytes that remain.
    fn run_from_read_buffer(&mut self, input: &[u8], resources: &mut WorkerResources) {
        if !self.inbox.is_empty() {
            self.inbox.push(input);
            self.run_inbox(resources);
            return;
        }
        let consumed = self.advance(input, resources);
        if consumed < input.len() && self.next != LoopAction::Close {
            if self.inbox.capacity_held() == 0 {
                self.inbox = resources.allocate_socket_buffer();
            }
            self.inbox.push(&input[consumed..]);
        }
    }

    fn run_inbox(&mut self, resources: &mut WorkerResources) {
        let mut inbox = std::mem::take(&mut self.inbox);
        let consumed = self.advance(inbox.waiting(), resources);
        inbox.consume(consumed);
        self.inbox = inbox;
    }

    fn advance(&mut self, input: &[u8], resources: &mut WorkerResources) -> usize {
        let exports = &self.permit.group().exports;
        let Advance { consumed, next } =
            self.session
                .advance(input, exports, &mut self.outbox, resources);
        self.next = next;
        consumed
    }
}
