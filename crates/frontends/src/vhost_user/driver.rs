//! A driver for tests and benches: the VMM's and the guest's side of a vhost-user disk, without a guest.
//!
//! It makes a guest's memory, lays queues out in it, connects to a disk's socket and drives the rings itself. A queue has a
//! fixed number of *slots*, each room for one request and its bytes; a slot is filled, submitted, reaped, and vacant
//! again. After the daemon died, [`Driver::connect`] again goes on with the same memory, as a VMM does.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::fs::{MemfdFlags, SealFlags};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::device::PROTOCOL_FEATURES;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Descriptors of a slot: header, bytes, status.
const SLOT_DESCRIPTORS: u16 = 3;

/// Bytes of a slot's header, its range and its status, its descriptors behind them.
const SLOT_HEAD_BYTES: u64 = 128;

const PAGE: u64 = 4096;

/// How a driver drives.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Queues.
    pub queues: u16,
    /// Places of a queue's rings, a power of two; with direct descriptors at least three times `slots`.
    pub queue_size: u16,
    /// Requests of a queue at a time.
    pub slots: u16,
    /// The most bytes of a request.
    pub slot_bytes: u32,
    /// Notifications are asked for by index.
    pub event_index: bool,
    /// A request is one descriptor in the ring, and three in a table of their own.
    pub indirect: bool,
    /// The memory is sealed against shrinking. A daemon refuses other memory.
    pub sealed: bool,
}

impl Default for Layout {
    /// One queue, 32 requests of up to 64 KiB.
    fn default() -> Layout {
        Layout {
            queues: 1,
            queue_size: 128,
            slots: 32,
            slot_bytes: 64 << 10,
            event_index: true,
            indirect: true,
            sealed: true,
        }
    }
}

impl Layout {
    fn rings_bytes(&self) -> u64 {
        let size = u64::from(self.queue_size);
        (16 * size).next_multiple_of(PAGE)
            + (6 + 2 * size).next_multiple_of(PAGE)
            + (6 + 8 * size).next_multiple_of(PAGE)
    }

    fn slot_stride(&self) -> u64 {
        u64::from(self.slot_bytes).next_multiple_of(PAGE)
    }

    fn queue_bytes(&self) -> u64 {
        let slots = u64::from(self.slots);
        let heads = (SLOT_HEAD_BYTES * slots).next_multiple_of(PAGE);
        self.rings_bytes() + heads + slots * self.slot_stride()
    }

    fn bytes(&self) -> u64 {
        self.queue_bytes() * u64::from(self.queues)
    }
}

