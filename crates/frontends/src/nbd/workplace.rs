//! What the connections of one worker share: desks, buffers, and the requests that are in flight.

use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use super::HELD_MAX;
use super::queue::Queue;
use super::session::in_flight::{DiskId, Flight, Flights};
use crate::block::{Buffer, Desk, Disk, Outcomes, REQUEST_BYTES_MAX, Request, Spares, Verb};
use crate::tenancy::Doorman;

/// What one disk's requests may hold of [`HELD_MAX`]: while it does not answer, others' go on. One alone may have more.
const HELD_BY_DISK_MAX: usize = HELD_MAX / 4;

/// The largest request that may have the last quarter of either: large ones whose payloads stall leave it to the others.
const SMALL_MAX: usize = 256 << 10;

/// Small buffers that a worker keeps for reuse.
const SPARE_BUFFERS_MAX: usize = 64;

/// Queues' rooms that a worker keeps for reuse, and the largest of them, bytes.
const SPARE_ROOMS_MAX: usize = 16;
const SPARE_ROOM_BYTES_MAX: usize = 1344 << 10;

/// One worker's share of everything.
pub(super) struct Workplace {
    doorman: Doorman,
    desks: Vec<(Arc<dyn Disk>, Rc<dyn Desk>)>,
    outcomes: Arc<dyn Outcomes>,
    flights: Flights,
    buffers: Spares,
    rooms: Vec<Vec<u8>>,
    /// What flights, payloads on their way in and queues hold, bytes.
    pub(super) held: usize,
    /// What each disk's requests hold of it; none whose hold nothing.
    held_by_disk: Vec<(DiskId, usize)>,
    /// Whether memory was given back since somebody last looked.
    pub(super) was_freed: bool,
}

impl Workplace {
    /// A workplace to which disks tell `outcomes`.
    pub(super) fn new(doorman: Doorman, outcomes: Arc<dyn Outcomes>) -> Workplace {
        Workplace {
            doorman,
            desks: Vec::new(),
            outcomes,
            flights: Flights::default(),
            buffers: Spares::new(SPARE_BUFFERS_MAX),
            rooms: Vec::with_capacity(SPARE_ROOMS_MAX),
            held: 0,
            held_by_disk: Vec::new(),
            was_freed: false,
        }
    }

    /// This worker's desk of a disk.
    pub(super) fn desk(&mut self, disk: &Arc<dyn Disk>) -> Rc<dyn Desk> {
        let is_same = |known: &Arc<dyn Disk>| ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(disk));
        if let Some((_, desk)) = self.desks.iter().find(|(known, _)| is_same(known)) {
            return Rc::clone(desk);
        }
        let desk: Rc<dyn Desk> = Rc::from(Arc::clone(disk).desk(&self.doorman));
        self.desks.push((Arc::clone(disk), Rc::clone(&desk)));
        desk
    }

    /// Forgets the desks of a disk that leaves.
    pub(super) fn forget(&mut self, name: &str) {
        self.desks.retain(|(disk, _)| disk.name() != name);
    }

    /// Whether a request to a disk may hold `len` bytes more.
    pub(super) fn has_room(&self, disk: DiskId, len: usize) -> bool {
        let by_disk = self.held_by_disk.iter().find(|(known, _)| *known == disk);
        let part_of = |most: usize| match len {
            0..=SMALL_MAX => most,
            _ => most / 4 * 3,
        };
        let is_fair = by_disk.is_none_or(|(_, held)| held + len <= part_of(HELD_BY_DISK_MAX));
        is_fair && (self.held == 0 || self.held + len <= part_of(HELD_MAX))
    }

    /// Whether all disks together hold so much that a request to any may find no room.
    pub(super) fn is_short(&self) -> bool {
        self.held + REQUEST_BYTES_MAX as usize > HELD_MAX / 4 * 3
    }

    /// A buffer of `len` bytes, whatever they are, for a request to a disk.
    pub(super) fn buffer(&mut self, disk: DiskId, len: usize) -> Buffer {
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

    /// Takes a buffer back, of which `held` bytes were counted.
    pub(super) fn take_back(&mut self, disk: DiskId, buffer: Buffer, held: usize) {
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

    /// What was `before` is `now`.
    pub(super) fn recount(&mut self, before: usize, now: usize) {
        self.held = self.held - before + now;
        self.was_freed |= now < before;
    }

    /// A queue with room in it.
    pub(super) fn queue(&mut self) -> Queue {
        Queue::within(self.rooms.pop().unwrap_or_default())
    }

    /// Takes an empty queue back.
    pub(super) fn take_back_queue(&mut self, queue: Queue) {
        let fits = |room: &Vec<u8>| room.len() <= SPARE_ROOM_BYTES_MAX;
        if self.rooms.len() < SPARE_ROOMS_MAX {
            self.rooms.extend(Some(queue.into_room()).filter(fits));
        }
    }

    /// Sends a request to a disk, as `verb`.
    pub(super) fn send(
        &mut self,
        disk: &Arc<dyn Disk>,
        verb: Verb,
        flight: Flight,
        buffer: Buffer,
    ) {
        let (at, len) = match verb {
            Verb::Flush => (0, 0),
            _ => (flight.at, u64::from(flight.len)),
        };
        let token = self.flights.depart(flight);
        disk.start(Request {
            verb,
            at,
            len,
            buffer,
            to: Arc::clone(&self.outcomes),
            token,
        });
    }

    /// The request whose outcome comes by that token.
    pub(super) fn land(&mut self, token: u64) -> Option<Flight> {
        self.flights.land(token)
    }
}
