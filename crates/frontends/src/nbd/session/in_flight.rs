//! Requests that their disk has and has not answered.

use std::sync::Arc;

use crate::block::Disk;
use crate::nbd::wire::requests::Ask;

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nbd) struct Flight {
    /// Who asked.
    pub(in crate::nbd) whose: Whose,
    /// What it called the request.
    pub(in crate::nbd) cookie: u64,
    /// What it asked for.
    pub(in crate::nbd) ask: Ask,
    /// The first byte.
    pub(in crate::nbd) at: u64,
    /// How many.
    pub(in crate::nbd) len: u32,
    /// Bytes of its buffer.
    pub(in crate::nbd) held: usize,
    /// Who answers it.
    pub(in crate::nbd) disk: DiskId,
}

/// A disk, for as long as it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nbd) struct DiskId(usize);

impl DiskId {
    pub(in crate::nbd) fn of(disk: &Arc<dyn Disk>) -> DiskId {
        DiskId(Arc::as_ptr(disk).cast::<()>().addr())
    }
}

/// A connection of a worker, by its place and by a number that no other in that place ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nbd) struct Whose {
    pub(in crate::nbd) place: usize,
    pub(in crate::nbd) serial: u64,
}

/// All requests of a worker that are in flight: at most [`IN_FLIGHT_MAX`](crate::nbd::IN_FLIGHT_MAX) for each connection.
#[derive(Debug, Default)]
pub(in crate::nbd) struct Flights {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    flight: Option<Flight>,
}

impl Flights {
    /// Enters a request; says by which token its outcome comes.
    pub(in crate::nbd) fn depart(&mut self, flight: Flight) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                flight: None,
            });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.flight = Some(flight);
        u64::from(place.generation) << 32 | u64::from(slot)
    }

    /// The request of that token; none if it was answered before.
    pub(in crate::nbd) fn land(&mut self, token: u64) -> Option<Flight> {
        let (generation, slot) = ((token >> 32) as u32, token as u32);
        let place = self.slots.get_mut(slot as usize)?;
        if place.generation != generation {
            return None;
        }
        let flight = place.flight.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        Some(flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(cookie: u64) -> Flight {
        Flight {
            whose: Whose {
                place: 1,
                serial: 2,
            },
            cookie,
            ask: Ask::Read,
            at: 0,
            len: 1,
            held: 1,
            disk: DiskId(0),
        }
    }

    #[test]
    fn a_token_lands_once_and_never_on_another_flight() {
        let mut flights = Flights::default();
        let first = flights.depart(flight(1));
        let second = flights.depart(flight(2));
        assert_eq!(flights.land(first), Some(flight(1)));
        assert_eq!(flights.land(first), None);
        let third = flights.depart(flight(3));
        assert_ne!(first, third);
        assert_eq!(flights.land(first), None);
        assert_eq!(flights.land(third), Some(flight(3)));
        assert_eq!(flights.land(second), Some(flight(2)));
        assert_eq!(flights.land(u64::MAX), None);
    }
}
