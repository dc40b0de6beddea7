//! A connection's conversation: first it haggles, then it asks. It knows no socket: bytes go in, replies go to an
//! outbox, and what memory cannot answer goes to the disk and comes back as an outcome.

pub(super) mod in_flight;
pub(super) mod negotiate;

use std::rc::Rc;
use std::sync::Arc;

use self::in_flight::{DiskId, Flight, Whose};
use self::negotiate::{Haggling, Tls};
use super::map::Exports;
use super::metrics::Tally;
use super::queue::Queue;
use super::wire::replies::{self, Errno};
use super::wire::requests::{Ask, HEAD_BYTES, Head, Terms};
use super::workplace::Workplace;
use super::{BACKLOG_MAX, IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX};
use crate::block::{Buffer, Desk, Disk, Fault, Outcome, Shape};

/// Payloads that are shorter wait in the inbox until they are whole; longer ones go straight into a buffer.
const PAYLOAD_APART_MIN: u32 = 16 << 10;

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It wants more bytes than it got.
    Read,
    /// Replies should be sent before it goes on.
    Write,
    /// It goes on once outcomes have come.
    Hold,
    /// It goes on once others hold less.
    Park,
    /// TLS begins once all is sent.
    Tls,
    /// It is over once all is answered and sent.
    Close,
    /// It is over.
    Garbage,
}

/// What a call took and what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advance {
    pub(super) consumed: usize,
    pub(super) next: Next,
}

/// One conversation.
pub(super) struct Session {
    whose: Whose,
    stage: Stage,
    in_flight: u32,
    in_flight_bytes: usize,
    /// What was counted since it was last asked.
    pub(super) tally: Tally,
    /// What was asked to be read since then.
    pub(super) reads: Reads,
}

/// How much was asked to be read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

enum Stage {
    Haggling(Haggling),
    Serving(Serving),
}

struct Serving {
    disk: Arc<dyn Disk>,
    desk: Rc<dyn Desk>,
    terms: Terms,
    payload: Option<Payload>,
}

/// A request's payload that comes on its own.
enum Payload {
    /// It goes into a buffer.
    Kept {
        head: Head,
        lasting: bool,
        buffer: Buffer,
        got: usize,
    },
    /// Its request was refused; the client hears of it after the last byte.
    Skipped {
        cookie: u64,
        errno: Errno,
        left: usize,
    },
}

impl Session {
    /// A conversation that begins: says hello.
    pub(super) fn new(whose: Whose, tls: Tls, out: &mut Queue) -> Session {
        Session {
            whose,
            stage: Stage::Haggling(Haggling::new(tls, out)),
            in_flight: 0,
            in_flight_bytes: 0,
            tally: Tally::default(),
            reads: Reads::default(),
        }
    }

    /// Whether no disk was chosen yet.
    pub(super) fn is_haggling(&self) -> bool {
        matches!(self.stage, Stage::Haggling(_))
    }

    /// Its disk, once it has one.
    pub(super) fn disk(&self) -> Option<&Arc<dyn Disk>> {
        match &self.stage {
            Stage::Haggling(_) => None,
            Stage::Serving(serving) => Some(&serving.disk),
        }
    }

    /// Requests that wait for the disk.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether part of a payload has come.
    pub(super) fn is_amid_payload(&self) -> bool {
        match &self.stage {
            Stage::Haggling(_) => false,
            Stage::Serving(serving) => serving.payload.is_some(),
        }
    }

    /// TLS is spoken from here on.
    pub(super) fn begin_tls(&mut self) {
        if let Stage::Haggling(haggling) = &mut self.stage {
            haggling.begin_tls();
        }
    }

    /// Where the next bytes of the client may go without passing through an inbox.
    pub(super) fn wanted(&mut self) -> &mut [u8] {
        match &mut self.stage {
            Stage::Serving(Serving {
                payload: Some(Payload::Kept { buffer, got, .. }),
                ..
            }) => &mut buffer[*got..],
            _ => &mut [],
        }
    }

    /// So many bytes went there.
    pub(super) fn got(&mut self, count: usize) {
        if let Stage::Serving(Serving {
            payload: Some(Payload::Kept { got, .. }),
            ..
        }) = &mut self.stage
        {
            *got += count;
        }
    }

