//! What a VMM asks on its socket: features, memory, where the queues are.

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

use super::letters::{End, Message};
use super::socket::Socket;
use crate::serving::Mailbox;
use crate::vhost_user::map::{Memory, REGIONS_MAX, Refused};
use crate::vhost_user::session::{Call, Places, Setup};
use crate::vhost_user::wire::device::{self, PROTOCOL_FEATURES};

/// A queue's parts, as virtio 1.2 has them (2.7): bytes a descriptor, an entry of the available ring, one of the used
/// ring; and of flags, index and event index.
const DESCRIPTOR_BYTES: usize = 16;
const AVAILABLE_BYTES: usize = 2;
const USED_BYTES: usize = 8;
const RING_BYTES: usize = 6;

/// One VMM's connection.
pub(super) struct Vmm {
    socket: Arc<Socket>,
    features: u64,
    memory: Arc<Memory>,
    rings: Vec<Ring>,
}

/// A queue as the VMM describes it, piece by piece, and the thread that runs it once all is said.
struct Ring {
    mailbox: Arc<Mailbox<Message>>,
    size: u16,
    places: Option<Places>,
    /// The first request without an answer, as far as is known here.
    base: u16,
    kick: Option<Arc<OwnedFd>>,
    call: Option<Call>,
    is_enabled: bool,
    runs: bool,
}

impl Vmm {
    /// A connection of which nothing is known yet.
    pub(super) fn new(socket: Arc<Socket>, mailboxes: &[Arc<Mailbox<Message>>]) -> Vmm {
        let size = socket.settings.queue_size;
        let ring = |mailbox: &Arc<Mailbox<Message>>| Ring {
            mailbox: Arc::clone(mailbox),
            size,
            places: None,
            base: 0,
            kick: None,
            call: None,
            is_enabled: false,
            runs: false,
        };
        Vmm {
            socket,
            features: 0,
            memory: Arc::default(),
            rings: mailboxes.iter().map(ring).collect(),
        }
    }

    /// The connection has ended: stops its queues, and waits for what is at the disk.
    pub(super) fn leave(&mut self) {
        let running = self.rings.iter_mut().filter(|ring| ring.runs);
        let ends: Vec<_> = running.map(|ring| ring.mailbox.end(End::Silent)).collect();
        for end in ends {
            let _ = end.recv();
        }
    }

    fn offered(&self) -> u64 {
        device::features(&self.socket.disk.shape(), self.socket.settings.config_wce)
    }

    fn ring(&mut self, index: usize) -> Result<&mut Ring> {
        self.rings.get_mut(index).ok_or(Error::InvalidParam)
    }

    /// Changes a queue, which stands still for it, and lets it run if it may.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Ring)) -> Result<()> {
        let ring = self.ring(index)?;
        ring.rest();
        change(ring);
        self.run(index)
    }

    fn run(&mut self, index: usize) -> Result<()> {
        let (features, memory) = (self.features, Arc::clone(&self.memory));
        let ring = self.ring(index)?;
        let (true, Some(places), Some(kick)) = (ring.is_enabled, ring.places, &ring.kick) else {
            return Ok(());
        };
        let setup = Setup {
            size: ring.size,
            places,
            features,
            has_event_index: features & (1 << VIRTIO_RING_F_EVENT_IDX) != 0,
            memory,
            call: ring.call.clone(),
        };
        let begun = ring.mailbox.begin(setup, Arc::clone(kick));
        begun.map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
        ring.runs = true;
        Ok(())
    }

    fn take_memory(&mut self, memory: std::result::Result<Memory, Refused>) -> Result<()> {
        let memory = memory.map_err(|refused| {
            self.socket.figures.refused_memory.bump();
            Error::ReqHandlerError(io::Error::other(refused))
        })?;
        // A VMM that changes a region takes it away and gives it again: a queue that lies there rests in between.
        let lost = |ring: &&mut Ring| ring.runs && !ring.lies_in(&memory);
        self.rings.iter_mut().filter(lost).for_each(Ring::rest);
        self.memory = Arc::new(memory);
        for ring in self.rings.iter().filter(|ring| ring.runs) {
            ring.mailbox.set_memory(&self.memory);
        }
        for index in 0..self.rings.len() {
            let ring = &self.rings[index];
            if !ring.runs && ring.lies_in(&self.memory) {
                self.run(index)?;
            }
        }
        Ok(())
    }
}

impl Ring {
    /// Whether all of the queue is in that memory.
    fn lies_in(&self, memory: &Memory) -> bool {
        self.places.is_some_and(|places| {
            let size = usize::from(self.size);
            memory.has(places.descriptors, DESCRIPTOR_BYTES * size)
                && memory.has(places.available, RING_BYTES + AVAILABLE_BYTES * size)
                && memory.has(places.used, RING_BYTES + USED_BYTES * size)
        })
    }

    /// Stops the queue when all that it took is answered.
    fn rest(&mut self) {
        if std::mem::take(&mut self.runs)
            && let Ok(position) = self.mailbox.end(End::Answered).recv()
        {
            self.base = position;
        }
    }
}

const NOT_HERE: Error = Error::InvalidOperation("not offered by this device");

impl VhostUserBackendReqHandlerMut for Vmm {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.rings.iter_mut().for_each(Ring::rest);
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
        for index in 0..self.rings.len() {
            if has_changed || enables {
                self.change(index, |ring| ring.is_enabled |= enables)?;
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
        self.take_memory(Memory::map(regions, files))?;
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
        self.change(index as usize, |ring| ring.size = num as u16)
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
        let place = |vmm| self.memory.address_of(vmm).ok_or(Error::InvalidParam);
        let places = Places {
            descriptors: place(descriptor)?,
            available: place(available)?,
            used: place(used)?,
        };
        self.change(index as usize, |ring| ring.places = Some(places))
    }

    /// Taken note of; the ring's own used index decides, see the head of this frontend.
    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index as usize)?.base = base as u16;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.ring(index as usize)?;
        ring.rest();
        (ring.kick, ring.call) = (None, None);
        Ok(VhostUserVringState::new(index, u32::from(ring.base)))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let kick = file.map(|file| Arc::new(OwnedFd::from(file)));
        self.change(usize::from(index), |ring| ring.kick = kick)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let ring = self.ring(usize::from(index))?;
        ring.call = file.map(|file| Call::new(OwnedFd::from(file)));
        if ring.runs {
            ring.mailbox.set_call(ring.call.clone());
        }
        Ok(())
    }

    /// Nothing is ever told that way.
    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        self.ring(usize::from(index)).map(|_| ())
    }

    /// Acknowledgements are the crate's own and always offered.
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
        Ok(self.rings.len() as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        if self.ring(index as usize)?.is_enabled == enable {
            return Ok(());
        }
        self.change(index as usize, |ring| ring.is_enabled = enable)
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let shape = self.socket.disk.shape();
        let queues = self.rings.len() as u16;
        let wce = self.socket.caching.byte();
        let (offset, size) = (offset as usize, size as usize);
        Ok(device::config(&shape, queues, wce, offset, size))
    }

    fn set_config(&mut self, offset: u32, bytes: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        let set = self.socket.caching.set(offset as usize, bytes);
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
        self.take_memory(self.memory.with(region, file))?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.take_memory(self.memory.without(region))
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
