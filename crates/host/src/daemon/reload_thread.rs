//! The thread that reads files again, if there is one.

use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use parking_lot::Mutex;

/// The thread that reads files again, if there is one.
#[derive(Default)]
pub(super) struct ReloadThread {
    /// How often a reload was asked for since the thread began.
    pub(super) asked: AtomicU64,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}
