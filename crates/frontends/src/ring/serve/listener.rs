//! A ring's listener. It asks the kernel which user a connection belongs to, before the connection gets a place.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::SocketAddrAny;
use sublet_client::ring::{Rejection, hello};

use super::group::Group;
use super::worker::{AcceptedSocket, Message};
use crate::clock::MonotonicClock;
use crate::listeners::{Listener, ServedListener};
use crate::serving::{GroupPermit, RoundRobin};

/// A listener, its group, and the workers that serve it.
pub(super) struct RingListener {
    pub(super) group: Arc<Group>,
    pub(super) listener: Listener,
    pub(super) workers: Arc<RoundRobin<Message>>,
    pub(super) clock: MonotonicClock,
}

impl ServedListener for RingListener {
    fn listener(&self) -> &Listener {
        &self.listener
    }

    fn accepted(&mut self, socket: OwnedFd, _from: Option<SocketAddrAny>) {
        let socket = Arc::new(socket);
        match self.authorize(&socket) {
            Ok(permit) => {
                let accepted = AcceptedSocket { socket, permit };
                self.workers.next().send(Message::Accepted(accepted));
            }
            Err(rejection) => {
                let _ = hello::reject(&socket, rejection);
            }
        }
    }

    fn is_full_for_now(&self) -> bool {
        self.group.limiter.is_full_for_now(self.clock.now())
    }
}

impl RingListener {
    /// Takes a permit for the user that the kernel names at the other end.
    fn authorize(&self, socket: &Arc<OwnedFd>) -> Result<GroupPermit<Group>, Rejection> {
        let group = &self.group;
        let peer = rustix::net::sockopt::socket_peercred(socket);
        let uid = peer.map(|peer| peer.uid.as_raw());
        let allowed = uid.is_ok_and(|uid| group.settings.allow_uids.contains(&uid));
        if !allowed {
            group.figures.refused_uid.bump();
            return Err(Rejection::NotAllowed);
        }
        GroupPermit::acquire(group, socket, self.clock.now()).ok_or(Rejection::TooMany)
    }
}
