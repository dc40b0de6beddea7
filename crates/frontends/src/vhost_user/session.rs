//! One queue of a guest: takes requests in the order of its available ring, has them carried out side by side, and
//! puts them into the used ring **in that same order**. The module's head says why.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use virtio_queue::{Queue as SplitRing, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress};

use super::QUEUE_SIZE_MAX;
use super::map::{Memory, NoMemory};
use super::metrics::{Figures, Tally};
use super::wire::chain::{Broken, Chain, Segment, Table, bytes_of, cut};
use super::wire::device::Caching;
use super::wire::request::{self, Asked, HEADER_BYTES, NAME_BYTES, RANGE_BYTES, Sizes, Status};
use crate::block::{Buffer, Desk, Disk, Fault, Outcome, Outcomes, Request, Shape, Spares, Verb};

/// Bytes of requests under way at the disk, above which no more are taken from the ring. One request may pass it.
const FLIGHT_BYTES_MAX: u64 = 64 << 20;

/// Requests taken in one turn; then the guest hears of those that are done.
const TURN_REQUESTS_MAX: usize = 64;

/// Small buffers kept for further requests: 8 MiB a queue.
const SPARE_MAX: usize = 32;

/// The driver wants no notification (without `EVENT_IDX`).
const NO_INTERRUPT: u16 = 1;

/// Why a queue stops.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenRing {
    /// The ring makes no sense, or is not in the guest's memory.
    #[error("the ring cannot be used: {0}")]
    Ring(#[from] virtio_queue::Error),
    /// A request cannot be told how it ended, and a driver would take silence for success.
    #[error("the request of descriptor {head} cannot be answered: {why}")]
    Chain { head: u16, why: Broken },
    /// The same, of a request whose status is not in the guest's memory.
    #[error(
        "a request cannot be answered: there is no memory at {0:#x}, where its status should be"
    )]
    Status(u64),
    /// Pages of the guest's memory cannot be had any more.
    #[error(
        "a part of the guest's memory has vanished: its file was cut, or no page was left for it"
    )]
    Vanished,
}

/// Where a queue is, and how it was agreed on.
pub(super) struct Setup {
    pub(super) size: u16,
    pub(super) places: Places,
    /// What the driver took.
    pub(super) features: u64,
    pub(super) has_event_index: bool,
    pub(super) memory: Arc<Memory>,
    pub(super) call: Option<Call>,
}

/// The guest's addresses of a queue's three parts.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) descriptors: GuestAddress,
    pub(super) available: GuestAddress,
    pub(super) used: GuestAddress,
}

/// How the guest is notified.
#[derive(Clone)]
pub(super) struct Call {
    event: Arc<OwnedFd>,
    may_block: bool,
}

impl Call {
    pub(super) fn new(event: OwnedFd) -> Call {
        let flags = rustix::fs::fcntl_getfl(&event);
        Call {
            event: Arc::new(event),
            may_block: !flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)),
        }
    }

    /// Notifies. A full counter means that the guest has been told already.
    fn ring(&self) {
        if self.may_block && !self.has_room() {
            return;
        }
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
    }

    fn has_room(&self) -> bool {
        let mut ask = [PollFd::new(&*self.event, PollFlags::OUT)];
        let at_once = Timespec::default();
        rustix::event::poll(&mut ask, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }
}

/// What a queue's thread has for carrying requests out.
pub(super) struct Seat<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) desk: &'a dyn Desk,
    pub(super) outcomes: &'a Arc<dyn Outcomes>,
    pub(super) caching: &'a Caching,
    pub(super) figures: &'a Figures,
    pub(super) shape: Shape,
}

/// A request that was taken from the available ring and is not in the used ring yet.
struct Entry {
    head: u16,
    state: State,
}

enum State {
    /// Answered, with so many bytes written to the guest.
    Done(u32),
    /// At the disk.
    Away(Away),
}

/// What has to be done when a request comes back.
struct Away {
    status_at: u64,
    /// Where a read's bytes go.
    into: Vec<Segment>,
    bytes: u64,
}

