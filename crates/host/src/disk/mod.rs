//! Disks: files and swap of virtual machines, with the host's idle memory in front of their backings.
//!
//! If memory can answer a request, the frontend's thread answers it where it arrives (`disk_handle`). Every other
//! request goes to the disk's own thread (`disk_thread`). Tasks of that thread carry the request out over memory and
//! `backing`. They hold its pages (`range_locks`), so that requests that overlap keep their order. The disk
//! acknowledges swap from the `stage` and writes it to the backing later (`write_behind`).

mod backed_disk;
mod backing;
mod backing_probe;
mod clients;
mod closing;
mod disk_events;
mod disk_figures;
mod disk_handle;
mod disk_problems;
mod disk_queue;
mod disk_thread;
mod disks;
mod endpoints;
mod engine;
mod error;
mod event_fd;
mod far_fetch;
mod far_pages;
mod far_reads;
mod hole_map;
mod images;
mod kept_stage;
mod notes;
mod open;
mod open_disks;
mod operations;
mod page_span;
mod range_locks;
mod read_tracker;
mod reply;
mod scratch_buffers;
mod served_notes;
mod stage;
mod swap;
#[cfg(test)]
mod tests;
mod watch;
mod write_behind;

pub use self::backing::BackingError;
pub(crate) use self::backing_probe::{ANSWER_MAX, BackingProbe};
pub(crate) use self::closing::UnwrittenAction;
pub(crate) use self::disks::LostPages;
pub use self::disks::{DiskStartError, Disks};
pub use self::error::DiskError;
pub(crate) use self::images::{NewImage, place_for};
pub use self::stage::{KeeperError, run_keeper};