/// Why driving failed.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The daemon refused, or is not there.
    #[error("the daemon does not do as it is asked: {0}")]
    Refused(#[from] vhost::Error),
    /// The same, before there was a connection.
    #[error("no connection: {0}")]
    NotConnected(#[from] vhost::vhost_user::Error),
    /// The kernel refused.
    #[error("no memory or event for driving: {0}")]
    Kernel(#[from] io::Error),
    /// The memory is not laid out as thought.
    #[error("the guest's own memory: {0}")]
    Memory(#[from] vm_memory::GuestMemoryError),
    /// The daemon answered a request that it was not asked, or twice.
    #[error("descriptor {0} is in the used ring, and is not under way")]
    NotUnderWay(u32),
    /// The layout has no room for its slots.
    #[error("the queue is too small for its slots")]
    Small,
}

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Reads so many bytes into the slot.
    Read {
        /// The first sector.
        sector: u64,
        /// Bytes.
        bytes: u32,
    },
    /// Writes so many bytes from the slot.
    Write {
        /// The first sector.
        sector: u64,
        /// Bytes.
        bytes: u32,
    },
    /// Flushes.
    Flush,
    /// Reads the disk's name into the slot.
    Name,
    /// Discards a range.
    Discard {
        /// The first sector.
        sector: u64,
        /// Sectors.
        sectors: u32,
        /// Flags, 0 as a rule.
        flags: u32,
    },
    /// Writes zeroes.
    Zeroes {
        /// The first sector.
        sector: u64,
        /// Sectors.
        sectors: u32,
        /// 1: it may be unmapped.
        flags: u32,
    },
    /// Any kind, with bytes for the device to read from the slot and to write to it.
    Other {
        /// Its number.
        kind: u32,
        /// Bytes that the device reads.
        readable: u32,
    },
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request.
    pub slot: u16,
    /// Its status byte; 0 is good.
    pub status: u8,
    /// Bytes that the device says it wrote.
    pub written: u32,
}

/// The status that no device writes.
pub const NO_STATUS: u8 = 0xaa;

/// A VMM with a guest's memory.
pub struct Driver {
    layout: Layout,
    file: File,
    memory: Arc<GuestMemoryMmap<()>>,
    base: u64,
    frontend: Option<Frontend>,
    /// The queues, which may be taken out and driven by threads of their own.
    pub queues: Vec<DriverQueue>,
}

impl Driver {
    /// Memory and queues, not connected yet.
    ///
    /// # Errors
    ///
    /// The kernel gives no memory, or the layout does not work out.
    pub fn new(layout: Layout) -> Result<Driver, DriveError> {
        let needed = match layout.indirect {
            true => layout.slots,
            false => layout.slots * SLOT_DESCRIPTORS,
        };
        if needed > layout.queue_size {
            return Err(DriveError::Small);
        }
        let file = memfd(layout.bytes(), layout.sealed)?;
        let region = MmapRegion::from_file(
            FileOffset::new(file.try_clone()?, 0),
            layout.bytes() as usize,
        )
        .map_err(io::Error::other)?;
        let base = region.as_ptr() as u64;
        let region = GuestRegionMmap::new(region, GuestAddress(0)).ok_or(DriveError::Small)?;
        let memory = GuestMemoryMmap::from_regions(vec![region]).map_err(io::Error::other)?;
        let memory = Arc::new(memory);
        let queue = |n: u16| DriverQueue::new(&layout, n, Arc::clone(&memory));
        let queues: Result<_, _> = (0..layout.queues).map(queue).collect();
        Ok(Driver {
            queues: queues?,
            layout,
            file,
            memory,
            base,
            frontend: None,
        })
    }

    /// Connects, or connects again: the rings go on where the last daemon's answers end.
    ///
    /// # Errors
    ///
    /// Nobody listens, or the daemon refuses.
    pub fn connect(&mut self, path: &Path) -> Result<(), DriveError> {
        self.hang_up();
        let mut frontend = Frontend::connect(path, u64::from(self.layout.queues))?;
        frontend.set_owner()?;
        let offered = frontend.get_features()?;
        let protocol = frontend.get_protocol_features()?;
        let wanted = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS;
        frontend.set_protocol_features(protocol & wanted)?;
        frontend.set_features(self.features(offered))?;
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        frontend.set_mem_table(&[self.region()])?;
        for n in 0..self.queues.len() {
            self.start_queue(&mut frontend, n)?;
        }
        self.frontend = Some(frontend);
        Ok(())
    }

    /// Closes the connection, as a VMM that dies.
    pub fn hang_up(&mut self) {
        self.frontend = None;
    }

    fn features(&self, offered: u64) -> u64 {
        let mut wanted = offered | PROTOCOL_FEATURES;
        if !self.layout.event_index {
            wanted &= !(1 << VIRTIO_RING_F_EVENT_IDX);
        }
        if !self.layout.indirect {
            wanted &= !(1 << VIRTIO_RING_F_INDIRECT_DESC);
        }
        wanted
    }

    fn region(&self) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: self.layout.bytes(),
            userspace_addr: self.base,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        }
    }

    fn start_queue(&self, frontend: &mut Frontend, n: usize) -> Result<(), DriveError> {
        let queue = &self.queues[n];
        frontend.set_vring_num(n, self.layout.queue_size)?;
        frontend.set_vring_base(n, queue.used_index()?)?;
        let places = VringConfigData {
            queue_max_size: self.layout.queue_size,
            queue_size: self.layout.queue_size,
            flags: 0,
            desc_table_addr: self.base + queue.descriptors,
            used_ring_addr: self.base + queue.used,
            avail_ring_addr: self.base + queue.available,
            log_addr: None,
        };
        frontend.set_vring_addr(n, &places)?;
        frontend.set_vring_kick(n, &queue.kick)?;
        frontend.set_vring_call(n, &queue.call)?;
        frontend.set_vring_enable(n, true)?;
        Ok(())
    }

    /// Stops a queue in good order; says the index of the first request that is not answered.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn stop_queue(&mut self, n: usize) -> Result<u32, DriveError> {
        Ok(self.connection()?.get_vring_base(n)?)
    }

    /// Starts a queue that was stopped.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn restart_queue(&mut self, n: usize) -> Result<(), DriveError> {
        let mut frontend = self.connection()?.clone();
        self.start_queue(&mut frontend, n)
    }

    /// Bytes of the config space.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn config(&mut self, offset: u32, len: u32) -> Result<Vec<u8>, DriveError> {
        let flags = VhostUserConfigFlags::WRITABLE;
        let room = vec![0; len as usize];
        let (_, bytes) = self.connection()?.get_config(offset, len, flags, &room)?;
        Ok(bytes)
    }

    /// Writes to the config space.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn set_config(&mut self, offset: u32, bytes: &[u8]) -> Result<(), DriveError> {
        let flags = VhostUserConfigFlags::WRITABLE;
        Ok(self.connection()?.set_config(offset, flags, bytes)?)
    }

    /// The connection itself, for what is not wrapped here.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn connection(&mut self) -> Result<&mut Frontend, DriveError> {
        let missing = || io::Error::from(io::ErrorKind::NotConnected);
        Ok(self.frontend.as_mut().ok_or_else(missing)?)
    }

    /// The guest's memory as a file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The guest's memory, mapped.
    pub fn memory(&self) -> &GuestMemoryMmap<()> {
        &self.memory
    }
}

