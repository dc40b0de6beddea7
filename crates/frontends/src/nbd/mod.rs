//! NBD: disks over a socket, for QEMU, the kernel's own client and whatever else speaks it.
//!
//! Fixed newstyle, as the protocol document of the NetworkBlockDevice project describes it. `session` settles
//! which disk and how, and carries requests out on it, `wire` knows the bytes of both, and `serve` has the sockets.
//! An export's name is its disk's (`map`).

mod map;
pub mod metrics;
mod queue;
pub mod serve;
mod session;
#[cfg(test)]
mod tests;
pub mod wire;
mod workplace;

use std::time::Duration;

use crate::doors::SILENCE_MAX;

pub use map::{EXPORTS_MAX, Exports, ExportsFull, NoExport};
pub use queue::Queue;
pub use session::negotiate::{
    Advance as HagglingAdvance, Haggling, Next as HagglingNext, Tls as HagglingTls,
};

/// Requests of one connection that wait for their disk; nothing more is read from it then.
pub const IN_FLIGHT_MAX: u32 = 256;

/// Bytes of such requests. One alone may have more.
pub(crate) const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;

/// Bytes of replies after which they are sent before more are made: while a client does not read so many, nothing
/// more is heard from it.
pub(crate) const BACKLOG_MAX: usize = 64 << 10;

/// What all connections of a worker hold for requests in flight, payloads on their way in and replies that nobody
/// reads. Who wants more waits; one request may go beyond it.
pub const HELD_MAX: usize = 256 << 20;

/// What a listener grants.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Connections at the same time.
    pub connections_max: u32,
    /// How long who haggles keeps its place from others, where places are short.
    pub silence_max: Duration,
    /// How long a client may haggle before it chooses a disk.
    pub handshake_max: Duration,
    /// How long a client that sends nothing more may wait for the replies to what it asked before it gives up its seat:
    /// over TCP it may be gone. One that is gone for certain gives it up at once.
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
