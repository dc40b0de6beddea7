//! Disks: files and swap of virtual machines, with the host's idle memory in front of their backings.
//!
//! A request that memory can answer is answered where it arrives (`desk`). Every other goes to the disk's own
//! thread (`disk_thread`), whose tasks carry it out over memory and `backing` with its pages held (`ranges`),
//! so that what overlaps keeps its order. Swap is acknowledged from the `stage` and written `behind`.

mod answer;
mod backed;
mod backing;
mod behind;
mod bell;
mod callers;
mod cover;
mod desk;
mod disk_events;
mod disk_thread;
mod disks;
mod engine;
mod error;
mod figures;
mod holes;
mod images;
mod inbox;
mod leaving;
mod look;
mod notes;
mod open;
mod open_disks;
mod places;
mod plight;
mod ranges;
mod reading;
mod rooms;
mod served;
mod stage;
mod staging;
mod swap;
#[cfg(test)]
mod tests;
mod watch;
mod work;

pub use self::backing::BackingError;
pub use self::disks::{Disks, DisksError};
pub use self::error::DiskError;
pub(crate) use self::images::{Image, place_for};
pub(crate) use self::leaving::Unwritten;
pub(crate) use self::look::{ANSWER_MAX, Look};
pub use self::stage::{KeeperError, keep};
