//! Who is connected: what `stats conns` shows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use sublet_types::Second;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Doing {
    /// It is a listener.
    Listening,
    /// It waits for a request.
    Reading,
    /// It runs requests.
    Running,
    /// It waits for the rest of a value.
    AwaitingValue,
    /// It discards the value of a refused store.
    Swallowing,
    /// It waits for its replies to be read.
    Writing,
    /// It watches.
    Watching,
}

/// One socket, as others see it.
#[derive(Debug)]
pub struct Peer {
    id: u64,
    /// Its file descriptor's number.
    pub fd: i32,
    /// The other side, as `tcp:127.0.0.1:1234`, `tcp6:[::1]:1234` or `unix:/path`; a listener's own address.
    pub address: String,
    /// The listener it came in by; none for a listener.
    pub listener: Option<String>,
    doing: AtomicU8,
    last_request: AtomicU32,
}

impl Peer {
    /// Its number in this instance: one up for each connection.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Notes what it does now.
    pub(crate) fn set_doing(&self, doing: Doing) {
        self.doing.store(doing as u8, Ordering::Relaxed);
    }

    /// What it does.
    pub fn doing(&self) -> Doing {
        const ALL: [Doing; 7] = [
            Doing::Listening,
            Doing::Reading,
            Doing::Running,
            Doing::AwaitingValue,
            Doing::Swallowing,
            Doing::Writing,
            Doing::Watching,
        ];
        ALL[usize::from(self.doing.load(Ordering::Relaxed))]
    }

    /// Notes that it sent a request.
    pub(crate) fn set_last_request(&self, now: Second) {
        self.last_request.store(now.0, Ordering::Relaxed);
    }

    /// When it sent its last request.
    pub(crate) fn last_request(&self) -> Second {
        Second(self.last_request.load(Ordering::Relaxed))
    }
}

/// The table of connections and listeners, as long as the loops admit connections.
#[derive(Debug, Default)]
pub struct Connections {
    next_id: AtomicU64,
    peers: Mutex<HashMap<u64, Arc<Peer>>>,
}

impl Connections {
    /// Enters a connection (or, without a `listener`, a listener), until its owner has it [`leave`](Connections::leave).
    pub fn enter(
        &self,
        fd: i32,
        address: String,
        listener: Option<String>,
        now: Second,
    ) -> Arc<Peer> {
        let doing = match listener {
            Some(_) => Doing::Reading,
            None => Doing::Listening,
        };
        let peer = Arc::new(Peer {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            fd,
            address,
            listener,
            doing: AtomicU8::new(doing as u8),
            last_request: AtomicU32::new(now.0),
        });
        self.peers.lock().insert(peer.id, Arc::clone(&peer));
        peer
    }

    /// Takes a connection out.
    pub fn leave(&self, peer: &Peer) {
        self.peers.lock().remove(&peer.id);
    }

    /// Everyone, in the order of their file descriptors.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        let mut all: Vec<Arc<Peer>> = self.peers.lock().values().map(Arc::clone).collect();
        all.sort_by_key(|peer| (peer.fd, peer.id));
        all
    }
}
