//! An NBD listener, and how a new connection gets its place.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::SocketAddrAny;

use super::group::Group;
use super::messages::{AcceptedSocket, Message};
use crate::clock::MonotonicClock;
use crate::listeners::{Listener, ServedListener};
use crate::serving::{GroupPermit, RoundRobin};

/// A listener, its group, and the workers that serve it.
pub(super) struct NbdListener {
    pub(super) listener: Listener,
    pub(super) group: Arc<Group>,
    pub(super) workers: Arc<RoundRobin<Message>>,
    pub(super) clock: MonotonicClock,
}

impl ServedListener for NbdListener {
    fn listener(&self) -> &Listener {
        &self.listener
    }

    /// If no place is free and no connection gives way, the listener closes the socket. Before the greeting, NBD has no
    /// way to tell the client why.
    fn accepted(&mut self, socket: OwnedFd, _from: Option<SocketAddrAny>) {
        let (socket, now) = (Arc::new(socket), self.clock.now());
        if let Some(permit) = GroupPermit::acquire(&self.group, &socket, now) {
            let accepted = AcceptedSocket { socket, permit };
            self.workers.next().send(Message::Accepted(accepted));
        }
    }

    fn is_full_for_now(&self) -> bool {
        self.group.limiter.is_full_for_now(self.clock.now())
    }
}