/// How far a request came.
enum Progress {
    Done(u32),
    Sent(Away),
}

/// A queue under way.
pub(super) struct Queue {
    ring: SplitRing,
    features: u64,
    memory: Arc<Memory>,
    call: Option<Call>,
    /// In the order of the available ring; never more than the ring has places.
    entries: VecDeque<Entry>,
    /// The token of the first entry.
    first: u64,
    away: usize,
    away_bytes: u64,
    /// Nothing is answered any more; see [`silence`](Queue::silence).
    is_silent: bool,
    /// Nothing is taken any more.
    is_closed: bool,
    chain: Chain,
    spares: Spares,
    tally: Tally,
    /// Answers since the guest was last told, or needed no telling.
    untold: u32,
}

impl Queue {
    /// A queue that goes on after the last request that its used ring says is answered. Tokens count from `first`.
    pub(super) fn begin(setup: Setup, first: u64) -> Result<Queue, BrokenRing> {
        let mut ring = SplitRing::new(QUEUE_SIZE_MAX)?;
        ring.try_set_size(setup.size)?;
        ring.try_set_desc_table_address(setup.places.descriptors)?;
        ring.try_set_avail_ring_address(setup.places.available)?;
        ring.try_set_used_ring_address(setup.places.used)?;
        ring.set_event_idx(setup.has_event_index);
        ring.set_ready(true);
        let guest = setup.memory.guest();
        if !ring.is_valid(guest) {
            return Err(virtio_queue::Error::QueueNotReady.into());
        }
        let used = ring.used_idx(guest, Ordering::Acquire)?;
        ring.set_next_used(used.0);
        ring.set_next_avail(used.0);
        ring.disable_notification(guest)?;
        Ok(Queue {
            ring,
            features: setup.features,
            memory: setup.memory,
            call: setup.call,
            entries: VecDeque::with_capacity(usize::from(setup.size)),
            first,
            away: 0,
            away_bytes: 0,
            is_silent: false,
            is_closed: false,
            chain: Chain::default(),
            spares: Spares::new(SPARE_MAX),
            tally: Tally::default(),
            untold: 0,
        })
    }

    /// The first request that is not answered, as an index of the available ring.
    pub(super) fn position(&self) -> u16 {
        self.ring.next_used()
    }

