//! A listener of memcached's, and how who comes in gets a seat.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::SocketAddrAny;

use super::group::Group;
use super::seat::Seat;
use super::worker::{Message, Newcomer};
use crate::doors::{Door, Listener, socket, tcp_name};
use crate::memcached::connections::Peer;
use crate::serving::RoundRobin;
use crate::tenancy::Clock;

const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// A listener, whom it serves, and the workers behind it.
pub(super) struct GroupDoor {
    group: Arc<Group>,
    listener: Listener,
    /// The first of its group's, which counts what happens to all of them.
    counts: bool,
    peer: Arc<Peer>,
    workers: Arc<RoundRobin<Message>>,
    clock: Clock,
}

impl GroupDoor {
    /// A door for each of a group's listeners.
    pub(super) fn each(
        group: Group,
        listeners: Vec<Listener>,
        workers: &Arc<RoundRobin<Message>>,
        clock: Clock,
    ) -> impl Iterator<Item = GroupDoor> + use<> {
        let (group, workers) = (Arc::new(group), Arc::clone(workers));
        let numbered = listeners.into_iter().enumerate();
        numbered.map(move |(n, listener)| {
            let fd = listener.socket.as_raw_fd();
            let address = listener.address().to_owned();
            let table = &group.instance.connections;
            GroupDoor {
                peer: table.enter(fd, address, None, clock.now()),
                group: Arc::clone(&group),
                counts: n == 0,
                workers: Arc::clone(&workers),
                listener,
                clock,
            }
        })
    }
}

impl Drop for GroupDoor {
    fn drop(&mut self) {
        self.group.instance.connections.leave(&self.peer);
    }
}

impl Door for GroupDoor {
    fn listener(&self) -> &Listener {
        &self.listener
    }

    fn welcome(&mut self, socket: OwnedFd, from: Option<SocketAddrAny>) {
        let listener = self.listener.address().to_owned();
        let address = name_of(from, &listener);
        let (instance, now) = (&self.group.instance, self.clock.now());
        let socket = Arc::new(socket);
        let Some(seat) = Seat::take(instance, &socket, address, listener, now) else {
            let _ = socket::send(&socket, TOO_MANY);
            return;
        };
        self.workers.next().send(Message::Newcomer(Newcomer {
            socket,
            group: Arc::clone(&self.group),
            transport: self.listener.transport,
            seat,
        }));
    }

    fn paused(&self) {
        let disabled = &self.group.instance.figures.listen_disabled;
        disabled.add(u64::from(self.counts));
    }

    fn resumed(&self, after: Duration) {
        if self.counts {
            let disabled = &self.group.instance.figures.listen_disabled_micros;
            disabled.add(after.as_micros() as u64);
        }
    }
}

/// A client's address; a Unix socket's client has none but its listener's.
fn name_of(from: Option<SocketAddrAny>, listener: &str) -> String {
    match from.map(std::net::SocketAddr::try_from) {
        Some(Ok(address)) => tcp_name(address),
        _ => listener.to_owned(),
    }
}
