//! One connection's protocol state: bytes in, bytes out, no sockets.

use std::sync::Arc;

use sublet_types::TenantId;

use super::connections::Peer;
use super::face::Face;
use crate::tenancy::Tenancy;

/// Replies beyond this are written out before the next request is run.
pub const REPLY_HIGH_WATER: usize = 256 << 10;

/// One connection's protocol state; knows nothing of sockets.
pub struct Session {
    face: Arc<Face>,
    peer: Arc<Peer>,
}

/// How far a call of [`Session::advance`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Bytes of the input that are done with. The rest is given again, at the front of the next input.
    pub consumed: usize,
    /// What the loop does next.
    pub next: Next,
}

/// What the loop does after the replies so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Write the replies and wait for input. At least `wanted` bytes more than what is left unconsumed are known to be coming (a hint, 1 or more).
    Read {
        /// Bytes that are known to be coming.
        wanted: usize,
    },
    /// The replies are over [`REPLY_HIGH_WATER`]: write them, then call again, even without new input.
    Write,
    /// `requests_per_turn` requests were run and more input is there: let others run, then call again.
    Yield,
    /// From here on the connection acts for this tenant: call again with its tenancy.
    Become(TenantId),
    /// The connection watches: call again, also without input, every [`WATCH_INTERVAL`](super::watch::WATCH_INTERVAL); the replies are the lines that came up.
    Watch,
    /// Write the replies, then close.
    Close,
    /// Write the replies, close, and end the process.
    Shutdown {
        /// Whether connections may finish first.
        graceful: bool,
    },
}

impl Session {
    /// The state of a new connection. It leaves the face's table of connections when it is dropped.
    pub fn new(face: Arc<Face>, peer: Arc<Peer>) -> Session {
        Session { face, peer }
    }

    /// Runs complete requests of `input`, appending their replies to `out`.
    pub fn advance(&mut self, input: &[u8], out: &mut Vec<u8>, tenancy: &Tenancy) -> Advance {
        let _ = (out, tenancy);
        Advance {
            consumed: input.len(),
            next: Next::Read { wanted: 1 },
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.face.connections.leave(&self.peer);
    }
}