fn memfd(bytes: u64, sealed: bool) -> io::Result<File> {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    let file = File::from(rustix::fs::memfd_create("guest", flags)?);
    file.set_len(bytes)?;
    if sealed {
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    }
    Ok(file)
}

/// A queue as a guest's driver sees it.
pub struct DriverQueue {
    memory: Arc<GuestMemoryMmap<()>>,
    size: u16,
    slot_bytes: u32,
    event_index: bool,
    indirect: bool,
    descriptors: u64,
    available: u64,
    used: u64,
    heads: u64,
    bytes: u64,
    stride: u64,
    kick: EventFd,
    call: EventFd,
    poll: Poll,
    ready: Events,
    vacant: Vec<u16>,
    is_under_way: Vec<bool>,
    /// The next index of the available ring, and the one up to which the daemon has been told.
    next: u16,
    told: u16,
    /// The next index of the used ring.
    seen: u16,
}

impl DriverQueue {
    fn new(
        layout: &Layout,
        n: u16,
        memory: Arc<GuestMemoryMmap<()>>,
    ) -> Result<DriverQueue, DriveError> {
        let size = u64::from(layout.queue_size);
        let descriptors = layout.queue_bytes() * u64::from(n);
        let available = descriptors + (16 * size).next_multiple_of(PAGE);
        let used = available + (6 + 2 * size).next_multiple_of(PAGE);
        let heads = descriptors + layout.rings_bytes();
        let slots = u64::from(layout.slots);
        let (poll, call) = (Poll::new()?, EventFd::new(EFD_NONBLOCK)?);
        let raw = call.as_raw_fd();
        let registry = poll.registry();
        registry.register(&mut SourceFd(&raw), Token(0), Interest::READABLE)?;
        Ok(DriverQueue {
            memory,
            size: layout.queue_size,
            slot_bytes: layout.slot_bytes,
            event_index: layout.event_index,
            indirect: layout.indirect,
            descriptors,
            available,
            used,
            heads,
            bytes: heads + (SLOT_HEAD_BYTES * slots).next_multiple_of(PAGE),
            stride: layout.slot_stride(),
            kick: EventFd::new(EFD_NONBLOCK)?,
            call,
            poll,
            ready: Events::with_capacity(1),
            vacant: (0..layout.slots).rev().collect(),
            is_under_way: vec![false; usize::from(layout.slots)],
            next: 0,
            told: 0,
            seen: 0,
        })
    }

    /// A slot that is not under way, for one request.
    pub fn vacant(&mut self) -> Option<u16> {
        self.vacant.pop()
    }

    /// Gives a slot back that was not submitted.
    pub fn vacate(&mut self, slot: u16) {
        self.vacant.push(slot);
    }

    /// Slots that are not under way.
    pub fn vacancies(&self) -> usize {
        self.vacant.len()
    }

    /// Where a slot's bytes are in the guest's memory.
    pub fn bytes_at(&self, slot: u16) -> u64 {
        self.bytes + u64::from(slot) * self.stride
    }

