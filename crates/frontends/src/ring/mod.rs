//! The page ring: pages for programs on this host, through memory that both sides map.
//!
//! The bytes are described in `sublet_client::ring`; here is the daemon's side of them. Nothing in a ring
//! is believed: an entry is copied out once ([`DaemonEnd::take`](sublet_client::ring::DaemonEnd::take)), checked
//! ([`wire`]), its pool looked up among those of its connection (`map`), and carried out.

mod map;
pub mod metrics;
mod pages;
mod passing;
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

use crate::doors::SILENCE_MAX;

pub use map::{Names, Restored};

/// The most pools of one connection.
pub const POOLS_MAX: usize = 64;

/// The most shared pools that one listener's connections have joined.
pub(crate) const NAMES_MAX: usize = 256;

/// What a listener grants.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Users who may connect, by number. Nobody else may, not even root.
    pub allow_uids: Vec<u32>,
    /// Connections at the same time.
    pub connections_max: u32,
    /// How long who has not greeted keeps its place.
    pub silence_max: Duration,
    /// The largest ring that a connection gets.
    pub shape_max: Shape,
    /// Where the pages of persistent pools go; without it none is made.
    pub spill: Option<Arc<dyn Spills>>,
}

/// A folder for spill files, the config's `spill`. A file goes with its pool.
pub trait Spills: Debug + Send + Sync {
    /// A file for a new pool.
    ///
    /// # Errors
    ///
    /// The folder has no room, or is not to be written to.
    fn make(&self) -> io::Result<Arc<dyn Spill>>;
}

impl Settings {
    /// What its connections' rings take at most.
    pub fn memory_max(&self) -> Bytes {
        Bytes(u64::from(self.connections_max) * self.shape_max.bytes() as u64)
    }
}

impl Default for Settings {
    /// The daemon's own user, 64 connections, rings of 1,024 entries and 4 MiB of page slots: 260 MiB if
    /// every one is used to the full.
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
