//! A queue as a guest's driver sees it.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::layout::{
    DriverCompletion, DriverError, DriverRequest, DriverSettings, NO_STATUS, PAGE,
    SLOT_DESCRIPTORS, SLOT_HEAD_BYTES,
};

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A queue as a guest's driver sees it.
pub struct DriverQueue {
    memory: Arc<GuestMemoryMmap<()>>,
    size: u16,
    slot_bytes: u32,
    event_index: bool,
    indirect: bool,
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
    heads: u64,
    bytes: u64,
    stride: u64,
    pub(crate) kick: EventFd,
    pub(crate) call: EventFd,
    poll: Poll,
    ready: Events,
    free_slots: Vec<u16>,
    is_under_way: Vec<bool>,
    /// The next index of the available ring, and the one up to which the driver has kicked the daemon.
    next_available: u16,
    kicked_up_to: u16,
    /// The next index of the used ring.
    next_used: u16,
}

impl DriverQueue {
    pub(crate) fn new(
        layout: &DriverSettings,
        n: u16,
        memory: Arc<GuestMemoryMmap<()>>,
    ) -> Result<DriverQueue, DriverError> {
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
            free_slots: (0..layout.slots).rev().collect(),
            is_under_way: vec![false; usize::from(layout.slots)],
            next_available: 0,
            kicked_up_to: 0,
            next_used: 0,
        })
    }

    /// Takes a free slot for one request.
    pub fn take_slot(&mut self) -> Option<u16> {
        self.free_slots.pop()
    }

    /// Gives back a slot that was not submitted.
    pub fn return_slot(&mut self, slot: u16) {
        self.free_slots.push(slot);
    }

    /// How many slots are free.
    pub fn free_slots(&self) -> usize {
        self.free_slots.len()
    }

    /// The address of a slot's bytes in the guest's memory.
    pub fn bytes_at(&self, slot: u16) -> u64 {
        self.bytes + u64::from(slot) * self.stride
    }

    /// Writes a slot's bytes.
    ///
    /// # Errors
    ///
    /// `bytes` is longer than a slot.
    pub fn write_slot(&self, slot: u16, bytes: &[u8]) -> Result<(), DriverError> {
        Ok(self
            .memory
            .write_slice(bytes, GuestAddress(self.bytes_at(slot)))?)
    }

    /// Reads a slot's bytes.
    ///
    /// # Errors
    ///
    /// `into` is longer than a slot.
    pub fn read_slot(&self, slot: u16, into: &mut [u8]) -> Result<(), DriverError> {
        Ok(self
            .memory
            .read_slice(into, GuestAddress(self.bytes_at(slot)))?)
    }

    /// Puts a request into the ring. The daemon sees it at once, or when it is kicked.
    ///
    /// # Errors
    ///
    /// The layout does not fit its memory.
    pub fn submit(&mut self, slot: u16, request: DriverRequest) -> Result<(), DriverError> {
        let head_at = self.heads + u64::from(slot) * SLOT_HEAD_BYTES;
        let (kind, sector) = kind_of(request);
        let mut header = [0; 16];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        self.memory.write_slice(&header, GuestAddress(head_at))?;
        let (bytes_at, bytes, direction) = self.bytes_of(slot, head_at, request)?;
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
        self.push_available(head)
    }

    fn bytes_of(
        &self,
        slot: u16,
        head_at: u64,
        request: DriverRequest,
    ) -> Result<(u64, u32, u16), DriverError> {
        let at = self.bytes_at(slot);
        Ok(match request {
            DriverRequest::Read { bytes, .. } => (at, bytes, WRITE),
            DriverRequest::Write { bytes, .. } => (at, bytes, 0),
            DriverRequest::Flush => (at, 0, 0),
            DriverRequest::Name => (at, 20, WRITE),
            DriverRequest::Other { readable, .. } => (at, readable.min(self.slot_bytes), 0),
            DriverRequest::Discard {
                sector,
                sectors,
                flags,
            }
            | DriverRequest::Zeroes {
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

    /// Writes a descriptor of the queue's own table, whatever it contains.
    ///
    /// # Errors
    ///
    /// The index lies outside the guest's memory.
    pub fn write_descriptor(
        &self,
        index: u16,
        (at, len, flags, next): (u64, u32, u16, u16),
    ) -> Result<(), DriverError> {
        self.put(self.descriptors, index, (at, len, flags, next))
    }

    fn put(
        &self,
        table: u64,
        index: u16,
        (at, len, flags, next): (u64, u32, u16, u16),
    ) -> Result<(), DriverError> {
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
    /// The layout does not fit its memory.
    pub fn push_available(&mut self, head: u16) -> Result<(), DriverError> {
        let place = self.available + 4 + 2 * u64::from(self.next_available % self.size);
        self.memory
            .store(head.to_le(), GuestAddress(place), Ordering::Relaxed)?;
        self.set_available_index(self.next_available.wrapping_add(1))
    }

    /// Sets the count of requests in the available ring, true or not.
    ///
    /// # Errors
    ///
    /// The layout does not fit its memory.
    pub fn set_available_index(&mut self, next: u16) -> Result<(), DriverError> {
        self.next_available = next;
        let index = GuestAddress(self.available + 2);
        Ok(self.memory.store(next.to_le(), index, Ordering::Release)?)
    }

    /// Kicks the daemon if it wants a kick for what was submitted since the last one. Returns whether it did.
    ///
    /// # Errors
    ///
    /// The layout does not fit its memory.
    pub fn kick(&mut self) -> Result<bool, DriverError> {
        fence(Ordering::SeqCst);
        let kicked = std::mem::replace(&mut self.kicked_up_to, self.next_available);
        let wants = if self.event_index {
            let event = self.load_u16(self.used + 4 + 8 * u64::from(self.size))?;
            let passed = self.next_available.wrapping_sub(event).wrapping_sub(1);
            passed < self.next_available.wrapping_sub(kicked)
        } else {
            self.load_u16(self.used)? & 1 == 0
        };
        if wants {
            self.kick_anyway()?;
        }
        Ok(wants)
    }

    /// Kicks the daemon in any case.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn kick_anyway(&self) -> Result<(), DriverError> {
        Ok(self.kick.write(1)?)
    }

    /// The next answer, if there is one.
    ///
    /// # Errors
    ///
    /// The daemon answered a request that was not under way.
    pub fn reap(&mut self) -> Result<Option<DriverCompletion>, DriverError> {
        if self.used_index()? == self.next_used {
            return Ok(None);
        }
        let place = self.used + 4 + 8 * u64::from(self.next_used % self.size);
        let mut entry = [0; 8];
        self.memory.read_slice(&mut entry, GuestAddress(place))?;
        let [a, b, c, d, written @ ..] = entry;
        let head = u32::from_le_bytes([a, b, c, d]);
        let written = u32::from_le_bytes(written);
        self.next_used = self.next_used.wrapping_add(1);
        let per_slot = match self.indirect {
            true => 1,
            false => u32::from(SLOT_DESCRIPTORS),
        };
        let slot = (head / per_slot) as usize;
        match self.is_under_way.get_mut(slot) {
            Some(under_way) if *under_way => *under_way = false,
            _ => return Err(DriverError::NotUnderWay(head)),
        }
        let slot = slot as u16;
        let status_at = self.heads + u64::from(slot) * SLOT_HEAD_BYTES + 32;
        let mut status = [0];
        self.memory
            .read_slice(&mut status, GuestAddress(status_at))?;
        self.free_slots.push(slot);
        Ok(Some(DriverCompletion {
            slot,
            status: status[0],
            written,
        }))
    }

    /// Waits until the daemon notifies the driver of an answer, for at most `longest`. Returns whether there is one.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn wait(&mut self, longest: Duration) -> Result<bool, DriverError> {
        let event = GuestAddress(self.available + 4 + 2 * u64::from(self.size));
        self.memory
            .store(self.next_used.to_le(), event, Ordering::Relaxed)?;
        fence(Ordering::SeqCst);
        if self.used_index()? != self.next_used {
            return Ok(true);
        }
        let until = Instant::now() + longest;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.poll.poll(&mut self.ready, Some(left))?;
            let has_answer = self.used_index()? != self.next_used;
            if has_answer || left.is_zero() {
                return Ok(has_answer);
            }
        }
    }

    /// How many notifications came since the last call. The call resets the count.
    pub fn notifications(&self) -> u64 {
        self.call.read().unwrap_or(0)
    }

    /// How many answers the used ring counts, modulo 65,536.
    ///
    /// # Errors
    ///
    /// The layout does not fit its memory.
    pub fn used_index(&self) -> Result<u16, DriverError> {
        self.load_u16(self.used + 2)
    }

    fn load_u16(&self, at: u64) -> Result<u16, DriverError> {
        let half = self
            .memory
            .load::<u16>(GuestAddress(at), Ordering::Acquire)?;
        Ok(u16::from_le(half))
    }
}

/// A request's number and sector.
fn kind_of(request: DriverRequest) -> (u32, u64) {
    match request {
        DriverRequest::Read { sector, .. } => (0, sector),
        DriverRequest::Write { sector, .. } => (1, sector),
        DriverRequest::Flush => (4, 0),
        DriverRequest::Name => (8, 0),
        DriverRequest::Discard { .. } => (11, 0),
        DriverRequest::Zeroes { .. } => (13, 0),
        DriverRequest::Other { kind, .. } => (kind, 0),
    }
}
