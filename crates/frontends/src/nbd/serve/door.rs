//! A listener of NBD's, and how who comes in gets a place.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::SocketAddrAny;

use super::group::Group;
use super::letters::{Message, Newcomer};
use crate::doors::{Door, Listener};
use crate::serving::{Permit, RoundRobin};

/// A listener, whom it serves, and the workers behind it.
pub(super) struct NbdDoor {
    pub(super) listener: Listener,
    pub(super) group: Arc<Group>,
    pub(super) workers: Arc<RoundRobin<Message>>,
}

impl Door for NbdDoor {
    fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Who finds no seat, nor anybody who gives way, is hung up on: before a greeting there is nothing that it could be told by.
    fn welcome(&mut self, socket: OwnedFd, _from: Option<SocketAddrAny>) {
        let socket = Arc::new(socket);
        if let Some(permit) = Permit::take(&self.group, &socket) {
            let newcomer = Newcomer { socket, permit };
            self.workers.next().send(Message::Newcomer(newcomer));
        }
    }

    fn is_full_for_now(&self, now: Instant) -> bool {
        self.group.lobby.is_full_for_now(now)
    }
}
