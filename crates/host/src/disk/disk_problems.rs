//! Problems of a disk that is served, beside its backing's operations.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sublet_types::Durability;

use super::backing::PathMismatch;

/// Problems of a disk that is served.
#[derive(Debug, Default)]
pub(super) struct DiskProblems {
    is_unnoted: AtomicBool,
    /// Why the disk's notes cannot be written.
    unnoted: Mutex<Option<String>>,
    pub(super) path_mismatch: Mutex<Option<PathMismatch>>,
}

impl DiskProblems {
    /// Returns whether a note is missing that the disk's promise rests on.
    pub(super) fn is_unnoted(&self) -> bool {
        self.is_unnoted.load(Ordering::Acquire)
    }

    /// Why the path no longer leads to the backing, if it does not.
    pub(super) fn path_mismatch(&self) -> Option<PathMismatch> {
        *self.path_mismatch.lock()
    }

    /// The problems in words, for the disk's status.
    pub(super) fn describe(&self, durability: Durability) -> Vec<String> {
        let unnoted = self.unnoted.lock();
        let unnoted = unnoted.as_ref().map(|error| match durability {
            Durability::WriteThrough => format!(
                "the note that it is served cannot be written, so that nobody would see its backing vanish while no daemon runs: {error}; that is tried again every second"
            ),
            _ => format!(
                "writes go to its backing before they are acknowledged, for the note on pages that only memory has cannot be written: {error}; that is tried again every second"
            ),
        });
        let astray = self.path_mismatch().map(|astray| astray.to_string());
        unnoted.into_iter().chain(astray).collect()
    }

    /// Records whether the notes were written. Returns whether there was a reason before.
    pub(super) fn record_notes_result(&self, noted: &io::Result<()>) -> bool {
        let mut unnoted = self.unnoted.lock();
        self.is_unnoted.store(noted.is_err(), Ordering::Release);
        let why = noted.as_ref().err().map(io::Error::to_string);
        std::mem::replace(&mut *unnoted, why).is_some()
    }

    /// Records that the first notes are yet to be written.
    pub(super) fn mark_unnoted(&self) {
        self.is_unnoted.store(true, Ordering::Release);
    }

    /// Records that they still are.
    pub(super) fn mark_overdue(&self) {
        let mut unnoted = self.unnoted.lock();
        if self.is_unnoted() && unnoted.is_none() {
            *unnoted = Some("the state folder does not answer".to_owned());
        }
    }
}