    /// Hears what the client says.
    pub(super) fn advance(
        &mut self,
        input: &[u8],
        exports: &Exports,
        out: &mut Queue,
        workplace: &mut Workplace,
    ) -> Advance {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let step = match self.stage {
                Stage::Haggling(_) => self.haggle(rest, exports, out, workplace),
                Stage::Serving(_) => self.serve(rest, out, workplace),
            };
            match step {
                Step::Took(count) => consumed += count,
                Step::Stop(count, next) => {
                    return Advance {
                        consumed: consumed + count,
                        next,
                    };
                }
            }
        }
    }

    fn haggle(
        &mut self,
        input: &[u8],
        exports: &Exports,
        out: &mut Queue,
        workplace: &mut Workplace,
    ) -> Step {
        let Stage::Haggling(haggling) = &mut self.stage else {
            return Step::Stop(0, Next::Read);
        };
        let negotiate::Advance { consumed, next } = haggling.advance(input, exports, out);
        self.tally.unknown_exports += std::mem::take(&mut haggling.unknown_exports);
        let next = match next {
            negotiate::Next::Read => Next::Read,
            negotiate::Next::Write if out.len() < BACKLOG_MAX => return Step::Took(consumed),
            negotiate::Next::Write => Next::Write,
            negotiate::Next::Tls => Next::Tls,
            negotiate::Next::Close => Next::Close,
            negotiate::Next::Garbage => Next::Garbage,
            negotiate::Next::Serve(disk, terms) => {
                self.stage = Stage::Serving(Serving {
                    desk: workplace.desk(&disk),
                    disk,
                    terms,
                    payload: None,
                });
                return Step::Took(consumed);
            }
        };
        Step::Stop(consumed, next)
    }

    fn serve(&mut self, input: &[u8], out: &mut Queue, workplace: &mut Workplace) -> Step {
        let Stage::Serving(serving) = &mut self.stage else {
            return Step::Stop(0, Next::Read);
        };
        let mut desk_side = Asking {
            whose: self.whose,
            serving,
            in_flight: &mut self.in_flight,
            in_flight_bytes: &mut self.in_flight_bytes,
            tally: &mut self.tally,
            reads: &mut self.reads,
            out,
            workplace,
        };
        match desk_side.serving.payload.is_some() {
            true => desk_side.hear_payload(input),
            false => desk_side.hear(input),
        }
    }

    /// Hears what became of a request.
    pub(super) fn hear(
        &mut self,
        flight: Flight,
        outcome: Outcome,
        out: &mut Queue,
        workplace: &mut Workplace,
    ) {
        self.in_flight -= 1;
        self.in_flight_bytes -= flight.held;
        let Stage::Serving(serving) = &mut self.stage else {
            return;
        };
        let mut asking = Asking {
            whose: self.whose,
            serving,
            in_flight: &mut self.in_flight,
            in_flight_bytes: &mut self.in_flight_bytes,
            tally: &mut self.tally,
            reads: &mut self.reads,
            out,
            workplace,
        };
        asking.answer(&flight, &outcome);
        asking
            .workplace
            .take_back(flight.disk, outcome.buffer, flight.held);
    }

    /// Gives back what a conversation that ends still holds; what is in flight comes back by itself.
    pub(super) fn end(self, workplace: &mut Workplace) {
        if let Stage::Serving(Serving {
            payload: Some(Payload::Kept { buffer, .. }),
            disk,
            ..
        }) = self.stage
        {
            let held = buffer.len();
            workplace.take_back(DiskId::of(&disk), buffer, held);
        }
    }
}

/// How hearing goes on.
enum Step {
    /// So many bytes are done with, and there may be more in the rest.
    Took(usize),
    /// So many bytes are done with, and that is all for now.
    Stop(usize, Next),
}

/// A conversation about one disk, for as long as a call takes.
struct Asking<'a> {
    whose: Whose,
    serving: &'a mut Serving,
    in_flight: &'a mut u32,
    in_flight_bytes: &'a mut usize,
    tally: &'a mut Tally,
    reads: &'a mut Reads,
    out: &'a mut Queue,
    workplace: &'a mut Workplace,
}

