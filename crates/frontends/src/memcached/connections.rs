//! The open connections and listeners, which `stats conns` shows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use sublet_types::Second;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionState {
    /// The entry is a listener.
    Listening,
    /// The connection waits for a request.
    Reading,
    /// The connection runs requests.
    Running,
    /// The connection waits for the rest of a value.
    AwaitingValue,
    /// The connection discards the value of a refused store.
    Swallowing,
    /// The connection waits for its client to read replies.
    Writing,
    /// The client watches.
    Watching,
}

/// One socket, as `stats conns` shows it.
#[derive(Debug)]
pub struct Peer {
    id: u64,
    /// The number of its file descriptor.
    pub fd: i32,
    /// The address of the client, as `tcp:127.0.0.1:1234`, `tcp6:[::1]:1234` or `unix:/path`. For a listener it is the
    /// listener's own.
    pub address: String,
    /// The listener that accepted the connection; `None` for a listener.
    pub listener: Option<String>,
    state: AtomicU8,
    last_request: AtomicU32,
}

impl Peer {
    /// Returns the number of the connection in this instance. Each connection gets the next number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Sets the state.
    pub(crate) fn set_state(&self, state: ConnectionState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Returns the state.
    pub fn state(&self) -> ConnectionState {
        const ALL: [ConnectionState; 7] = [
            ConnectionState::Listening,
            ConnectionState::Reading,
            ConnectionState::Running,
            ConnectionState::AwaitingValue,
            ConnectionState::Swallowing,
            ConnectionState::Writing,
            ConnectionState::Watching,
        ];
        ALL[usize::from(self.state.load(Ordering::Relaxed))]
    }

    /// Records that the client sent a request.
    pub(crate) fn set_last_request(&self, now: Second) {
        self.last_request.store(now.0, Ordering::Relaxed);
    }

    /// Returns when the client sent its last request.
    pub(crate) fn last_request(&self) -> Second {
        Second(self.last_request.load(Ordering::Relaxed))
    }
}

/// The table of listeners and admitted connections. The limit on connections bounds its length.
#[derive(Debug, Default)]
pub struct Connections {
    next_id: AtomicU64,
    peers: Mutex<HashMap<u64, Arc<Peer>>>,
}

impl Connections {
    /// Adds a connection, or a listener if `listener` is `None`. Its owner removes it by [`leave`](Connections::leave).
    pub fn enter(
        &self,
        fd: i32,
        address: String,
        listener: Option<String>,
        now: Second,
    ) -> Arc<Peer> {
        let state = match listener {
            Some(_) => ConnectionState::Reading,
            None => ConnectionState::Listening,
        };
        let peer = Arc::new(Peer {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            fd,
            address,
            listener,
            state: AtomicU8::new(state as u8),
            last_request: AtomicU32::new(now.0),
        });
        self.peers.lock().insert(peer.id, Arc::clone(&peer));
        peer
    }

    /// Removes a connection.
    pub fn leave(&self, peer: &Peer) {
        self.peers.lock().remove(&peer.id);
    }

    /// Returns all entries, in the order of their file descriptors.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        let mut all: Vec<Arc<Peer>> = self.peers.lock().values().map(Arc::clone).collect();
        all.sort_by_key(|peer| (peer.fd, peer.id));
        all
    }
}
