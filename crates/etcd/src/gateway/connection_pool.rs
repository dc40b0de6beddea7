//! The idle connections of an endpoint. A call takes one, or opens one, and gives it back after a whole answer.

use std::sync::{Mutex, PoisonError};

use super::connection::RequestSender;
use super::endpoint::Endpoint;

/// The most idle connections of an endpoint. The lease, the view and the election make one call at a time each.
const IDLE_MAX: usize = 3;

/// An endpoint with its idle connections.
pub(super) struct ConnectionPool {
    pub(super) endpoint: Endpoint,
    idle: Mutex<Vec<RequestSender>>,
}

impl ConnectionPool {
    pub(super) fn new(endpoint: Endpoint) -> ConnectionPool {
        ConnectionPool {
            endpoint,
            idle: Mutex::default(),
        }
    }

    /// Takes an idle connection that the other side has not closed, as far as is known.
    pub(super) fn take(&self) -> Option<RequestSender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|sender| !sender.is_closed());
        idle.pop()
    }

    pub(super) fn give_back(&self, sender: RequestSender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push(sender);
        }
    }
}
