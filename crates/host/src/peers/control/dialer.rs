//! Attempts to connect to members: a name is looked up, and its addresses are tried one after the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token, Waker};
use sublet_lend::ids::{ConnectionId, PeerId};
use sublet_lend::node::PEERS_MAX;

use super::socket_options::set_control_options;

/// How long one address may take to answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// The most addresses of a name that are tried.
const ADDRESSES_TRIED_MAX: usize = 8;

/// The stack of a thread that looks a name up. The C library's resolver needs about half.
const LOOKUP_STACK: usize = 256 << 10;

/// What a look-up found.
pub(super) struct FoundAddresses {
    pub(super) peer: PeerId,
    pub(super) addresses: io::Result<VecDeque<SocketAddr>>,
}

/// A socket that is connected to a member.
pub(super) struct DialedSocket {
    pub(super) peer: PeerId,
    pub(super) stream: TcpStream,
    pub(super) remote: SocketAddr,
}

/// What became of an attempt.
pub(super) enum DialOutcome {
    /// It goes on.
    Pending,
    /// The member's host answered.
    Connected(DialedSocket),
    /// No address answered. The error is the last one's.
    Failed(PeerId, io::Error),
}

/// An address that is being tried.
struct DialAttempt {
    peer: PeerId,
    stream: TcpStream,
    remote: SocketAddr,
    /// Addresses that are tried after it.
    rest: VecDeque<SocketAddr>,
    until: Duration,
}

/// All attempts. There is one a member at most.
pub(super) struct Dialer {
    /// Members whose names are being looked up. Each has a thread, because a resolver may hang.
    lookups: BTreeSet<PeerId>,
    attempts: BTreeMap<ConnectionId, DialAttempt>,
    found: Receiver<FoundAddresses>,
    finds: SyncSender<FoundAddresses>,
    waker: Arc<Waker>,
}

impl Dialer {
    /// No attempt. `waker` wakes the thread that calls [`Dialer::take_found`].
    pub(super) fn new(waker: Arc<Waker>) -> Dialer {
        let (finds, found) = sync_channel(PEERS_MAX);
        Dialer {
            lookups: BTreeSet::new(),
            attempts: BTreeMap::new(),
            found,
            finds,
            waker,
        }
    }

    /// Begins to look up where a member is. An attempt that goes on already stays the only one.
    ///
    /// # Errors
    ///
    /// The kernel gives no thread.
    pub(super) fn look_up(&mut self, peer: PeerId, host: &str, port: u16) -> io::Result<()> {
        let is_dialed = self.attempts.values().any(|attempt| attempt.peer == peer);
        if is_dialed || self.lookups.contains(&peer) {
            return Ok(());
        }
        let (host, finds) = (host.to_owned(), self.finds.clone());
        let waker = Arc::clone(&self.waker);
        thread::Builder::new()
            .name("peer-name".to_owned())
            .stack_size(LOOKUP_STACK)
            .spawn(move || {
                let resolved = (host.as_str(), port).to_socket_addrs();
                let addresses = resolved.map(|all| all.take(ADDRESSES_TRIED_MAX).collect());
                // An error means that the control thread has ended.
                let _ = finds.send(FoundAddresses { peer, addresses });
                let _ = waker.wake();
            })?;
        self.lookups.insert(peer);
        Ok(())
    }

    /// Takes what one look-up found.
    pub(super) fn take_found(&mut self) -> Option<FoundAddresses> {
        let found = self.found.try_recv().ok()?;
        self.lookups.remove(&found.peer);
        Some(found)
    }

    /// Tries addresses of a member in turn, under the number `id`.
    pub(super) fn connect(
        &mut self,
        now: Duration,
        id: ConnectionId,
        registry: &Registry,
        (peer, mut rest): (PeerId, VecDeque<SocketAddr>),
    ) -> DialOutcome {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        while let Some(remote) = rest.pop_front() {
            match begin_connect(remote, id, registry) {
                Ok(stream) => {
                    let until = now + CONNECT_WITHIN;
                    let attempt = DialAttempt {
                        peer,
                        stream,
                        remote,
                        rest,
                        until,
                    };
                    self.attempts.insert(id, attempt);
                    return DialOutcome::Pending;
                }
                Err(error) => last = error,
            }
        }
        DialOutcome::Failed(peer, last)
    }

    /// Returns whether this number is an attempt's.
    pub(super) fn has(&self, id: ConnectionId) -> bool {
        self.attempts.contains_key(&id)
    }

    /// Looks what became of an attempt after the kernel reported something, or its time is over.
    pub(super) fn check(
        &mut self,
        now: Duration,
        id: ConnectionId,
        registry: &Registry,
    ) -> DialOutcome {
        let Some(attempt) = self.attempts.remove(&id) else {
            return DialOutcome::Pending;
        };
        let error = match is_connected(&attempt.stream) {
            Ok(true) => {
                return DialOutcome::Connected(DialedSocket {
                    peer: attempt.peer,
                    stream: attempt.stream,
                    remote: attempt.remote,
                });
            }
            Ok(false) if now < attempt.until => {
                self.attempts.insert(id, attempt);
                return DialOutcome::Pending;
            }
            Ok(false) => io::ErrorKind::TimedOut.into(),
            Err(error) => error,
        };
        // The socket closes first, because the next one is registered under the same number.
        drop(attempt.stream);
        match attempt.rest.is_empty() {
            true => DialOutcome::Failed(attempt.peer, error),
            false => self.connect(now, id, registry, (attempt.peer, attempt.rest)),
        }
    }

    /// The attempts whose time is over.
    pub(super) fn late(&self, now: Duration) -> Vec<ConnectionId> {
        let is_late = |(_, attempt): &(&ConnectionId, &DialAttempt)| now >= attempt.until;
        let late = self.attempts.iter().filter(is_late);
        late.map(|(id, _)| *id).collect()
    }
}

fn begin_connect(
    remote: SocketAddr,
    id: ConnectionId,
    registry: &Registry,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(remote)?;
    set_control_options(&stream)?;
    let both = Interest::READABLE | Interest::WRITABLE;
    registry.register(&mut stream, Token(id.0 as usize), both)?;
    Ok(stream)
}

/// Returns whether a socket has connected. The error is the kernel's.
fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}
