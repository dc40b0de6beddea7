//! The requests of a data connection that wait for their answers. A lender answers them in their order.

use super::head::MessageTag;
use super::hello::ConnectionClass;
use super::limits::{READS_IN_FLIGHT_MAX, WRITES_IN_FLIGHT_MAX};
use super::page_request::PageRequest;

/// Requests in their order, the oldest first. Its memory is fixed.
#[derive(Debug)]
pub(super) struct InFlight {
    requests: [PageRequest; READS_IN_FLIGHT_MAX],
    limit: usize,
    oldest: usize,
    count: usize,
}

impl InFlight {
    /// No request of a connection of this class.
    pub(super) fn new(class: ConnectionClass) -> InFlight {
        let unused = PageRequest {
            tag: MessageTag(0),
            lease: 0,
            pages: 0,
        };
        InFlight {
            requests: [unused; READS_IN_FLIGHT_MAX],
            limit: match class {
                ConnectionClass::Read => READS_IN_FLIGHT_MAX,
                ConnectionClass::Write => WRITES_IN_FLIGHT_MAX,
            },
            oldest: 0,
            count: 0,
        }
    }

    /// The most requests that may wait.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns whether another request may wait.
    pub(super) fn has_room(&self) -> bool {
        self.count < self.limit
    }

    /// Appends a request. There must be room.
    pub(super) fn push(&mut self, request: PageRequest) {
        debug_assert!(self.has_room(), "too many requests in flight");
        self.requests[(self.oldest + self.count) % READS_IN_FLIGHT_MAX] = request;
        self.count += 1;
    }

    /// Removes the oldest request.
    pub(super) fn pop(&mut self) -> Option<PageRequest> {
        let oldest = self.iter().next()?;
        self.oldest = (self.oldest + 1) % READS_IN_FLIGHT_MAX;
        self.count -= 1;
        Some(oldest)
    }

    /// The requests, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = PageRequest> {
        let places = self.oldest..self.oldest + self.count;
        places.map(|place| self.requests[place % READS_IN_FLIGHT_MAX])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn requests_leave_in_their_order_within_the_limit() {
        for class in [ConnectionClass::Read, ConnectionClass::Write] {
            let (mut in_flight, mut model) = (InFlight::new(class), VecDeque::new());
            for n in 0..200u64 {
                let leaves = !in_flight.has_room() || n % 3 == 2;
                if leaves {
                    assert_eq!(in_flight.pop(), model.pop_front());
                }
                let request = PageRequest {
                    tag: MessageTag(n),
                    lease: 1,
                    pages: 2,
                };
                in_flight.push(request);
                model.push_back(request);
                assert!(in_flight.iter().eq(model.iter().copied()));
                assert!(model.len() <= in_flight.limit());
            }
            assert_eq!(model.len(), in_flight.limit());
        }
    }
}