    /// Writes a slot's bytes.
    ///
    /// # Errors
    ///
    /// Only with bytes longer than a slot.
    pub fn fill(&self, slot: u16, bytes: &[u8]) -> Result<(), DriveError> {
        Ok(self
            .memory
            .write_slice(bytes, GuestAddress(self.bytes_at(slot)))?)
    }

    /// Reads a slot's bytes.
    ///
    /// # Errors
    ///
    /// Only with more bytes than a slot has.
    pub fn look(&self, slot: u16, into: &mut [u8]) -> Result<(), DriveError> {
        Ok(self
            .memory
            .read_slice(into, GuestAddress(self.bytes_at(slot)))?)
    }

    /// Puts a request into the ring. The daemon may see it at once, or when it is kicked.
    ///
    /// # Errors
    ///
    /// Only with a layout that does not fit its memory.
    pub fn submit(&mut self, slot: u16, ask: Ask) -> Result<(), DriveError> {
        let head_at = self.heads + u64::from(slot) * SLOT_HEAD_BYTES;
        let (kind, sector) = kind_of(ask);
        let mut header = [0; 16];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        self.memory.write_slice(&header, GuestAddress(head_at))?;
        let (bytes_at, bytes, direction) = self.bytes_of(slot, head_at, ask)?;
        self.memory
            .write_slice(&[NO_STATUS], GuestAddress(head_at + 32))?;
        let first = slot * SLOT_DESCRIPTORS;
        let (table, first, head) = match self.indirect {
            true => (head_at + 48, 0, slot),
            false => (self.descriptors, first, first),
        };
        let mut place = first;
        self.put(table, place, (head_at, 16, NEXT, place + 1))?;
        if bytes > 0 {
            place += 1;
            self.put(table, place, (bytes_at, bytes, direction | NEXT, place + 1))?;
        }
        self.put(table, place + 1, (head_at + 32, 1, WRITE, 0))?;
        if self.indirect {
            let len = (u32::from(place) + 2) * 16;
            self.put(self.descriptors, slot, (table, len, INDIRECT, 0))?;
        }
        self.is_under_way[usize::from(slot)] = true;
        self.offer(head)
    }

    fn bytes_of(&self, slot: u16, head_at: u64, ask: Ask) -> Result<(u64, u32, u16), DriveError> {
        let at = self.bytes_at(slot);
        Ok(match ask {
            Ask::Read { bytes, .. } => (at, bytes, WRITE),
            Ask::Write { bytes, .. } => (at, bytes, 0),
            Ask::Flush => (at, 0, 0),
            Ask::Name => (at, 20, WRITE),
            Ask::Other { readable, .. } => (at, readable.min(self.slot_bytes), 0),
            Ask::Discard {
                sector,
                sectors,
                flags,
            }
            | Ask::Zeroes {
                sector,
                sectors,
                flags,
            } => {
                let mut range = [0; 16];
                range[..8].copy_from_slice(&sector.to_le_bytes());
                range[8..12].copy_from_slice(&sectors.to_le_bytes());
                range[12..].copy_from_slice(&flags.to_le_bytes());
                self.memory
                    .write_slice(&range, GuestAddress(head_at + 16))?;
                (head_at + 16, 16, 0)
            }
        })
    }

    /// Writes a descriptor of the queue's own table, whatever it says.
    ///
    /// # Errors
    ///
    /// Only with an index outside the guest's memory.
    pub fn scribble(
        &self,
        index: u16,
        (at, len, flags, next): (u64, u32, u16, u16),
    ) -> Result<(), DriveError> {
        self.put(self.descriptors, index, (at, len, flags, next))
    }

