//! The table of requests that a disk has and has not answered yet.

use std::sync::Arc;

use crate::block_device::Disk;
use crate::nbd::wire::requests::NbdCommand;

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nbd) struct InFlightRequest {
    /// The connection that asked.
    pub(in crate::nbd) connection: ConnectionId,
    /// The client's name for the request.
    pub(in crate::nbd) cookie: u64,
    /// What the client asked for.
    pub(in crate::nbd) command: NbdCommand,
    /// The offset of the first byte.
    pub(in crate::nbd) at: u64,
    /// How many bytes.
    pub(in crate::nbd) len: u32,
    /// Bytes of the request's buffer.
    pub(in crate::nbd) held: usize,
    /// The disk that answers.
    pub(in crate::nbd) disk: DiskId,
}

/// Names a disk for as long as it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nbd) struct DiskId(usize);

impl DiskId {
    pub(in crate::nbd) fn of(disk: &Arc<dyn Disk>) -> DiskId {
        DiskId(Arc::as_ptr(disk).cast::<()>().addr())
    }
}

/// Names a connection of a worker, by its place and by a serial number. No two connections in one place ever have the
/// same serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nbd) struct ConnectionId {
    pub(in crate::nbd) place: usize,
    pub(in crate::nbd) serial: u64,
}

/// All requests of a worker that are in flight. There are at most [`IN_FLIGHT_MAX`](crate::nbd::IN_FLIGHT_MAX) per
/// connection.
#[derive(Debug, Default)]
pub(in crate::nbd) struct InFlightTable {
    slots: Vec<InFlightEntry>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct InFlightEntry {
    generation: u32,
    request: Option<InFlightRequest>,
}

impl InFlightTable {
    /// Enters a request, and returns the token of its outcome.
    pub(in crate::nbd) fn insert(&mut self, request: InFlightRequest) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(InFlightEntry {
                generation: 0,
                request: None,
            });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.request = Some(request);
        u64::from(place.generation) << 32 | u64::from(slot)
    }

    /// Takes out the request of that token. `None` if it was answered before.
    pub(in crate::nbd) fn remove(&mut self, token: u64) -> Option<InFlightRequest> {
        let (generation, slot) = ((token >> 32) as u32, token as u32);
        let place = self.slots.get_mut(slot as usize)?;
        if place.generation != generation {
            return None;
        }
        let request = place.request.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(cookie: u64) -> InFlightRequest {
        InFlightRequest {
            connection: ConnectionId {
                place: 1,
                serial: 2,
            },
            cookie,
            command: NbdCommand::Read,
            at: 0,
            len: 1,
            held: 1,
            disk: DiskId(0),
        }
    }

    #[test]
    fn a_token_lands_once_and_never_on_another_flight() {
        let mut table = InFlightTable::default();
        let first = table.insert(request(1));
        let second = table.insert(request(2));
        assert_eq!(table.remove(first), Some(request(1)));
        assert_eq!(table.remove(first), None);
        let third = table.insert(request(3));
        assert_ne!(first, third);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.remove(third), Some(request(3)));
        assert_eq!(table.remove(second), Some(request(2)));
        assert_eq!(table.remove(u64::MAX), None);
    }
}
