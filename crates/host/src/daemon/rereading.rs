//! The thread that reads files anew, if one does.

use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use parking_lot::Mutex;

/// Who reads files anew, if anybody does.
#[derive(Default)]
pub(super) struct Rereading {
    /// How often that was asked for since the thread began.
    pub(super) asked: AtomicU64,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}