impl Asking<'_> {
    /// Hears one request.
    fn hear(&mut self, input: &[u8]) -> Step {
        if self.out.len() >= BACKLOG_MAX {
            return Step::Stop(0, Next::Write);
        }
        let Some((head, rest)) = input.split_first_chunk::<HEAD_BYTES>() else {
            return Step::Stop(0, Next::Read);
        };
        let Some(head) = Head::of(head) else {
            return Step::Stop(0, Next::Garbage);
        };
        if let Some(next) = self.must_wait(head.buffer()) {
            return Step::Stop(0, next);
        }
        let shape = self.serving.disk.shape();
        match head.ask(&self.serving.terms, &shape) {
            Ok(Ask::Disconnect) => Step::Stop(HEAD_BYTES, Next::Close),
            Ok(Ask::Write { lasting }) => self.hear_write(head, lasting, rest),
            Ok(ask) => {
                self.run(&head, ask, &shape);
                Step::Took(HEAD_BYTES)
            }
            Err(errno) => self.refuse(&head, errno),
        }
    }

    fn disk(&self) -> DiskId {
        DiskId::of(&self.serving.disk)
    }

    /// Why a request that may need `len` bytes cannot be heard yet.
    fn must_wait(&self, len: usize) -> Option<Next> {
        let is_full =
            *self.in_flight >= IN_FLIGHT_MAX || *self.in_flight_bytes + len > IN_FLIGHT_BYTES_MAX;
        let has_room = self.workplace.has_room(self.disk(), len);
        match *self.in_flight {
            0 if has_room => None,
            0 => Some(Next::Park),
            _ if is_full || !has_room => Some(Next::Hold),
            _ => None,
        }
    }

    fn refuse(&mut self, head: &Head, errno: Errno) -> Step {
        self.tally.refused += 1;
        if head.payload() > 0 {
            self.serving.payload = Some(Payload::Skipped {
                cookie: head.cookie,
                errno,
                left: head.payload() as usize,
            });
        } else {
            let in_chunks = head.is_answered_in_chunks(&self.serving.terms);
            replies::failed(self.out, in_chunks, head.cookie, errno);
        }
        Step::Took(HEAD_BYTES)
    }

    fn hear_write(&mut self, head: Head, lasting: bool, rest: &[u8]) -> Step {
        let len = head.len as usize;
        if let Some(payload) = rest.get(..len) {
            self.write(&head, lasting, payload);
            return Step::Took(HEAD_BYTES + len);
        }
        if head.len < PAYLOAD_APART_MIN {
            return Step::Stop(0, Next::Read);
        }
        self.serving.payload = Some(Payload::Kept {
            head,
            lasting,
            buffer: self.workplace.buffer(self.disk(), len),
            got: 0,
        });
        Step::Took(HEAD_BYTES)
    }

    fn hear_payload(&mut self, input: &[u8]) -> Step {
        let (took, is_whole) = match self.serving.payload.as_mut() {
            None => (0, true),
            Some(Payload::Kept { buffer, got, .. }) => {
                let took = input.len().min(buffer.len() - *got);
                buffer[*got..*got + took].copy_from_slice(&input[..took]);
                *got += took;
                (took, *got == buffer.len())
            }
            Some(Payload::Skipped { left, .. }) => {
                let took = input.len().min(*left);
                *left -= took;
                (took, *left == 0)
            }
        };
        if !is_whole {
            return Step::Stop(took, Next::Read);
        }
        self.end_payload();
        Step::Took(took)
    }

    fn end_payload(&mut self) {
        match self.serving.payload.take() {
            None => {}
            Some(Payload::Skipped { cookie, errno, .. }) => {
                replies::failed(self.out, false, cookie, errno)
            }
            Some(Payload::Kept {
                head,
                lasting,
                buffer,
                ..
            }) => self.write_buffer(&head, lasting, buffer),
        }
    }

    fn write(&mut self, head: &Head, lasting: bool, payload: &[u8]) {
        if payload.is_empty() || self.serving.desk.write(head.at, payload, lasting) {
            self.done_at_once(head.cookie);
            return;
        }
        let mut buffer = self.workplace.buffer(self.disk(), payload.len());
        buffer.copy_from_slice(payload);
        self.depart(head, Ask::Write { lasting }, buffer);
    }

    fn write_buffer(&mut self, head: &Head, lasting: bool, buffer: Buffer) {
        if self.serving.desk.write(head.at, &buffer, lasting) {
            let held = buffer.len();
            self.workplace.take_back(self.disk(), buffer, held);
            self.done_at_once(head.cookie);
            return;
        }
        self.depart(head, Ask::Write { lasting }, buffer);
    }

    fn run(&mut self, head: &Head, ask: Ask, shape: &Shape) {
        match ask {
            Ask::Read => self.read(head),
            Ask::Flush => self.flush(head),
            Ask::Trim { lasting } => self.trim(head, lasting, shape),
            Ask::Zero { .. } | Ask::Prefetch => self.depart_unless_empty(head, ask),
            Ask::Extents { one } => self.tell_extents(head, one),
            Ask::Write { .. } | Ask::Disconnect => {}
        }
    }

    fn tell_extents(&mut self, head: &Head, one: bool) {
        let known = || self.serving.desk.extent(head.at, u64::from(head.len));
        match one.then(known).flatten() {
            Some(extent) => replies::extents(self.out, head.cookie, head.len, one, &[extent]),
            None => self.depart(head, Ask::Extents { one }, Buffer::default()),
        }
    }

    fn read(&mut self, head: &Head) {
        self.reads.count += 1;
        self.reads.bytes += u64::from(head.len);
        let structured = self.serving.terms.structured;
        if head.len == 0 {
            replies::read_nothing(self.out, structured, head.cookie);
            return;
        }
        let front = replies::read_head_bytes(structured);
        let len = front + head.len as usize;
        let space = self.out.space(len);
        if self.serving.desk.read(head.at, &mut space[front..]) {
            replies::read_head(space, structured, head.cookie, head.at, head.len);
            return;
        }
        self.out.give_back(len);
        let buffer = self.workplace.buffer(self.disk(), head.len as usize);
        self.depart(head, Ask::Read, buffer);
    }

    fn flush(&mut self, head: &Head) {
        match self.serving.desk.flush() {
            true => self.done_at_once(head.cookie),
            false => self.depart(head, Ask::Flush, Buffer::default()),
        }
    }

    /// A disk that does not trim says yes all the same: it is a hint.
    fn trim(&mut self, head: &Head, lasting: bool, shape: &Shape) {
        if !shape.trims || head.len == 0 {
            self.done_at_once(head.cookie);
        } else if self.serving.desk.trim(head.at, u64::from(head.len)) {
            self.end_trim(head, lasting);
        } else {
            self.depart(head, Ask::Trim { lasting }, Buffer::default());
        }
    }

    /// Disks know no lasting trim: a flush makes it one.
    fn end_trim(&mut self, head: &Head, lasting: bool) {
        match !lasting || self.serving.desk.flush() {
            true => self.done_at_once(head.cookie),
            false => self.depart(head, Ask::Flush, Buffer::default()),
        }
    }

    fn done_at_once(&mut self, cookie: u64) {
        replies::done(self.out, cookie);
    }

    fn depart_unless_empty(&mut self, head: &Head, ask: Ask) {
        match head.len {
            0 => self.done_at_once(head.cookie),
            _ => self.depart(head, ask, Buffer::default()),
        }
    }

    fn depart(&mut self, head: &Head, ask: Ask, buffer: Buffer) {
        let flight = Flight {
            whose: self.whose,
            cookie: head.cookie,
            ask,
            at: head.at,
            len: head.len,
            held: buffer.len(),
            disk: self.disk(),
        };
        self.send(flight, buffer);
    }

    fn send(&mut self, flight: Flight, buffer: Buffer) {
        let Some(verb) = flight.ask.verb() else {
            return;
        };
        *self.in_flight += 1;
        *self.in_flight_bytes += flight.held;
        self.workplace
            .send(&self.serving.disk, verb, flight, buffer);
    }

    /// Replies to a request whose outcome came.
    fn answer(&mut self, flight: &Flight, outcome: &Outcome) {
        match (outcome.result, flight.ask) {
            (Err(fault), ask) => self.fail(flight, ask.errno(fault)),
            (Ok(()), Ask::Read) => self.answer_read(flight, outcome),
            (Ok(()), Ask::Extents { one }) => {
                replies::extents(self.out, flight.cookie, flight.len, one, &outcome.extents);
            }
            (Ok(()), Ask::Trim { lasting: true }) => self.send(
                Flight {
                    ask: Ask::Flush,
                    at: 0,
                    len: 0,
                    ..*flight
                },
                Buffer::default(),
            ),
            (Ok(()), _) => replies::done(self.out, flight.cookie),
        }
    }

    fn answer_read(&mut self, flight: &Flight, outcome: &Outcome) {
        if outcome.buffer.len() != flight.len as usize {
            return self.fail(flight, Ask::Read.errno(Fault::Io));
        }
        let structured = self.serving.terms.structured;
        let front = replies::read_head_bytes(structured);
        let space = self.out.space(front + outcome.buffer.len());
        replies::read_head(space, structured, flight.cookie, flight.at, flight.len);
        space[front..].copy_from_slice(&outcome.buffer);
    }

    fn fail(&mut self, flight: &Flight, errno: Errno) {
        let in_chunks =
            self.serving.terms.structured && matches!(flight.ask, Ask::Read | Ask::Extents { .. });
        replies::failed(self.out, in_chunks, flight.cookie, errno);
    }
}
