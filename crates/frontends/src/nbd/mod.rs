//! NBD: disks over a socket, for QEMU, the kernel's own client and every other NBD client.
//!
//! The frontend speaks the fixed newstyle of the NetworkBlockDevice project's protocol document. `session` negotiates
//! which disk is served and how, and then carries out requests on it. `wire` knows the bytes of both. `serve` has the
//! sockets. An export has the name of its disk (`map`).

mod map;
pub mod metrics;
pub mod serve;
mod session;
mod socket_buffer;
#[cfg(test)]
mod tests;
pub mod wire;
mod worker_resources;

use std::time::Duration;

use crate::listeners::SILENCE_MAX;

pub use map::{EXPORTS_MAX, Exports, ExportsFull, NoExport};
pub use session::negotiation::{Negotiation, NegotiationAction, NegotiationAdvance, TlsState};
pub use socket_buffer::SocketBuffer;

/// How many requests of one connection may wait for their disk. The worker reads nothing more from the connection then.
pub const IN_FLIGHT_MAX: u32 = 256;

/// How many bytes those requests may hold. A single request may hold more.
pub(crate) const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;

/// Bytes of replies that the session makes before the worker sends them. The worker reads no request from a client that
/// leaves so many replies unread.
pub(crate) const BACKLOG_MAX: usize = 64 << 10;

/// The bytes that all connections of a worker may hold: for requests in flight, for payloads on their way in and for
/// replies that nobody reads. A connection that wants more waits. One request may go beyond the limit.
pub const HELD_MAX: usize = 256 << 20;

/// What a listener grants its clients.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many connections may be open at the same time.
    pub connections_max: u32,
    /// How long a client that still negotiates keeps its place from others when places are short.
    pub silence_max: Duration,
    /// How long a client may negotiate before it chooses a disk.
    pub handshake_max: Duration,
    /// How long a client that sends nothing more keeps its place while it waits for replies. Over TCP such a client may
    /// be gone. A client that is certainly gone loses its place at once.
    pub absence_max: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            connections_max: 256,
            silence_max: SILENCE_MAX,
            handshake_max: Duration::from_secs(30),
            absence_max: Duration::from_secs(60),
        }
    }
}
