//! One connection's session. It first negotiates, then carries out requests. The session knows no socket: bytes go in,
//! and replies go to an outbox. If memory cannot answer a request, the session submits it to the disk, and the answer
//! comes back as an outcome.

pub(super) mod in_flight;
pub(super) mod negotiation;

use std::rc::Rc;
use std::sync::Arc;

use self::in_flight::{ConnectionId, DiskId, InFlightRequest};
use self::negotiation::{Negotiation, TlsState};
use super::map::Exports;
use super::metrics::NbdTally;
use super::socket_buffer::SocketBuffer;
use super::wire::replies::{self, Errno, ReplyFormat};
use super::wire::requests::{HEADER_BYTES, NbdCommand, NegotiatedOptions, RequestHeader};
use super::worker_resources::WorkerResources;
use super::{BACKLOG_MAX, IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX};
use crate::block_device::{
    Buffer, Disk, DiskFastPath, DiskFault, DiskOutcome, DiskShape, ExtentLimit, Fua,
};

/// A shorter payload waits in the inbox until it is whole. A longer one goes straight into a buffer.
const PAYLOAD_APART_MIN: u32 = 16 << 10;

/// What the connection does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopAction {
    /// Read: the session wants more bytes.
    Read,
    /// Send replies before the session goes on.
    Write,
    /// Wait for outcomes from the disk.
    AwaitDisk,
    /// Wait until other connections hold less memory.
    AwaitMemory,
    /// Begin TLS after everything is sent.
    Tls,
    /// Close the connection after everything is answered and sent.
    Close,
    /// Close the connection at once, because the bytes are not NBD.
    ProtocolError,
}

/// How many bytes a call consumed, and what the connection does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advance {
    pub(super) consumed: usize,
    pub(super) next: LoopAction,
}

/// The session of one connection.
pub(super) struct Session {
    connection: ConnectionId,
    phase: SessionPhase,
    in_flight: u32,
    in_flight_bytes: usize,
    /// What the session counted since the connection last took it.
    pub(super) tally: NbdTally,
    /// What clients asked to read since then.
    pub(super) reads: ReadTotals,
}

/// How many reads there were, and of how many bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadTotals {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

enum SessionPhase {
    Negotiating(Negotiation),
    Transmission(Transmission),
}

struct Transmission {
    disk: Arc<dyn Disk>,
    fast_path: Rc<dyn DiskFastPath>,
    options: NegotiatedOptions,
    payload: Option<Payload>,
}

/// A payload that the session receives apart from its request.
enum Payload {
    /// The payload goes into a buffer.
    Buffered {
        header: RequestHeader,
        fua: Fua,
        buffer: Buffer,
        got: usize,
    },
    /// The session refused the request. It tells the client after the payload's last byte.
    Discarded {
        cookie: u64,
        errno: Errno,
        left: usize,
    },
}

impl Session {
    /// Begins a session and writes the greeting.
    pub(super) fn new(connection: ConnectionId, tls: TlsState, out: &mut SocketBuffer) -> Session {
        Session {
            connection,
            phase: SessionPhase::Negotiating(Negotiation::new(tls, out)),
            in_flight: 0,
            in_flight_bytes: 0,
            tally: NbdTally::default(),
            reads: ReadTotals::default(),
        }
    }

    /// Returns whether the client has not chosen a disk yet.
    pub(super) fn is_negotiating(&self) -> bool {
        matches!(self.phase, SessionPhase::Negotiating(_))
    }

    /// The session's disk, after the client chose one.
    pub(super) fn disk(&self) -> Option<&Arc<dyn Disk>> {
        match &self.phase {
            SessionPhase::Negotiating(_) => None,
            SessionPhase::Transmission(transmission) => Some(&transmission.disk),
        }
    }

    /// How many requests wait for the disk.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns whether the session has received only a part of a payload.
    pub(super) fn is_amid_payload(&self) -> bool {
        match &self.phase {
            SessionPhase::Negotiating(_) => false,
            SessionPhase::Transmission(transmission) => transmission.payload.is_some(),
        }
    }

