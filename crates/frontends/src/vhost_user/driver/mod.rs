//! A driver for tests and benches: the VMM's and the guest's side of a vhost-user disk, without a guest.
//!
//! It makes a guest's memory, lays queues out in it, connects to a disk's socket and drives the rings itself. A queue has a
//! fixed number of *slots*, each room for one request and its bytes; a slot is filled, submitted, reaped, and vacant
//! again. After the daemon died, [`Driver::connect`] again goes on with the same memory, as a VMM does.

mod queue;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

pub use self::queue::DriverQueue;
use super::device::PROTOCOL_FEATURES;

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
    /// The memory is sealed against shrinking, so that it stays.
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

    /// Takes all memory away and gives it again, as a VMM does that changes a region.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn change_memory(&mut self) -> Result<(), DriveError> {
        let region = self.region();
        let connection = self.connection()?;
        connection.remove_mem_region(&region)?;
        connection.add_mem_region(&region)?;
        Ok(())
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
