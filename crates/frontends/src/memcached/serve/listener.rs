//! The listeners of memcached, and how accepted connections reach a worker.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::SocketAddrAny;

use super::admitted_peer::AdmittedPeer;
use super::group::Group;
use super::worker::{AcceptedSocket, Message};
use crate::backend::Backend;
use crate::listeners::{Listener, ServedListener, socket, tcp_name};
use crate::memcached::connections::Peer;
use crate::serving::{GroupPermit, RoundRobin};
use crate::tenancy::Clock;

const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// A listener, the group that it serves, and the workers behind it.
pub(super) struct MemcachedListener {
    group: Arc<Group>,
    listener: Listener,
    /// Whether this is the first listener of its group, which counts the pauses of all of them.
    counts_pauses: bool,
    peer: Arc<Peer>,
    workers: Arc<RoundRobin<Message>>,
    clock: Clock,
}

impl MemcachedListener {
    /// Makes one for each of a group's listeners.
    pub(super) fn for_listeners(
        group: Group,
        listeners: Vec<Listener>,
        workers: &Arc<RoundRobin<Message>>,
        backend: &Backend,
    ) -> impl Iterator<Item = MemcachedListener> + use<> {
        let (group, workers) = (Arc::new(group), Arc::clone(workers));
        let clock = backend.clock;
        let numbered = listeners.into_iter().enumerate();
        numbered.map(move |(n, listener)| {
            let fd = listener.socket.as_raw_fd();
            let address = listener.address().to_owned();
            let table = &group.instance.connections;
            MemcachedListener {
                peer: table.enter(fd, address, None, clock.now()),
                group: Arc::clone(&group),
                counts_pauses: n == 0,
                workers: Arc::clone(&workers),
                listener,
                clock,
            }
        })
    }
}

impl Drop for MemcachedListener {
    fn drop(&mut self) {
        self.group.instance.connections.leave(&self.peer);
    }
}

impl ServedListener for MemcachedListener {
    fn listener(&self) -> &Listener {
        &self.listener
    }

    fn accepted(&mut self, socket: OwnedFd, from: Option<SocketAddrAny>) {
        let listener = self.listener.address().to_owned();
        let address = name_of(from, &listener);
        let (instance, now) = (&self.group.instance, self.clock.now());
        let socket = Arc::new(socket);
        let acquired = GroupPermit::acquire(instance, &socket, self.clock.monotonic().now());
        let Some(permit) = acquired else {
            let _ = socket::send(&socket, TOO_MANY);
            return;
        };
        let admitted = AdmittedPeer::enter(permit, &socket, address, listener, now);
        self.workers.next().send(Message::Accepted(AcceptedSocket {
            socket,
            group: Arc::clone(&self.group),
            transport: self.listener.transport,
            admitted,
        }));
    }

    fn paused(&self) {
        let disabled = &self.group.instance.figures.listen_disabled;
        disabled.add(u64::from(self.counts_pauses));
    }

    fn resumed(&self, after: Duration) {
        if self.counts_pauses {
            let disabled = &self.group.instance.figures.listen_disabled_micros;
            disabled.add(after.as_micros() as u64);
        }
    }
}

/// Returns a client's address. The client of a Unix socket has none, so it gets the listener's.
fn name_of(from: Option<SocketAddrAny>, listener: &str) -> String {
    match from.map(std::net::SocketAddr::try_from) {
        Some(Ok(address)) => tcp_name(address),
        _ => listener.to_owned(),
    }
}
