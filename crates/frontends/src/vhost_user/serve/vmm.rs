//! What a VMM sends on its socket: features, memory, and where the queues are.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;

use super::messages::{Message, QueueStop};
use super::socket::DiskSocket;
use crate::serving::Mailbox;
use crate::vhost_user::map::{GuestMemory, GuestMemoryError, REGIONS_MAX};
use crate::vhost_user::session::{CallNotifier, VirtqueueSetup, VringAddresses};
use crate::vhost_user::wire::device::{self, PROTOCOL_FEATURES, WriteCacheControl};

/// The sizes of a queue's parts in bytes, as virtio 1.2 (2.7) has them. They are a descriptor, an entry of the
/// available ring, an entry of the used ring, and flags, index and event index together.
const DESCRIPTOR_BYTES: usize = 16;
const AVAILABLE_BYTES: usize = 2;
const USED_BYTES: usize = 8;
const RING_BYTES: usize = 6;

/// The connection of one VMM.
pub(super) struct VmmConnection {
    socket: Arc<DiskSocket>,
    features: u64,
    memory: Arc<GuestMemory>,
    vrings: Vec<Vring>,
}

/// A queue as the VMM describes it, piece by piece. Its thread runs it once everything is known.
struct Vring {
    mailbox: Arc<Mailbox<Message>>,
    size: u16,
    addresses: Option<VringAddresses>,
    /// The first request without an answer, as far as this thread knows.
    base: u16,
    kick: Option<Arc<OwnedFd>>,
    call: Option<CallNotifier>,
    is_enabled: bool,
    is_running: bool,
}

impl VmmConnection {
    /// A connection whose VMM has sent nothing yet.
    pub(super) fn new(
        socket: Arc<DiskSocket>,
        mailboxes: &[Arc<Mailbox<Message>>],
    ) -> VmmConnection {
        let size = socket.settings.queue_size;
        let ring = |mailbox: &Arc<Mailbox<Message>>| Vring {
            mailbox: Arc::clone(mailbox),
            size,
            addresses: None,
            base: 0,
            kick: None,
            call: None,
            is_enabled: false,
            is_running: false,
        };
        VmmConnection {
            socket,
            features: 0,
            memory: Arc::default(),
            vrings: mailboxes.iter().map(ring).collect(),
        }
    }

    /// Stops the queues after the connection has ended, and waits for requests at the disk.
    pub(super) fn stop_queues(&mut self) {
        let running = self.vrings.iter_mut().filter(|ring| ring.is_running);
        let ends: Vec<_> = running
            .map(|ring| ring.mailbox.stop_queue(QueueStop::Abandon))
            .collect();
        for end in ends {
            let _ = end.recv();
        }
    }

    fn offered(&self) -> u64 {
        let control = match self.socket.settings.config_wce {
            true => WriteCacheControl::Offered,
            false => WriteCacheControl::Withheld,
        };
        device::features(&self.socket.disk.shape(), control)
    }

    fn vring(&mut self, index: usize) -> Result<&mut Vring> {
        self.vrings.get_mut(index).ok_or(Error::InvalidParam)
    }

    /// Stops a queue, changes it, and starts it again if it may run.
    fn reconfigure(&mut self, index: usize, change: impl FnOnce(&mut Vring)) -> Result<()> {
        let ring = self.vring(index)?;
        ring.pause();
        change(ring);
        self.start_queue(index)
    }

    fn start_queue(&mut self, index: usize) -> Result<()> {
        let (features, memory) = (self.features, Arc::clone(&self.memory));
        let ring = self.vring(index)?;
        let (true, Some(addresses), Some(kick)) = (ring.is_enabled, ring.addresses, &ring.kick)
        else {
            return Ok(());
        };
        let setup = VirtqueueSetup {
            size: ring.size,
            addresses,
            features,
            has_event_index: features & (1 << VIRTIO_RING_F_EVENT_IDX) != 0,
            memory,
            call: ring.call.clone(),
        };
        let started = ring.mailbox.start_queue(setup, Arc::clone(kick));
        started.map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
        ring.is_running = true;
        Ok(())
    }

    fn replace_memory(
        &mut self,
        memory: std::result::Result<GuestMemory, GuestMemoryError>,
    ) -> Result<()> {
        let memory = memory.map_err(|refused| {
            self.socket.figures.refused_memory.bump();
            Error::ReqHandlerError(io::Error::other(refused))
        })?;
        // A VMM changes a region by removing it and adding it again. A queue in that region pauses in between.
        let lost = |ring: &&mut Vring| ring.is_running && !ring.is_within(&memory);
        self.vrings.iter_mut().filter(lost).for_each(Vring::pause);
        self.memory = Arc::new(memory);
        for ring in self.vrings.iter().filter(|ring| ring.is_running) {
            ring.mailbox.set_memory(&self.memory);
        }
        for index in 0..self.vrings.len() {
            let ring = &self.vrings[index];
            if !ring.is_running && ring.is_within(&self.memory) {
                self.start_queue(index)?;
            }
        }
        Ok(())
    }
}

