//! A disk's socket: what it grants a VMM, and what its threads share.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::block_device::Disk;
use crate::listeners::SILENCE_MAX;
use crate::vhost_user::metrics::VhostUserFigures;
use crate::vhost_user::wire::device::WriteCache;
use crate::vhost_user::{QUEUE_SIZE_MAX, QUEUES_MAX};

/// What a VMM is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many queues the disk has, each with a thread: 1 to [`QUEUES_MAX`].
    pub queues: u16,
    /// Entries of a queue's rings: a power of two, at most `QUEUE_SIZE_MAX`.
    pub queue_size: u16,
    /// Whether the guest may turn write caching off (CONFIG_WCE). A daemon that was started anew does not know whether
    /// the guest did. So it makes every write durable until the guest sends a flush. A guest never flushes its swap, so
    /// turn this off for swap.
    pub config_wce: bool,
    /// How long a silent VMM keeps others waiting.
    pub silence_max: Duration,
}

impl Default for Settings {
    /// One queue per processor up to four, the largest rings, and write caching as the guest wants it.
    fn default() -> Settings {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Settings {
            queues: processors.min(4) as u16,
            queue_size: QUEUE_SIZE_MAX,
            config_wce: true,
            silence_max: SILENCE_MAX,
        }
    }
}

impl Settings {
    pub(super) fn check(&self) -> io::Result<()> {
        let has_queues = (1..=QUEUES_MAX).contains(&self.queues);
        let has_places = self.queue_size.is_power_of_two() && self.queue_size <= QUEUE_SIZE_MAX;
        if has_queues && has_places {
            return Ok(());
        }
        let what = format!(
            "a vhost-user disk has 1 to {QUEUES_MAX} queues of a power of two up to {QUEUE_SIZE_MAX}"
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    }
}

/// A disk, and what its socket's threads share.
pub(super) struct DiskSocket {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) settings: Settings,
    pub(super) figures: Arc<VhostUserFigures>,
    pub(super) write_cache: WriteCache,
}