    /// Notes that the connection speaks TLS from here on.
    pub(super) fn begin_tls(&mut self) {
        if let SessionPhase::Negotiating(negotiation) = &mut self.phase {
            negotiation.begin_tls();
        }
    }

    /// Where the client's next bytes may go without passing through an inbox.
    pub(super) fn payload_space(&mut self) -> &mut [u8] {
        match &mut self.phase {
            SessionPhase::Transmission(Transmission {
                payload: Some(Payload::Buffered { buffer, got, .. }),
                ..
            }) => &mut buffer[*got..],
            _ => &mut [],
        }
    }

    /// Notes that `count` bytes went there.
    pub(super) fn payload_received(&mut self, count: usize) {
        if let SessionPhase::Transmission(Transmission {
            payload: Some(Payload::Buffered { got, .. }),
            ..
        }) = &mut self.phase
        {
            *got += count;
        }
    }

    /// Carries out what the client sent, as far as possible.
    pub(super) fn advance(
        &mut self,
        input: &[u8],
        exports: &Exports,
        out: &mut SocketBuffer,
        resources: &mut WorkerResources,
    ) -> Advance {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let step = match self.phase {
                SessionPhase::Negotiating(_) => self.negotiate(rest, exports, out, resources),
                SessionPhase::Transmission(_) => self.transmit(rest, out, resources),
            };
            match step {
                AdvanceStep::Continue(count) => consumed += count,
                AdvanceStep::Stop(count, next) => {
                    return Advance {
                        consumed: consumed + count,
                        next,
                    };
                }
            }
        }
    }

    fn negotiate(
        &mut self,
        input: &[u8],
        exports: &Exports,
        out: &mut SocketBuffer,
        resources: &mut WorkerResources,
    ) -> AdvanceStep {
        let SessionPhase::Negotiating(negotiation) = &mut self.phase else {
            return AdvanceStep::Stop(0, LoopAction::Read);
        };
        let negotiation::NegotiationAdvance { consumed, next } =
            negotiation.advance(input, exports, out);
        self.tally.unknown_exports += std::mem::take(&mut negotiation.unknown_exports);
        let next = match next {
            negotiation::NegotiationAction::Read => LoopAction::Read,
            negotiation::NegotiationAction::Write if out.len() < BACKLOG_MAX => {
                return AdvanceStep::Continue(consumed);
            }
            negotiation::NegotiationAction::Write => LoopAction::Write,
            negotiation::NegotiationAction::Tls => LoopAction::Tls,
            negotiation::NegotiationAction::Close => LoopAction::Close,
            negotiation::NegotiationAction::ProtocolError => LoopAction::ProtocolError,
            negotiation::NegotiationAction::Serve(disk, terms) => {
                self.phase = SessionPhase::Transmission(Transmission {
                    fast_path: resources.fast_path(&disk),
                    disk,
                    options: terms,
                    payload: None,
                });
                return AdvanceStep::Continue(consumed);
            }
        };
        AdvanceStep::Stop(consumed, next)
    }

    fn transmit(
        &mut self,
        input: &[u8],
        out: &mut SocketBuffer,
        resources: &mut WorkerResources,
    ) -> AdvanceStep {
        let SessionPhase::Transmission(transmission) = &mut self.phase else {
            return AdvanceStep::Stop(0, LoopAction::Read);
        };
        let mut call = TransmissionCall {
            connection: self.connection,
            transmission,
            in_flight: &mut self.in_flight,
            in_flight_bytes: &mut self.in_flight_bytes,
            tally: &mut self.tally,
            reads: &mut self.reads,
            out,
            resources,
        };
        match call.transmission.payload.is_some() {
            true => call.receive_payload(input),
            false => call.run_request(input),
        }
    }

    /// Answers a request whose outcome came.
    pub(super) fn complete_request(
        &mut self,
        request: InFlightRequest,
        outcome: DiskOutcome,
        out: &mut SocketBuffer,
        resources: &mut WorkerResources,
    ) {
        self.in_flight -= 1;
        self.in_flight_bytes -= request.held;
        let SessionPhase::Transmission(transmission) = &mut self.phase else {
            return;
        };
        let mut call = TransmissionCall {
            connection: self.connection,
            transmission,
            in_flight: &mut self.in_flight,
            in_flight_bytes: &mut self.in_flight_bytes,
            tally: &mut self.tally,
            reads: &mut self.reads,
            out,
            resources,
        };
        call.answer(&request, &outcome);
        call.resources
            .release_buffer(request.disk, outcome.buffer, request.held);
    }

    /// Releases what an ending session still holds. Requests in flight release their own share when they come back.
    pub(super) fn end(self, resources: &mut WorkerResources) {
        if let SessionPhase::Transmission(Transmission {
            payload: Some(Payload::Buffered { buffer, .. }),
            disk,
            ..
        }) = self.phase
        {
            let held = buffer.len();
            resources.release_buffer(DiskId::of(&disk), buffer, held);
        }
    }
}