    /// A token that was never given out.
    pub(super) fn next_token(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The guest's memory is another from now on.
    pub(super) fn set_memory(&mut self, memory: Arc<Memory>) {
        self.memory = memory;
    }

    /// The guest is notified otherwise from now on: at once, in case that the old way lost something.
    pub(super) fn set_call(&mut self, call: Option<Call>) {
        self.call = call;
        self.notify();
    }

    /// Takes nothing more; what was taken is still answered.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes and answers nothing more. Whoever serves the ring next finds what is unanswered.
    pub(super) fn silence(&mut self) {
        self.is_closed = true;
        self.is_silent = true;
    }

    /// Nothing is at the disk any more.
    pub(super) fn is_drained(&self) -> bool {
        self.away == 0
    }

    /// Whether there is something to take.
    pub(super) fn has_work(&self) -> bool {
        if !self.may_take() {
            return false;
        }
        let available = self.ring.avail_idx(self.memory.guest(), Ordering::Acquire);
        available.map_or(true, |index| index.0 != self.ring.next_avail())
    }

    fn may_take(&self) -> bool {
        let has_place = self.entries.len() < usize::from(self.ring.size());
        !self.is_closed && has_place && self.away_bytes < FLIGHT_BYTES_MAX
    }

    /// Asks the guest to kick. Says no if there is something to take already.
    pub(super) fn fall_asleep(&mut self) -> Result<bool, BrokenRing> {
        if !self.may_take() {
            return Ok(true);
        }
        let has_more = self.ring.enable_notification(self.memory.guest())?;
        Ok(!has_more)
    }

    /// Kicks are not needed any more.
    pub(super) fn wake_up(&mut self) {
        let _ = self.ring.disable_notification(self.memory.guest());
    }

    /// Takes what there is, up to [`TURN_REQUESTS_MAX`], and answers what is done.
    pub(super) fn turn(&mut self, seat: &Seat<'_>) -> Result<(), BrokenRing> {
        let turned = self.take_and_answer(seat);
        self.unless_vanished(turned)
    }

    /// Whatever else went wrong, memory that has vanished is its cause.
    fn unless_vanished(&mut self, went: Result<(), BrokenRing>) -> Result<(), BrokenRing> {
        if self.is_silent || !self.memory.has_vanished() {
            return went;
        }
        self.silence();
        Err(BrokenRing::Vanished)
    }

    fn take_and_answer(&mut self, seat: &Seat<'_>) -> Result<(), BrokenRing> {
        let memory = Arc::clone(&self.memory);
        for _ in 0..TURN_REQUESTS_MAX {
            if !self.may_take() {
                break;
            }
            let Some(chain) = self.ring.iter(memory.guest())?.next() else {
                break;
            };
            let head = chain.head_index();
            let received = self.receive(head, &memory, seat);
            let state = received.or_else(|broken| self.stop_at(broken, seat.figures))?;
            self.entries.push_back(Entry { head, state });
            self.publish()?;
        }
        self.tell(seat.figures)
    }

    /// Takes nothing more, since a request cannot be answered; those before it still are.
    fn stop_at(&mut self, broken: BrokenRing, figures: &Figures) -> Result<State, BrokenRing> {
        self.close();
        self.tally.faults += 1;
        self.tell(figures)?;
        Err(broken)
    }

    /// Hears what became of a request.
    pub(super) fn settle(&mut self, outcome: Outcome) -> Result<(), BrokenRing> {
        let Outcome {
            token,
            result,
            buffer,
            ..
        } = outcome;
        let place = token.checked_sub(self.first).map(|place| place as usize);
        let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) else {
            return Ok(());
        };
        let State::Away(away) = &entry.state else {
            return Ok(());
        };
        self.away -= 1;
        self.away_bytes -= away.bytes;
        if result == Err(Fault::Leaving) {
            (self.is_closed, self.is_silent) = (true, true);
        }
        let mut settled = Ok(());
        if !self.is_silent {
            match land(&self.memory, away, result, &buffer) {
                Ok(written) => entry.state = State::Done(written),
                Err(broken) => {
                    self.tally.faults += 1;
                    settled = Err(broken);
                }
            }
        }
        self.spares.give_back(buffer);
        // What comes after it stays unanswered as well: answers keep the order of the ring.
        let settled = self.unless_vanished(settled);
        settled.inspect_err(|_| self.silence())?;
        self.publish()
    }

    /// Puts what is done into the used ring, up to the first that is not.
    fn publish(&mut self) -> Result<(), BrokenRing> {
        while !self.is_silent
            && let Some(Entry {
                head,
                state: State::Done(written),
            }) = self.entries.front()
        {
            self.ring.add_used(self.memory.guest(), *head, *written)?;
            self.entries.pop_front();
            self.first += 1;
            self.untold += 1;
        }
        Ok(())
    }

    /// One notification for all that was answered, if the guest wants one.
    pub(super) fn tell(&mut self, figures: &Figures) -> Result<(), BrokenRing> {
        let wants = match std::mem::take(&mut self.untold) {
            0 => Ok(false),
            _ => self.wants_notification(),
        };
        if let Ok(true) = wants {
            self.notify();
        }
        figures.count(std::mem::take(&mut self.tally));
        wants.map(|_| ())
    }

    fn wants_notification(&mut self) -> Result<bool, BrokenRing> {
        let guest = self.memory.guest();
        if self.ring.event_idx_enabled() {
            return Ok(self.ring.needs_notification(guest)?);
        }
        fence(Ordering::SeqCst);
        let flags = guest.load::<u16>(GuestAddress(self.ring.avail_ring()), Ordering::Relaxed);
        let flags = flags.map_err(virtio_queue::Error::GuestMemory)?;
        Ok(u16::from_le(flags) & NO_INTERRUPT == 0)
    }

