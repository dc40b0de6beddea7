//! A ring's listener: asks the kernel whose a connection is before it gets a seat.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::SocketAddrAny;
use sublet_client::ring::{Rejection, hello};

use super::group::Group;
use super::worker::{Message, Newcomer};
use crate::doors::{Door, Listener};
use crate::serving::{Permit, RoundRobin};

/// A listener, whom it serves, and the workers behind it.
pub(super) struct RingDoor {
    pub(super) group: Arc<Group>,
    pub(super) listener: Listener,
    pub(super) workers: Arc<RoundRobin<Message>>,
}

impl Door for RingDoor {
    fn listener(&self) -> &Listener {
        &self.listener
    }

    fn welcome(&mut self, socket: OwnedFd, _from: Option<SocketAddrAny>) {
        let socket = Arc::new(socket);
        match admit(&self.group, &socket) {
            Ok(permit) => {
                let newcomer = Newcomer { socket, permit };
                self.workers.next().send(Message::Newcomer(newcomer));
            }
            Err(rejection) => {
                let _ = hello::turn_away(&socket, rejection);
            }
        }
    }

    fn is_full_for_now(&self, now: Instant) -> bool {
        self.group.lobby.is_full_for_now(now)
    }
}

/// A permit for whom the kernel says is at the other end.
fn admit(group: &Arc<Group>, socket: &Arc<OwnedFd>) -> Result<Permit<Group>, Rejection> {
    let peer = rustix::net::sockopt::socket_peercred(socket);
    let uid = peer.map(|peer| peer.uid.as_raw());
    let allowed = uid.is_ok_and(|uid| group.settings.allow_uids.contains(&uid));
    if !allowed {
        group.figures.refused_uid.bump();
        return Err(Rejection::NotAllowed);
    }
    Permit::take(group, socket).ok_or(Rejection::TooMany)
}