    fn put(
        &self,
        table: u64,
        index: u16,
        (at, len, flags, next): (u64, u32, u16, u16),
    ) -> Result<(), DriveError> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&at.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.to_le_bytes());
        let at = GuestAddress(table + u64::from(index) * 16);
        Ok(self.memory.write_slice(&bytes, at)?)
    }

    /// Puts a descriptor's index into the available ring, whatever it is.
    ///
    /// # Errors
    ///
    /// Only with a layout that does not fit its memory.
    pub fn offer(&mut self, head: u16) -> Result<(), DriveError> {
        let place = self.available + 4 + 2 * u64::from(self.next % self.size);
        self.memory
            .store(head.to_le(), GuestAddress(place), Ordering::Relaxed)?;
        self.set_next(self.next.wrapping_add(1))
    }

    /// Says how many requests there ever were, whatever is true.
    ///
    /// # Errors
    ///
    /// Only with a layout that does not fit its memory.
    pub fn set_next(&mut self, next: u16) -> Result<(), DriveError> {
        self.next = next;
        let index = GuestAddress(self.available + 2);
        Ok(self.memory.store(next.to_le(), index, Ordering::Release)?)
    }

    /// Kicks the daemon if it wants that for what was submitted since the last time; says whether.
    ///
    /// # Errors
    ///
    /// Only with a layout that does not fit its memory.
    pub fn kick(&mut self) -> Result<bool, DriveError> {
        fence(Ordering::SeqCst);
        let told = std::mem::replace(&mut self.told, self.next);
        let wants = if self.event_index {
            let event = self.half(self.used + 4 + 8 * u64::from(self.size))?;
            let passed = self.next.wrapping_sub(event).wrapping_sub(1);
            passed < self.next.wrapping_sub(told)
        } else {
            self.half(self.used)? & 1 == 0
        };
        if wants {
            self.kick_anyway()?;
        }
        Ok(wants)
    }

    /// Kicks the daemon.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn kick_anyway(&self) -> Result<(), DriveError> {
        Ok(self.kick.write(1)?)
    }

    /// The next answer, if there is one.
    ///
    /// # Errors
    ///
    /// The daemon answered what it was not asked.
    pub fn reap(&mut self) -> Result<Option<Answer>, DriveError> {
        if self.used_index()? == self.seen {
            return Ok(None);
        }
        let place = self.used + 4 + 8 * u64::from(self.seen % self.size);
        let mut entry = [0; 8];
        self.memory.read_slice(&mut entry, GuestAddress(place))?;
        let [a, b, c, d, written @ ..] = entry;
        let head = u32::from_le_bytes([a, b, c, d]);
        let written = u32::from_le_bytes(written);
        self.seen = self.seen.wrapping_add(1);
        let per_slot = match self.indirect {
            true => 1,
            false => u32::from(SLOT_DESCRIPTORS),
        };
        let slot = (head / per_slot) as usize;
        match self.is_under_way.get_mut(slot) {
            Some(under_way) if *under_way => *under_way = false,
            _ => return Err(DriveError::NotUnderWay(head)),
        }
        let slot = slot as u16;
        let status_at = self.heads + u64::from(slot) * SLOT_HEAD_BYTES + 32;
        let mut status = [0];
        self.memory
            .read_slice(&mut status, GuestAddress(status_at))?;
        self.vacant.push(slot);
        Ok(Some(Answer {
            slot,
            status: status[0],
            written,
        }))
    }

    /// Waits to be notified of an answer; says whether there is one.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn wait(&mut self, longest: Duration) -> Result<bool, DriveError> {
        let event = GuestAddress(self.available + 4 + 2 * u64::from(self.size));
        self.memory
            .store(self.seen.to_le(), event, Ordering::Relaxed)?;
        fence(Ordering::SeqCst);
        if self.used_index()? != self.seen {
            return Ok(true);
        }
        let until = Instant::now() + longest;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.poll.poll(&mut self.ready, Some(left))?;
            let has_answer = self.used_index()? != self.seen;
            if has_answer || left.is_zero() {
                return Ok(has_answer);
            }
        }
    }

    /// Notifications since the last look, none of which is kept.
    pub fn notifications(&self) -> u64 {
        self.call.read().unwrap_or(0)
    }

    /// How many answers there ever were, modulo 65,536.
    ///
    /// # Errors
    ///
    /// Only with a layout that does not fit its memory.
    pub fn used_index(&self) -> Result<u16, DriveError> {
        self.half(self.used + 2)
    }

    fn half(&self, at: u64) -> Result<u16, DriveError> {
        let half = self
            .memory
            .load::<u16>(GuestAddress(at), Ordering::Acquire)?;
        Ok(u16::from_le(half))
    }
}

/// A request's number and sector.
fn kind_of(ask: Ask) -> (u32, u64) {
    match ask {
        Ask::Read { sector, .. } => (0, sector),
        Ask::Write { sector, .. } => (1, sector),
        Ask::Flush => (4, 0),
        Ask::Name => (8, 0),
        Ask::Discard { .. } => (11, 0),
        Ask::Zeroes { .. } => (13, 0),
        Ask::Other { kind, .. } => (kind, 0),
    }
}