    /// Notifies the guest, whether it wants it or not.
    pub(super) fn notify(&mut self) {
        if let Some(call) = &self.call {
            call.ring();
        }
    }

    /// Understands a request and carries it out, or sends it to the disk. Whatever it is, its status says how it ended.
    ///
    /// # Errors
    ///
    /// There is no place for its status.
    fn receive(
        &mut self,
        head: u16,
        memory: &Memory,
        seat: &Seat<'_>,
    ) -> Result<State, BrokenRing> {
        let table = Table {
            at: self.ring.desc_table(),
            count: self.ring.size(),
        };
        let fetch = |at| {
            let mut bytes = [0; 16];
            memory.read(at, &mut bytes).ok().map(|()| bytes)
        };
        let followed = self.chain.follow(table, head, fetch);
        let status_at = followed.map_err(|why| BrokenRing::Chain { head, why })?;
        let (status, written) = match self.carry_out(status_at, memory, seat) {
            Ok(Progress::Sent(away)) => return Ok(State::Away(away)),
            Ok(Progress::Done(written)) => (Status::Ok, written),
            Err(status) => (status, 0),
        };
        finish(memory, status_at, status, written).map(State::Done)
    }

    fn carry_out(
        &mut self,
        status_at: u64,
        memory: &Memory,
        seat: &Seat<'_>,
    ) -> Result<Progress, Status> {
        if !self.chain.is_sound() {
            self.tally.faults += 1;
            return Err(Status::IoErr);
        }
        let sizes = Sizes {
            readable: self.after_header(bytes_of(self.chain.readable()))?,
            writable: bytes_of(self.chain.writable()) - 1,
        };
        let mut header = [0; HEADER_BYTES as usize];
        let header_at = cut(self.chain.readable(), 0, HEADER_BYTES);
        memory.gather(header_at, &mut header)?;
        match request::parse(header, sizes, &seat.shape)? {
            Asked::Read { at, len } => self.read(at, len, status_at, memory, seat),
            Asked::Write { at, len } => self.write(at, len, status_at, memory, seat),
            Asked::Flush => self.flush(status_at, seat),
            Asked::Name => self.name(memory, seat),
            Asked::Discard => {
                let range = request::discard(self.range(memory)?, &seat.shape)?;
                if range.len == 0 || seat.desk.trim(range.at, range.len) {
                    return Ok(Progress::Done(0));
                }
                let ask = (Verb::Trim, range.at, range.len);
                Ok(self.send(ask, Buffer::default(), Vec::new(), status_at, seat))
            }
            Asked::Zeroes => {
                let range = request::zeroes(self.range(memory)?, &seat.shape)?;
                if range.len == 0 {
                    return Ok(Progress::Done(0));
                }
                let verb = Verb::Zero {
                    hole: range.unmap,
                    fast: false,
                    lasting: seat.caching.must_last(self.features),
                };
                let ask = (verb, range.at, range.len);
                Ok(self.send(ask, Buffer::default(), Vec::new(), status_at, seat))
            }
        }
    }

    fn after_header(&mut self, readable: u64) -> Result<u64, Status> {
        readable.checked_sub(HEADER_BYTES).ok_or_else(|| {
            self.tally.faults += 1;
            Status::IoErr
        })
    }

    fn range(&self, memory: &Memory) -> Result<[u8; RANGE_BYTES as usize], Status> {
        let mut range = [0; RANGE_BYTES as usize];
        let places = cut(self.chain.readable(), HEADER_BYTES, RANGE_BYTES);
        memory.gather(places, &mut range)?;
        Ok(range)
    }

