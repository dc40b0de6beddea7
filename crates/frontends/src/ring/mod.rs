//! The page ring: pages for programs on this host, through memory that both sides map.
//!
//! `sublet_client::ring` describes the bytes. This module is the daemon's side of them. The daemon trusts nothing in a
//! ring. It copies each entry out once ([`DaemonEnd::dequeue`](sublet_client::ring::DaemonEnd::dequeue)) and checks it
//! ([`wire`]). Then it looks up the entry's pool among the pools of the connection (`map`), and carries the entry out.

mod map;
pub mod metrics;
mod page_copy;
mod page_operations;
pub mod serve;
mod session;
#[cfg(test)]
mod tests;
pub mod wire;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use sublet_client::ring::Shape;
use sublet_store::Spill;
use sublet_types::Bytes;

use crate::listeners::SILENCE_MAX;

pub use map::{JoinedPools, UnclaimedPools};

/// The most pools of one connection.
pub const POOLS_MAX: usize = 64;

/// The most shared pools that the connections of one listener may have joined.
pub(crate) const NAMES_MAX: usize = 256;

/// What a listener grants its clients.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The user ids that may connect. Nobody else may, not even root.
    pub allow_uids: Vec<u32>,
    /// How many connections may be open at the same time.
    pub connections_max: u32,
    /// How long a connection that has not greeted keeps its place.
    pub silence_max: Duration,
    /// The largest ring that a connection gets.
    pub shape_max: Shape,
    /// Where the pages of persistent pools go. Without it, the daemon makes no persistent pool.
    pub spill: Option<Arc<dyn SpillFactory>>,
}

/// A folder for spill files: the config's `spill`. A file goes when its pool goes.
pub trait SpillFactory: Debug + Send + Sync {
    /// Makes a file for a new pool.
    ///
    /// # Errors
    ///
    /// The folder has no room, or the daemon may not write to it.
    fn create(&self) -> io::Result<Arc<dyn Spill>>;
}

impl Settings {
    /// The most memory that the connections' rings take.
    pub fn memory_max(&self) -> Bytes {
        Bytes(u64::from(self.connections_max) * self.shape_max.bytes() as u64)
    }
}

impl Default for Settings {
    /// The daemon's own user, 64 connections, and rings of 1,024 entries and 4 MiB of page slots. That is 260 MiB if
    /// every ring is used to the full.
    fn default() -> Settings {
        const SHAPE_MAX: Shape = match Shape::new(1024, 1024) {
            Ok(shape) => shape,
            Err(_) => panic!("1024 is a power of two"),
        };
        Settings {
            allow_uids: vec![rustix::process::geteuid().as_raw()],
            connections_max: 64,
            silence_max: SILENCE_MAX,
            shape_max: SHAPE_MAX,
            spill: None,
        }
    }
}
