//! One queue of a guest. It takes requests in the order of the available ring and carries them out side by side. It
//! puts them into the used ring **in that same order**. The head of the `vhost_user` module says why.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use virtio_queue::{Queue as SplitRing, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress};

use super::QUEUE_SIZE_MAX;
use super::map::{BadGuestAddress, GuestMemory};
use super::metrics::{VhostUserFigures, VhostUserTally};
use super::wire::chain::{
    ChainError, DescriptorChain, DescriptorTable, Segment, subrange, total_bytes,
};
use super::wire::device::WriteCache;
use super::wire::request::{
    self, BufferSizes, HEADER_BYTES, NAME_BYTES, RANGE_BYTES, Status, VirtioBlkRequest,
};
use crate::block_device::{
    Buffer, Disk, DiskFastPath, DiskFault, DiskOperation, DiskOutcome, DiskRequest, DiskShape,
    OutcomeSink, SpareBuffers, ZeroSpeed, Zeroing,
};

/// Bytes of requests at the disk. Above this number the queue takes no more requests from the ring. One request may go
/// beyond it.
const FLIGHT_BYTES_MAX: u64 = 64 << 20;

/// How many requests a queue takes in one turn before it notifies the guest.
const TURN_REQUESTS_MAX: usize = 64;

/// How many small buffers are kept for later requests: 8 MiB per queue.
const SPARE_MAX: usize = 32;

/// The flag by which a driver wants no notification (without `EVENT_IDX`).
const NO_INTERRUPT: u16 = 1;

/// Why a queue stops.
#[derive(Debug, thiserror::Error)]
pub(super) enum VirtqueueError {
    /// The ring makes no sense, or is not in the guest's memory.
    #[error("the ring cannot be used: {0}")]
    Ring(#[from] virtio_queue::Error),
    /// The queue cannot tell the guest how a request ended. A driver would take silence for success.
    #[error("the request of descriptor {head} cannot be answered: {why}")]
    Chain { head: u16, why: ChainError },
    /// The same, because the request's status is not in the guest's memory.
    #[error(
        "a request cannot be answered: there is no memory at {0:#x}, where its status should be"
    )]
    Status(u64),
    /// Pages of the guest's memory are gone.
    #[error(
        "a part of the guest's memory has vanished: its file was cut, or no page was left for it"
    )]
    Vanished,
}

/// Where a queue lies, and what VMM and driver agreed on.
pub(super) struct VirtqueueSetup {
    pub(super) size: u16,
    pub(super) addresses: VringAddresses,
    /// The features that the driver accepted.
    pub(super) features: u64,
    pub(super) has_event_index: bool,
    pub(super) memory: Arc<GuestMemory>,
    pub(super) call: Option<CallNotifier>,
}

/// The guest's addresses of the queue's three parts.
#[derive(Clone, Copy)]
pub(super) struct VringAddresses {
    pub(super) descriptors: GuestAddress,
    pub(super) available: GuestAddress,
    pub(super) used: GuestAddress,
}

/// How the daemon notifies the guest.
#[derive(Clone)]
pub(super) struct CallNotifier {
    event: Arc<OwnedFd>,
    is_blocking: bool,
}

impl CallNotifier {
    pub(super) fn new(event: OwnedFd) -> CallNotifier {
        let flags = rustix::fs::fcntl_getfl(&event);
        CallNotifier {
            event: Arc::new(event),
            is_blocking: !flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)),
        }
    }

    /// Notifies the guest. A full counter means that it has been notified already.
    fn notify(&self) {
        if self.is_blocking && !self.has_room() {
            return;
        }
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
    }

    fn has_room(&self) -> bool {
        let mut poll_fds = [PollFd::new(&*self.event, PollFlags::OUT)];
        let at_once = Timespec::default();
        rustix::event::poll(&mut poll_fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }
}

/// What a queue's thread needs to carry out requests.
pub(super) struct QueueResources<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) fast_path: &'a dyn DiskFastPath,
    pub(super) outcomes: &'a Arc<dyn OutcomeSink>,
    pub(super) write_cache: &'a WriteCache,
    pub(super) figures: &'a VhostUserFigures,
    pub(super) shape: DiskShape,
}

