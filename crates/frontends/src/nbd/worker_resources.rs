//! What the connections of one worker share: fast paths, buffers, and the table of requests in flight.

use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use super::HELD_MAX;
use super::session::in_flight::{DiskId, InFlightRequest, InFlightTable};
use super::socket_buffer::SocketBuffer;
use crate::block_device::{
    Buffer, Disk, DiskFastPath, DiskOperation, DiskRequest, OutcomeSink, REQUEST_BYTES_MAX,
    SpareBuffers,
};
use crate::tenancy::StoreHandle;

/// How much of [`HELD_MAX`] the requests of one disk may hold. So the requests of other disks go on while this disk
/// does not answer. A single request may hold more.
const HELD_BY_DISK_MAX: usize = HELD_MAX / 4;

/// The largest request that may use the last quarter of either limit. So large requests whose payloads stall leave that
/// quarter to others.
const SMALL_MAX: usize = 256 << 10;

/// Small buffers that a worker keeps for reuse.
const SPARE_BUFFERS_MAX: usize = 64;

/// How many allocations of socket buffers a worker keeps for reuse, and the size in bytes of the largest that it keeps.
const SPARE_ALLOCATIONS_MAX: usize = 16;
const SPARE_ALLOCATION_BYTES_MAX: usize = 1344 << 10;

/// What one worker's connections share.
pub(super) struct WorkerResources {
    store: StoreHandle,
    fast_paths: Vec<(Arc<dyn Disk>, Rc<dyn DiskFastPath>)>,
    outcomes: Arc<dyn OutcomeSink>,
    in_flight: InFlightTable,
    buffers: SpareBuffers,
    spare_allocations: Vec<Vec<u8>>,
    /// Bytes that requests in flight, payloads on their way in and socket buffers hold.
    pub(super) held: usize,
    /// How many of those bytes each disk's requests hold. Disks that hold nothing are not listed.
    held_by_disk: Vec<(DiskId, usize)>,
    /// Whether memory was released since the worker last looked.
    pub(super) was_freed: bool,
}

impl WorkerResources {
    /// Resources whose disks deliver to `outcomes`.
    pub(super) fn new(store: StoreHandle, outcomes: Arc<dyn OutcomeSink>) -> WorkerResources {
        WorkerResources {
            store,
            fast_paths: Vec::new(),
            outcomes,
            in_flight: InFlightTable::default(),
            buffers: SpareBuffers::new(SPARE_BUFFERS_MAX),
            spare_allocations: Vec::with_capacity(SPARE_ALLOCATIONS_MAX),
            held: 0,
            held_by_disk: Vec::new(),
            was_freed: false,
        }
    }

    /// This worker's fast path to a disk.
    pub(super) fn fast_path(&mut self, disk: &Arc<dyn Disk>) -> Rc<dyn DiskFastPath> {
        let is_same = |known: &Arc<dyn Disk>| ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(disk));
        if let Some((_, fast_path)) = self.fast_paths.iter().find(|(known, _)| is_same(known)) {
            return Rc::clone(fast_path);
        }
        let fast_path: Rc<dyn DiskFastPath> = Rc::from(Arc::clone(disk).fast_path(&self.store));
        self.fast_paths
            .push((Arc::clone(disk), Rc::clone(&fast_path)));
        fast_path
    }

    /// Drops the fast paths of a disk that leaves.
    pub(super) fn forget_disk(&mut self, name: &str) {
        self.fast_paths.retain(|(disk, _)| disk.name() != name);
    }

    /// Returns whether a request to a disk may hold `len` bytes more.
    pub(super) fn has_room(&self, disk: DiskId, len: usize) -> bool {
        let by_disk = self.held_by_disk.iter().find(|(known, _)| *known == disk);
        let part_of = |most: usize| match len {
            0..=SMALL_MAX => most,
            _ => most / 4 * 3,
        };
        let is_fair = by_disk.is_none_or(|(_, held)| held + len <= part_of(HELD_BY_DISK_MAX));
        is_fair && (self.held == 0 || self.held + len <= part_of(HELD_MAX))
    }

    /// Returns whether all disks together hold so much that a request to any disk may find no room.
    pub(super) fn is_memory_short(&self) -> bool {
        self.held + REQUEST_BYTES_MAX as usize > HELD_MAX / 4 * 3
    }

    /// A buffer of `len` bytes for a request to a disk. Its contents are not defined.
    pub(super) fn allocate_buffer(&mut self, disk: DiskId, len: usize) -> Buffer {
        let buffer = self.buffers.take(len);
        if len == 0 {
            return buffer;
        }
        self.held += len;
        match self
            .held_by_disk
            .iter_mut()
            .find(|(known, _)| *known == disk)
        {
            Some((_, held)) => *held += len,
            None => self.held_by_disk.push((disk, len)),
        }
        buffer
    }

    /// Takes back a buffer that counted for `held` bytes.
    pub(super) fn release_buffer(&mut self, disk: DiskId, buffer: Buffer, held: usize) {
        self.recount(held, 0);
        if let Some((_, of_disk)) = self
            .held_by_disk
            .iter_mut()
            .find(|(known, _)| *known == disk)
        {
            *of_disk -= held;
        }
        self.held_by_disk.retain(|(_, held)| *held > 0);
        self.buffers.give_back(buffer);
    }

    /// Corrects the count: what held `before` bytes now holds `now`.
    pub(super) fn recount(&mut self, before: usize, now: usize) {
        self.held = self.held - before + now;
        self.was_freed |= now < before;
    }

    /// An empty socket buffer, in reused memory if there is some.
    pub(super) fn allocate_socket_buffer(&mut self) -> SocketBuffer {
        SocketBuffer::with_allocation(self.spare_allocations.pop().unwrap_or_default())
    }

    /// Takes back an empty socket buffer.
    pub(super) fn release_socket_buffer(&mut self, queue: SocketBuffer) {
        let fits = |room: &Vec<u8>| room.len() <= SPARE_ALLOCATION_BYTES_MAX;
        if self.spare_allocations.len() < SPARE_ALLOCATIONS_MAX {
            self.spare_allocations
                .extend(Some(queue.into_allocation()).filter(fits));
        }
    }

    /// Submits a request to a disk, as `operation`.
    pub(super) fn submit(
        &mut self,
        disk: &Arc<dyn Disk>,
        operation: DiskOperation,
        request: InFlightRequest,
        buffer: Buffer,
    ) {
        let (at, len) = match operation {
            DiskOperation::Flush => (0, 0),
            _ => (request.at, u64::from(request.len)),
        };
        let token = self.in_flight.insert(request);
        disk.submit(DiskRequest {
            operation,
            at,
            len,
            buffer,
            outcomes: Arc::clone(&self.outcomes),
            token,
        });
    }

    /// Takes the request with this token out of the table.
    pub(super) fn remove_in_flight(&mut self, token: u64) -> Option<InFlightRequest> {
        self.in_flight.remove(token)
    }
}