/// How `advance` goes on.
enum AdvanceStep {
    /// This many bytes are consumed, and the rest may hold more.
    Continue(usize),
    /// This many bytes are consumed, and the session stops here for now.
    Stop(usize, LoopAction),
}

/// A session in transmission, with what one call needs.
struct TransmissionCall<'a> {
    connection: ConnectionId,
    transmission: &'a mut Transmission,
    in_flight: &'a mut u32,
    in_flight_bytes: &'a mut usize,
    tally: &'a mut NbdTally,
    reads: &'a mut ReadTotals,
    out: &'a mut SocketBuffer,
    resources: &'a mut WorkerResources,
}

impl TransmissionCall<'_> {
    /// Carries out one request.
    fn run_request(&mut self, input: &[u8]) -> AdvanceStep {
        if self.out.len() >= BACKLOG_MAX {
            return AdvanceStep::Stop(0, LoopAction::Write);
        }
        let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
            return AdvanceStep::Stop(0, LoopAction::Read);
        };
        let Some(header) = RequestHeader::of(header) else {
            return AdvanceStep::Stop(0, LoopAction::ProtocolError);
        };
        if let Some(next) = self.wait_reason(header.buffer_len()) {
            return AdvanceStep::Stop(0, next);
        }
        let shape = self.transmission.disk.shape();
        match header.validate(&self.transmission.options, &shape) {
            Ok(NbdCommand::Disconnect) => AdvanceStep::Stop(HEADER_BYTES, LoopAction::Close),
            Ok(NbdCommand::Write { fua }) => self.receive_write(header, fua, rest),
            Ok(command) => {
                self.run(&header, command, &shape);
                AdvanceStep::Continue(HEADER_BYTES)
            }
            Err(errno) => self.refuse(&header, errno),
        }
    }

    fn disk(&self) -> DiskId {
        DiskId::of(&self.transmission.disk)
    }

    /// Why a request that may need `len` bytes has to wait.
    fn wait_reason(&self, len: usize) -> Option<LoopAction> {
        let is_full =
            *self.in_flight >= IN_FLIGHT_MAX || *self.in_flight_bytes + len > IN_FLIGHT_BYTES_MAX;
        let has_room = self.resources.has_room(self.disk(), len);
        match *self.in_flight {
            0 if has_room => None,
            0 => Some(LoopAction::AwaitMemory),
            _ if is_full || !has_room => Some(LoopAction::AwaitDisk),
            _ => None,
        }
    }

    fn refuse(&mut self, header: &RequestHeader, errno: Errno) -> AdvanceStep {
        self.tally.refused += 1;
        if header.payload_len() > 0 {
            self.transmission.payload = Some(Payload::Discarded {
                cookie: header.cookie,
                errno,
                left: header.payload_len() as usize,
            });
        } else {
            let format = header.error_format(&self.transmission.options);
            replies::failed(self.out, format, header.cookie, errno);
        }
        AdvanceStep::Continue(HEADER_BYTES)
    }

    fn receive_write(&mut self, header: RequestHeader, fua: Fua, rest: &[u8]) -> AdvanceStep {
        let len = header.len as usize;
        if let Some(payload) = rest.get(..len) {
            self.write(&header, fua, payload);
            return AdvanceStep::Continue(HEADER_BYTES + len);
        }
        if header.len < PAYLOAD_APART_MIN {
            return AdvanceStep::Stop(0, LoopAction::Read);
        }
        self.transmission.payload = Some(Payload::Buffered {
            header,
            fua,
            buffer: self.resources.allocate_buffer(self.disk(), len),
            got: 0,
        });
        AdvanceStep::Continue(HEADER_BYTES)
    }

    fn receive_payload(&mut self, input: &[u8]) -> AdvanceStep {
        let (took, is_whole) = match self.transmission.payload.as_mut() {
            None => (0, true),
            Some(Payload::Buffered { buffer, got, .. }) => {
                let took = input.len().min(buffer.len() - *got);
                buffer[*got..*got + took].copy_from_slice(&input[..took]);
                *got += took;
                (took, *got == buffer.len())
            }
            Some(Payload::Discarded { left, .. }) => {
                let took = input.len().min(*left);
                *left -= took;
                (took, *left == 0)
            }
        };
        if !is_whole {
            return AdvanceStep::Stop(took, LoopAction::Read);
        }
        self.finish_payload();
        AdvanceStep::Continue(took)
    }

    fn finish_payload(&mut self) {
        match self.transmission.payload.take() {
            None => {}
            Some(Payload::Discarded { cookie, errno, .. }) => {
                replies::failed(self.out, ReplyFormat::Simple, cookie, errno)
            }
            Some(Payload::Buffered {
                header,
                fua,
                buffer,
                ..
            }) => self.write_buffer(&header, fua, buffer),
        }
    }

    fn write(&mut self, header: &RequestHeader, fua: Fua, payload: &[u8]) {
        if payload.is_empty() || self.transmission.fast_path.write(header.at, payload, fua) {
            self.reply_done(header.cookie);
            return;
        }
        let mut buffer = self.resources.allocate_buffer(self.disk(), payload.len());
        buffer.copy_from_slice(payload);
        self.submit_to_disk(header, NbdCommand::Write { fua }, buffer);
    }

    fn write_buffer(&mut self, header: &RequestHeader, fua: Fua, buffer: Buffer) {
        if self.transmission.fast_path.write(header.at, &buffer, fua) {
            let held = buffer.len();
            self.resources.release_buffer(self.disk(), buffer, held);
            self.reply_done(header.cookie);
            return;
        }
        self.submit_to_disk(header, NbdCommand::Write { fua }, buffer);
    }

    fn run(&mut self, header: &RequestHeader, command: NbdCommand, shape: &DiskShape) {
        match command {
            NbdCommand::Read => self.read(header),
            NbdCommand::Flush => self.flush(header),
            NbdCommand::Trim { fua } => self.trim(header, fua, shape),
            NbdCommand::Zero(_) | NbdCommand::Prefetch => self.submit_unless_empty(header, command),
            NbdCommand::Extents { limit } => self.reply_extents(header, limit),
            NbdCommand::Write { .. } | NbdCommand::Disconnect => {}
        }
    }

    fn reply_extents(&mut self, header: &RequestHeader, limit: ExtentLimit) {
        let known = match limit {
            ExtentLimit::One => self
                .transmission
                .fast_path
                .extent(header.at, u64::from(header.len)),
            ExtentLimit::Many => None,
        };
        match known {
            Some(extent) => replies::extents(self.out, header.cookie, header.len, limit, &[extent]),
            None => self.submit_to_disk(header, NbdCommand::Extents { limit }, Buffer::default()),
        }
    }

    fn read(&mut self, header: &RequestHeader) {
        self.reads.count += 1;
        self.reads.bytes += u64::from(header.len);
        let format = self.transmission.options.reply_format;
        if header.len == 0 {
            replies::empty_read(self.out, format, header.cookie);
            return;
        }
        let header_len = replies::read_header_len(format);
        let len = header_len + header.len as usize;
        let space = self.out.space(len);
        if self
            .transmission
            .fast_path
            .read(header.at, &mut space[header_len..])
        {
            replies::write_read_header(space, format, header.cookie, header.at, header.len);
            return;
        }
        self.out.give_back(len);
        let buffer = self
            .resources
            .allocate_buffer(self.disk(), header.len as usize);
        self.submit_to_disk(header, NbdCommand::Read, buffer);
    }

    fn flush(&mut self, header: &RequestHeader) {
        match self.transmission.fast_path.flush() {
            true => self.reply_done(header.cookie),
            false => self.submit_to_disk(header, NbdCommand::Flush, Buffer::default()),
        }
    }

    /// A disk that does not trim reports success all the same, because a trim is only a hint.
    fn trim(&mut self, header: &RequestHeader, fua: Fua, shape: &DiskShape) {
        if !shape.trims || header.len == 0 {
            self.reply_done(header.cookie);
        } else if self
            .transmission
            .fast_path
            .trim(header.at, u64::from(header.len))
        {
            self.finish_trim(header, fua);
        } else {
            self.submit_to_disk(header, NbdCommand::Trim { fua }, Buffer::default());
        }
    }

    /// Disks have no trim with FUA, so a flush makes the trim durable.
    fn finish_trim(&mut self, header: &RequestHeader, fua: Fua) {
        match fua == Fua::Off || self.transmission.fast_path.flush() {
            true => self.reply_done(header.cookie),
            false => self.submit_to_disk(header, NbdCommand::Flush, Buffer::default()),
        }
    }

    fn reply_done(&mut self, cookie: u64) {
        replies::done(self.out, cookie);
    }

    fn submit_unless_empty(&mut self, header: &RequestHeader, command: NbdCommand) {
        match header.len {
            0 => self.reply_done(header.cookie),
            _ => self.submit_to_disk(header, command, Buffer::default()),
        }
    }

    fn submit_to_disk(&mut self, header: &RequestHeader, command: NbdCommand, buffer: Buffer) {
        let request = InFlightRequest {
            connection: self.connection,
            cookie: header.cookie,
            command,
            at: header.at,
            len: header.len,
            held: buffer.len(),
            disk: self.disk(),
        };
        self.submit(request, buffer);
    }

    fn submit(&mut self, request: InFlightRequest, buffer: Buffer) {
        let Some(operation) = request.command.disk_operation() else {
            return;
        };
        *self.in_flight += 1;
        *self.in_flight_bytes += request.held;
        self.resources
            .submit(&self.transmission.disk, operation, request, buffer);
    }

    /// Replies to a request whose outcome came.
    fn answer(&mut self, request: &InFlightRequest, outcome: &DiskOutcome) {
        match (outcome.result, request.command) {
            (Err(fault), command) => self.fail(request, command.errno(fault)),
            (Ok(()), NbdCommand::Read) => self.answer_read(request, outcome),
            (Ok(()), NbdCommand::Extents { limit }) => {
                replies::extents(
                    self.out,
                    request.cookie,
                    request.len,
                    limit,
                    &outcome.extents,
                );
            }
            (Ok(()), NbdCommand::Trim { fua: Fua::On }) => self.submit(
                InFlightRequest {
                    command: NbdCommand::Flush,
                    at: 0,
                    len: 0,
                    ..*request
                },
                Buffer::default(),
            ),
            (Ok(()), _) => replies::done(self.out, request.cookie),
        }
    }

    fn answer_read(&mut self, request: &InFlightRequest, outcome: &DiskOutcome) {
        if outcome.buffer.len() != request.len as usize {
            return self.fail(request, NbdCommand::Read.errno(DiskFault::Io));
        }
        let format = self.transmission.options.reply_format;
        let header_len = replies::read_header_len(format);
        let space = self.out.space(header_len + outcome.buffer.len());
        replies::write_read_header(space, format, request.cookie, request.at, request.len);
        space[header_len..].copy_from_slice(&outcome.buffer);
    }

    fn fail(&mut self, request: &InFlightRequest, errno: Errno) {
        let format = match request.command {
            NbdCommand::Read | NbdCommand::Extents { .. } => self.transmission.options.reply_format,
            _ => ReplyFormat::Simple,
        };
        replies::failed(self.out, format, request.cookie, errno);
    }
}
