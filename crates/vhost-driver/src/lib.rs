//! A driver for tests and benches: the VMM's and the guest's side of a vhost-user disk, without a guest.
//!
//! The driver makes a guest's memory, lays queues out in it, connects to a disk's socket and drives the rings itself. A
//! queue has a fixed number of *slots*. Each slot has room for one request and its bytes. You fill a slot, submit it
//! and reap it, and then it is free again. If the daemon has died, [`Driver::connect`] connects again with the same
//! memory, as a VMM does.

#![deny(unsafe_code)]

mod layout;
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

pub use self::layout::{DriverCompletion, DriverError, DriverRequest, DriverSettings, NO_STATUS};
pub use self::queue::DriverQueue;

use self::layout::SLOT_DESCRIPTORS;

/// The feature that announces that VMM and daemon know protocol features at all.
const PROTOCOL_FEATURES: u64 = 1 << 30;

/// A VMM with a guest's memory.
pub struct Driver {
    layout: DriverSettings,
    file: File,
    memory: Arc<GuestMemoryMmap<()>>,
    base: u64,
    frontend: Option<Frontend>,
    /// The queues. You may take them out and drive them on threads of their own.
    pub queues: Vec<DriverQueue>,
}

impl Driver {
    /// Makes memory and queues. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// The kernel gives no memory, or the layout is impossible.
    pub fn new(layout: DriverSettings) -> Result<Driver, DriverError> {
        let needed = match layout.indirect {
            true => layout.slots,
            false => layout.slots * SLOT_DESCRIPTORS,
        };
        if needed > layout.queue_size {
            return Err(DriverError::QueueTooSmall);
        }
        let file = memfd(&layout)?;
        let region = MmapRegion::from_file(
            FileOffset::new(file.try_clone()?, 0),
            layout.bytes() as usize,
        )
        .map_err(io::Error::other)?;
        let base = region.as_ptr() as u64;
        let region =
            GuestRegionMmap::new(region, GuestAddress(0)).ok_or(DriverError::QueueTooSmall)?;
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

    /// Connects, or connects again. The rings continue where the last daemon's answers end.
    ///
    /// # Errors
    ///
    /// Nobody listens, or the daemon refuses.
    pub fn connect(&mut self, path: &Path) -> Result<(), DriverError> {
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

    /// Closes the connection, like a VMM that dies.
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

    /// Removes all memory and adds it again, like a VMM that changes a region.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn change_memory(&mut self) -> Result<(), DriverError> {
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

    fn start_queue(&self, frontend: &mut Frontend, n: usize) -> Result<(), DriverError> {
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

    /// Stops a queue in good order. Returns the index of the first unanswered request.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn stop_queue(&mut self, n: usize) -> Result<u32, DriverError> {
        Ok(self.connection()?.get_vring_base(n)?)
    }

    /// Starts a stopped queue.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn restart_queue(&mut self, n: usize) -> Result<(), DriverError> {
        let mut frontend = self.connection()?.clone();
        self.start_queue(&mut frontend, n)
    }

    /// Reads bytes of the config space.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn config(&mut self, offset: u32, len: u32) -> Result<Vec<u8>, DriverError> {
        let flags = VhostUserConfigFlags::WRITABLE;
        let room = vec![0; len as usize];
        let (_, bytes) = self.connection()?.get_config(offset, len, flags, &room)?;
        Ok(bytes)
    }

    /// Writes bytes of the config space.
    ///
    /// # Errors
    ///
    /// There is no connection, or the daemon refuses.
    pub fn set_config(&mut self, offset: u32, bytes: &[u8]) -> Result<(), DriverError> {
        let flags = VhostUserConfigFlags::WRITABLE;
        Ok(self.connection()?.set_config(offset, flags, bytes)?)
    }

    /// The connection itself, for calls that the driver does not wrap.
    ///
    /// # Errors
    ///
    /// There is no connection.
    pub fn connection(&mut self) -> Result<&mut Frontend, DriverError> {
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

fn memfd(layout: &DriverSettings) -> io::Result<File> {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    let file = File::from(rustix::fs::memfd_create("guest", flags)?);
    file.set_len(layout.bytes())?;
    if layout.sealed {
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    }
    Ok(file)
}