/// A request that the queue took from the available ring and has not put into the used ring yet.
struct TakenRequest {
    head: u16,
    state: TakenState,
}

enum TakenState {
    /// The request is done, and this many bytes were written to the guest.
    Done(u32),
    /// The request is at the disk.
    AtDisk(PendingCompletion),
}

/// What is left to do when the disk gives the request back.
struct PendingCompletion {
    status_at: u64,
    /// Where the bytes of a read go.
    into: Vec<Segment>,
    bytes: u64,
}

/// How far a request has come.
enum RequestProgress {
    Done(u32),
    Sent(PendingCompletion),
}

/// A running queue.
pub(super) struct Virtqueue {
    ring: SplitRing,
    features: u64,
    memory: Arc<GuestMemory>,
    call: Option<CallNotifier>,
    /// Requests in the order of the available ring. There are never more than the ring has entries.
    entries: VecDeque<TakenRequest>,
    /// The token of the first entry.
    first_token: u64,
    at_disk: usize,
    at_disk_bytes: u64,
    /// The queue answers nothing any more. See [`abandon`](Virtqueue::abandon).
    is_abandoned: bool,
    /// The queue takes nothing any more.
    is_closed: bool,
    chain: DescriptorChain,
    spares: SpareBuffers,
    tally: VhostUserTally,
    /// Answers since the guest was last notified, or needed no notification.
    unnotified: u32,
}

impl Virtqueue {
    /// Starts a queue after the last request that its used ring counts as answered. Tokens count from `first`.
    pub(super) fn begin(setup: VirtqueueSetup, first: u64) -> Result<Virtqueue, VirtqueueError> {
        let mut ring = SplitRing::new(QUEUE_SIZE_MAX)?;
        ring.try_set_size(setup.size)?;
        ring.try_set_desc_table_address(setup.addresses.descriptors)?;
        ring.try_set_avail_ring_address(setup.addresses.available)?;
        ring.try_set_used_ring_address(setup.addresses.used)?;
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
        Ok(Virtqueue {
            ring,
            features: setup.features,
            memory: setup.memory,
            call: setup.call,
            entries: VecDeque::with_capacity(usize::from(setup.size)),
            first_token: first,
            at_disk: 0,
            at_disk_bytes: 0,
            is_abandoned: false,
            is_closed: false,
            chain: DescriptorChain::default(),
            spares: SpareBuffers::new(SPARE_MAX),
            tally: VhostUserTally::default(),
            unnotified: 0,
        })
    }

    /// The first unanswered request, as an index of the available ring.
    pub(super) fn position(&self) -> u16 {
        self.ring.next_used()
    }

    /// A token that the queue never used.
    pub(super) fn next_token(&self) -> u64 {
        self.first_token + self.entries.len() as u64
    }

    /// Uses another memory of the guest from now on.
    pub(super) fn set_memory(&mut self, memory: Arc<GuestMemory>) {
        self.memory = memory;
    }

    /// Notifies the guest in another way from now on. It does so once right away, in case the old way lost a
    /// notification.
    pub(super) fn set_call(&mut self, call: Option<CallNotifier>) {
        self.call = call;
        self.notify();
    }

    /// Takes nothing more, but still answers what it took.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes and answers nothing more. The next daemon that serves the ring finds what is unanswered.
    pub(super) fn abandon(&mut self) {
        self.is_closed = true;
        self.is_abandoned = true;
    }

    /// Returns whether no request is at the disk.
    pub(super) fn is_drained(&self) -> bool {
        self.at_disk == 0
    }

    /// Returns whether the ring has a request that the queue can take.
    pub(super) fn has_work(&self) -> bool {
        if !self.has_capacity() {
            return false;
        }
        let available = self.ring.avail_idx(self.memory.guest(), Ordering::Acquire);
        available.map_or(true, |index| index.0 != self.ring.next_avail())
    }

    fn has_capacity(&self) -> bool {
        let has_place = self.entries.len() < usize::from(self.ring.size());
        !self.is_closed && has_place && self.at_disk_bytes < FLIGHT_BYTES_MAX
    }

    /// Asks the guest to kick. Returns false if the ring has a request already.
    pub(super) fn fall_asleep(&mut self) -> Result<bool, VirtqueueError> {
        if !self.has_capacity() {
            return Ok(true);
        }
        let has_more = self.ring.enable_notification(self.memory.guest())?;
        Ok(!has_more)
    }

