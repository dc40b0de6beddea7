//! What is wrong around a disk that is served.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sublet_types::Durability;

use super::backing::Astray;

/// What is wrong around a disk that is served.
#[derive(Debug, Default)]
pub(super) struct Plight {
    is_unnoted: AtomicBool,
    /// Why its notes cannot be written.
    unnoted: Mutex<Option<String>>,
    pub(super) astray: Mutex<Option<Astray>>,
}

impl Plight {
    /// Whether a note is missing that its promise rests on.
    pub(super) fn is_unnoted(&self) -> bool {
        self.is_unnoted.load(Ordering::Acquire)
    }

    /// What became of its backing's path, if it leads to the backing no more.
    pub(super) fn astray(&self) -> Option<Astray> {
        *self.astray.lock()
    }

    /// In words, for whoever asks how the disk is.
    pub(super) fn said(&self, durability: Durability) -> Vec<String> {
        let unnoted = self.unnoted.lock();
        let unnoted = unnoted.as_ref().map(|error| match durability {
            Durability::WriteThrough => format!(
                "the note that it is served cannot be written, so that nobody would see its backing vanish while no daemon runs: {error}; that is tried again every second"
            ),
            _ => format!(
                "writes go to its backing before they are acknowledged, for the note on pages that only memory has cannot be written: {error}; that is tried again every second"
            ),
        });
        let astray = self.astray().map(|astray| astray.to_string());
        unnoted.into_iter().chain(astray).collect()
    }

    /// Says whether there was a reason before.
    pub(super) fn note(&self, noted: &io::Result<()>) -> bool {
        let mut unnoted = self.unnoted.lock();
        self.is_unnoted.store(noted.is_err(), Ordering::Release);
        let why = noted.as_ref().err().map(io::Error::to_string);
        std::mem::replace(&mut *unnoted, why).is_some()
    }

    /// Its first notes are yet to be written.
    pub(super) fn owe(&self) {
        self.is_unnoted.store(true, Ordering::Release);
    }

    /// They are still.
    pub(super) fn wait_on(&self) {
        let mut unnoted = self.unnoted.lock();
        if self.is_unnoted() && unnoted.is_none() {
            *unnoted = Some("the state folder does not answer".to_owned());
        }
    }
}