impl Vring {
    /// Returns whether the whole queue lies in that memory.
    fn is_within(&self, memory: &GuestMemory) -> bool {
        self.addresses.is_some_and(|addresses| {
            let size = usize::from(self.size);
            memory.has(addresses.descriptors, DESCRIPTOR_BYTES * size)
                && memory.has(addresses.available, RING_BYTES + AVAILABLE_BYTES * size)
                && memory.has(addresses.used, RING_BYTES + USED_BYTES * size)
        })
    }

    /// Stops the queue after it has answered everything that it took.
    fn pause(&mut self) {
        if std::mem::take(&mut self.is_running)
            && let Ok(position) = self.mailbox.stop_queue(QueueStop::Drain).recv()
        {
            self.base = position;
        }
    }
}

const NOT_HERE: Error = Error::InvalidOperation("not offered by this device");

impl VhostUserBackendReqHandlerMut for VmmConnection {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.vrings.iter_mut().for_each(Vring::pause);
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        Err(NOT_HERE)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered() != 0 {
            return Err(Error::InvalidParam);
        }
        let has_changed = std::mem::replace(&mut self.features, features) != features;
        let enables = features & PROTOCOL_FEATURES == 0;
        for index in 0..self.vrings.len() {
            if has_changed || enables {
                self.reconfigure(index, |ring| ring.is_enabled |= enables)?;
            }
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        self.replace_memory(GuestMemory::map(regions, files))?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let most = u32::from(self.socket.settings.queue_size);
        if num > most || !num.is_power_of_two() {
            let refused = format!(
                "queue {index} has {num} places, and may have a power of two up to {most}: set queue-size={most} or less"
            );
            return Err(Error::ReqHandlerError(io::Error::other(refused)));
        }
        self.reconfigure(index as usize, |ring| ring.size = num as u16)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let guest_address = |vmm| self.memory.address_of(vmm).ok_or(Error::InvalidParam);
        let addresses = VringAddresses {
            descriptors: guest_address(descriptor)?,
            available: guest_address(available)?,
            used: guest_address(used)?,
        };
        self.reconfigure(index as usize, |ring| ring.addresses = Some(addresses))
    }

    /// The daemon only notes the base. The ring's own used index decides, as the head of the `vhost_user` module
    /// explains.
    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.vring(index as usize)?.base = base as u16;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.vring(index as usize)?;
        ring.pause();
        (ring.kick, ring.call) = (None, None);
        Ok(VhostUserVringState::new(index, u32::from(ring.base)))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let kick = file.map(|file| Arc::new(OwnedFd::from(file)));
        self.reconfigure(usize::from(index), |ring| ring.kick = kick)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let ring = self.vring(usize::from(index))?;
        ring.call = file.map(|file| CallNotifier::new(OwnedFd::from(file)));
        if ring.is_running {
            ring.mailbox.set_call(ring.call.clone());
        }
        Ok(())
    }

    /// The daemon never reports errors this way.
    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        self.vring(usize::from(index)).map(|_| ())
    }

    /// The crate `vhost` adds acknowledgements itself and always offers them.
    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        let offered = self.get_protocol_features()? | VhostUserProtocolFeatures::REPLY_ACK;
        match features & !offered.bits() {
            0 => Ok(()),
            _ => Err(Error::InvalidParam),
        }
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.vrings.len() as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        if self.vring(index as usize)?.is_enabled == enable {
            return Ok(());
        }
        self.reconfigure(index as usize, |ring| ring.is_enabled = enable)
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let shape = self.socket.disk.shape();
        let queues = self.vrings.len() as u16;
        let wce = self.socket.write_cache.wce();
        let (offset, size) = (offset as usize, size as usize);
        Ok(device::config(&shape, queues, wce, offset, size))
    }

    fn set_config(&mut self, offset: u32, bytes: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        let set = self.socket.write_cache.set(offset as usize, bytes);
        set.map_err(|error| Error::ReqHandlerError(io::Error::other(error)))
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(NOT_HERE)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_HERE)
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(NOT_HERE)
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(NOT_HERE)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _: Option<bool>,
    ) -> Result<Option<u64>> {
        self.replace_memory(self.memory.with(region, file))?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.replace_memory(self.memory.without(region))
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_HERE)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_HERE)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_HERE)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(NOT_HERE)
    }
}