    /// Tells the guest that it need not kick any more.
    pub(super) fn wake_up(&mut self) {
        let _ = self.ring.disable_notification(self.memory.guest());
    }

    /// Takes up to [`TURN_REQUESTS_MAX`] requests, and answers those that are done.
    pub(super) fn serve_turn(
        &mut self,
        resources: &QueueResources<'_>,
    ) -> Result<(), VirtqueueError> {
        let result = self.take_and_answer(resources);
        self.blame_vanished_memory(result)
    }

    /// Blames vanished memory for an error, whatever else went wrong.
    fn blame_vanished_memory(
        &mut self,
        result: Result<(), VirtqueueError>,
    ) -> Result<(), VirtqueueError> {
        if self.is_abandoned || !self.memory.has_vanished() {
            return result;
        }
        self.abandon();
        Err(VirtqueueError::Vanished)
    }

    fn take_and_answer(&mut self, resources: &QueueResources<'_>) -> Result<(), VirtqueueError> {
        let memory = Arc::clone(&self.memory);
        for _ in 0..TURN_REQUESTS_MAX {
            if !self.has_capacity() {
                break;
            }
            let Some(chain) = self.ring.iter(memory.guest())?.next() else {
                break;
            };
            let head = chain.head_index();
            let received = self.receive(head, &memory, resources);
            let state = received.or_else(|broken| self.stop_for(broken, resources.figures))?;
            self.entries.push_back(TakenRequest { head, state });
            self.publish()?;
        }
        self.notify_if_wanted(resources.figures)
    }

    /// Takes nothing more, because a request cannot be answered. The queue still answers the requests before it.
    fn stop_for(
        &mut self,
        broken: VirtqueueError,
        figures: &VhostUserFigures,
    ) -> Result<TakenState, VirtqueueError> {
        self.close();
        self.tally.faults += 1;
        self.notify_if_wanted(figures)?;
        Err(broken)
    }