    fn read(
        &mut self,
        at: u64,
        len: u32,
        status_at: u64,
        memory: &Memory,
        seat: &Seat<'_>,
    ) -> Result<Progress, Status> {
        let mut buffer = self.buffer(len);
        let is_hit = seat.desk.read(at, &mut buffer);
        let into = cut(self.chain.writable(), 0, u64::from(len));
        if !is_hit {
            let into = into.collect();
            let ask = (Verb::Read, at, u64::from(len));
            return Ok(self.send(ask, buffer, into, status_at, seat));
        }
        let landed = memory.scatter(into, &buffer);
        self.spares.give_back(buffer);
        landed?;
        Ok(Progress::Done(len))
    }

    fn write(
        &mut self,
        at: u64,
        len: u32,
        status_at: u64,
        memory: &Memory,
        seat: &Seat<'_>,
    ) -> Result<Progress, Status> {
        let mut buffer = self.buffer(len);
        let from = cut(self.chain.readable(), HEADER_BYTES, u64::from(len));
        memory.gather(from, &mut buffer)?;
        let lasting = seat.caching.must_last(self.features);
        if seat.desk.write(at, &buffer, lasting) {
            self.spares.give_back(buffer);
            return Ok(Progress::Done(0));
        }
        let ask = (Verb::Write { lasting }, at, u64::from(len));
        Ok(self.send(ask, buffer, Vec::new(), status_at, seat))
    }

    fn flush(&mut self, status_at: u64, seat: &Seat<'_>) -> Result<Progress, Status> {
        seat.caching.flushed();
        if seat.desk.flush() {
            return Ok(Progress::Done(0));
        }
        let ask = (Verb::Flush, 0, 0);
        Ok(self.send(ask, Buffer::default(), Vec::new(), status_at, seat))
    }

    fn name(&self, memory: &Memory, seat: &Seat<'_>) -> Result<Progress, Status> {
        let mut name = [0; NAME_BYTES];
        let bytes = seat.disk.name().as_bytes();
        let len = bytes.len().min(NAME_BYTES);
        name[..len].copy_from_slice(&bytes[..len]);
        let room = bytes_of(self.chain.writable()) - 1;
        let len = room.min(NAME_BYTES as u64);
        let into = cut(self.chain.writable(), 0, len);
        memory.scatter(into, &name[..len as usize])?;
        Ok(Progress::Done(len as u32))
    }

    fn send(
        &mut self,
        (verb, at, len): (Verb, u64, u64),
        buffer: Buffer,
        into: Vec<Segment>,
        status_at: u64,
        seat: &Seat<'_>,
    ) -> Progress {
        let bytes = buffer.len() as u64;
        self.away += 1;
        self.away_bytes += bytes;
        let away = Away {
            status_at,
            into,
            bytes,
        };
        seat.disk.start(Request {
            verb,
            at,
            len,
            buffer,
            to: Arc::clone(seat.outcomes),
            token: self.next_token(),
        });
        Progress::Sent(away)
    }

    fn buffer(&mut self, len: u32) -> Buffer {
        self.spares.take(len as usize)
    }
}

/// Writes what came back into the guest's memory; says how many bytes.
fn land(
    memory: &Memory,
    away: &Away,
    result: Result<(), Fault>,
    buffer: &Buffer,
) -> Result<u32, BrokenRing> {
    let landed = match result {
        Ok(()) => memory.scatter(away.into.iter().copied(), buffer),
        Err(fault) => return finish(memory, away.status_at, Status::of(fault), 0),
    };
    let (status, written) = match landed {
        Ok(()) => (Status::Ok, bytes_of(&away.into) as u32),
        Err(NoMemory) => (Status::IoErr, 0),
    };
    finish(memory, away.status_at, status, written)
}

/// Writes a request's status; says how many bytes the guest got in all.
fn finish(memory: &Memory, at: u64, status: Status, written: u32) -> Result<u32, BrokenRing> {
    match memory.write(at, &[status as u8]) {
        Ok(()) => Ok(written + 1),
        Err(NoMemory) => Err(BrokenRing::Status(at)),
    }
}

impl From<NoMemory> for Status {
    fn from(_: NoMemory) -> Status {
        Status::IoErr
    }
}