    /// Takes the outcome of a request.
    pub(super) fn complete_request(&mut self, outcome: DiskOutcome) -> Result<(), VirtqueueError> {
        let DiskOutcome {
            token,
            result,
            buffer,
            ..
        } = outcome;
        let place = token
            .checked_sub(self.first_token)
            .map(|place| place as usize);
        let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) else {
            return Ok(());
        };
        let TakenState::AtDisk(pending) = &entry.state else {
            return Ok(());
        };
        self.at_disk -= 1;
        self.at_disk_bytes -= pending.bytes;
        if result == Err(DiskFault::Leaving) {
            (self.is_closed, self.is_abandoned) = (true, true);
        }
        let mut settled = Ok(());
        if !self.is_abandoned {
            match write_result(&self.memory, pending, result, &buffer) {
                Ok(written) => entry.state = TakenState::Done(written),
                Err(broken) => {
                    self.tally.faults += 1;
                    settled = Err(broken);
                }
            }
        }
        self.spares.give_back(buffer);
        // Requests after it stay unanswered as well, because answers keep the order of the ring.
        let settled = self.blame_vanished_memory(settled);
        settled.inspect_err(|_| self.abandon())?;
        self.publish()
    }

    /// Puts finished requests into the used ring, up to the first that is not finished.
    fn publish(&mut self) -> Result<(), VirtqueueError> {
        while !self.is_abandoned
            && let Some(TakenRequest {
                head,
                state: TakenState::Done(written),
            }) = self.entries.front()
        {
            self.ring.add_used(self.memory.guest(), *head, *written)?;
            self.entries.pop_front();
            self.first_token += 1;
            self.unnotified += 1;
        }
        Ok(())
    }

    /// Notifies the guest once for all answers, if it wants that.
    pub(super) fn notify_if_wanted(
        &mut self,
        figures: &VhostUserFigures,
    ) -> Result<(), VirtqueueError> {
        let wants = match std::mem::take(&mut self.unnotified) {
            0 => Ok(false),
            _ => self.wants_notification(),
        };
        if let Ok(true) = wants {
            self.notify();
        }
        figures.count(std::mem::take(&mut self.tally));
        wants.map(|_| ())
    }

    fn wants_notification(&mut self) -> Result<bool, VirtqueueError> {
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
            call.notify();
        }
    }

    /// Parses a request and carries it out, or submits it to the disk. The request's status says how it ended.
    ///
    /// # Errors
    ///
    /// The request has no place for its status.
    fn receive(
        &mut self,
        head: u16,
        memory: &GuestMemory,
        resources: &QueueResources<'_>,
    ) -> Result<TakenState, VirtqueueError> {
        let table = DescriptorTable {
            at: self.ring.desc_table(),
            count: self.ring.size(),
        };
        let fetch = |at| {
            let mut bytes = [0; 16];
            memory.read(at, &mut bytes).ok().map(|()| bytes)
        };
        let followed = self.chain.follow(table, head, fetch);
        let status_at = followed.map_err(|why| VirtqueueError::Chain { head, why })?;
        let (status, written) = match self.carry_out(status_at, memory, resources) {
            Ok(RequestProgress::Sent(pending)) => return Ok(TakenState::AtDisk(pending)),
            Ok(RequestProgress::Done(written)) => (Status::Ok, written),
            Err(status) => (status, 0),
        };
        write_status(memory, status_at, status, written).map(TakenState::Done)
    }

    fn carry_out(
        &mut self,
        status_at: u64,
        memory: &GuestMemory,
        resources: &QueueResources<'_>,
    ) -> Result<RequestProgress, Status> {
        if !self.chain.is_sound() {
            self.tally.faults += 1;
            return Err(Status::IoErr);
        }
        let sizes = BufferSizes {
            readable: self.bytes_after_header(total_bytes(self.chain.readable()))?,
            writable: total_bytes(self.chain.writable()) - 1,
        };
        let mut header = [0; HEADER_BYTES as usize];
        let header_at = subrange(self.chain.readable(), 0, HEADER_BYTES);
        memory.gather(header_at, &mut header)?;
        match request::parse(header, sizes, &resources.shape)? {
            VirtioBlkRequest::Read { at, len } => self.read(at, len, status_at, memory, resources),
            VirtioBlkRequest::Write { at, len } => {
                self.write(at, len, status_at, memory, resources)
            }
            VirtioBlkRequest::Flush => self.flush(status_at, resources),
            VirtioBlkRequest::GetId => self.get_id(memory, resources),
            VirtioBlkRequest::Discard => {
                let range = request::discard(self.read_range(memory)?, &resources.shape)?;
                if range.len == 0 || resources.fast_path.trim(range.at, range.len) {
                    return Ok(RequestProgress::Done(0));
                }
                let request = (DiskOperation::Trim, range.at, range.len);
                Ok(self.submit(request, Buffer::default(), Vec::new(), status_at, resources))
            }
            VirtioBlkRequest::WriteZeroes => {
                let range = request::zeroes(self.read_range(memory)?, &resources.shape)?;
                if range.len == 0 {
                    return Ok(RequestProgress::Done(0));
                }
                let operation = DiskOperation::Zero(Zeroing {
                    hole: range.hole,
                    speed: ZeroSpeed::Any,
                    fua: resources.write_cache.fua(self.features),
                });
                let request = (operation, range.at, range.len);
                Ok(self.submit(request, Buffer::default(), Vec::new(), status_at, resources))
            }
        }
    }

    fn bytes_after_header(&mut self, readable: u64) -> Result<u64, Status> {
        readable.checked_sub(HEADER_BYTES).ok_or_else(|| {
            self.tally.faults += 1;
            Status::IoErr
        })
    }

    fn read_range(&self, memory: &GuestMemory) -> Result<[u8; RANGE_BYTES as usize], Status> {
        let mut range = [0; RANGE_BYTES as usize];
        let places = subrange(self.chain.readable(), HEADER_BYTES, RANGE_BYTES);
        memory.gather(places, &mut range)?;
        Ok(range)
    }

    fn read(
        &mut self,
        at: u64,
        len: u32,
        status_at: u64,
        memory: &GuestMemory,
        resources: &QueueResources<'_>,
    ) -> Result<RequestProgress, Status> {
        let mut buffer = self.buffer(len);
        let is_hit = resources.fast_path.read(at, &mut buffer);
        let into = subrange(self.chain.writable(), 0, u64::from(len));
        if !is_hit {
            let into = into.collect();
            let request = (DiskOperation::Read, at, u64::from(len));
            return Ok(self.submit(request, buffer, into, status_at, resources));
        }
        let landed = memory.scatter(into, &buffer);
        self.spares.give_back(buffer);
        landed?;
        Ok(RequestProgress::Done(len))
    }

    fn write(
        &mut self,
        at: u64,
        len: u32,
        status_at: u64,
        memory: &GuestMemory,
        resources: &QueueResources<'_>,
    ) -> Result<RequestProgress, Status> {
        let mut buffer = self.buffer(len);
        let from = subrange(self.chain.readable(), HEADER_BYTES, u64::from(len));
        memory.gather(from, &mut buffer)?;
        let fua = resources.write_cache.fua(self.features);
        if resources.fast_path.write(at, &buffer, fua) {
            self.spares.give_back(buffer);
            return Ok(RequestProgress::Done(0));
        }
        let request = (DiskOperation::Write { fua }, at, u64::from(len));
        Ok(self.submit(request, buffer, Vec::new(), status_at, resources))
    }

    fn flush(
        &mut self,
        status_at: u64,
        resources: &QueueResources<'_>,
    ) -> Result<RequestProgress, Status> {
        resources.write_cache.note_flush();
        if resources.fast_path.flush() {
            return Ok(RequestProgress::Done(0));
        }
        let request = (DiskOperation::Flush, 0, 0);
        Ok(self.submit(request, Buffer::default(), Vec::new(), status_at, resources))
    }

    fn get_id(
        &self,
        memory: &GuestMemory,
        resources: &QueueResources<'_>,
    ) -> Result<RequestProgress, Status> {
        let mut name = [0; NAME_BYTES];
        let bytes = resources.disk.name().as_bytes();
        let len = bytes.len().min(NAME_BYTES);
        name[..len].copy_from_slice(&bytes[..len]);
        let room = total_bytes(self.chain.writable()) - 1;
        let len = room.min(NAME_BYTES as u64);
        let into = subrange(self.chain.writable(), 0, len);
        memory.scatter(into, &name[..len as usize])?;
        Ok(RequestProgress::Done(len as u32))
    }

    fn submit(
        &mut self,
        (operation, at, len): (DiskOperation, u64, u64),
        buffer: Buffer,
        into: Vec<Segment>,
        status_at: u64,
        resources: &QueueResources<'_>,
    ) -> RequestProgress {
        let bytes = buffer.len() as u64;
        self.at_disk += 1;
        self.at_disk_bytes += bytes;
        let pending = PendingCompletion {
            status_at,
            into,
            bytes,
        };
        resources.disk.submit(DiskRequest {
            operation,
            at,
            len,
            buffer,
            outcomes: Arc::clone(resources.outcomes),
            token: self.next_token(),
        });
        RequestProgress::Sent(pending)
    }

    fn buffer(&mut self, len: u32) -> Buffer {
        self.spares.take(len as usize)
    }
}

/// Writes an outcome into the guest's memory. Returns how many bytes it wrote.
fn write_result(
    memory: &GuestMemory,
    pending: &PendingCompletion,
    result: Result<(), DiskFault>,
    buffer: &Buffer,
) -> Result<u32, VirtqueueError> {
    let landed = match result {
        Ok(()) => memory.scatter(pending.into.iter().copied(), buffer),
        Err(fault) => return write_status(memory, pending.status_at, Status::of(fault), 0),
    };
    let (status, written) = match landed {
        Ok(()) => (Status::Ok, total_bytes(&pending.into) as u32),
        Err(BadGuestAddress) => (Status::IoErr, 0),
    };
    write_status(memory, pending.status_at, status, written)
}

/// Writes a request's status. Returns how many bytes the guest got in all.
fn write_status(
    memory: &GuestMemory,
    at: u64,
    status: Status,
    written: u32,
) -> Result<u32, VirtqueueError> {
    match memory.write(at, &[status as u8]) {
        Ok(()) => Ok(written + 1),
        Err(BadGuestAddress) => Err(VirtqueueError::Status(at)),
    }
}

impl From<BadGuestAddress> for Status {
    fn from(_: BadGuestAddress) -> Status {
        Status::IoErr
    }
}
