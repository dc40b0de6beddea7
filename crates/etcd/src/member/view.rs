//! What a member knows of the store: it reads the prefix, then watches it. It reads again when a watch cannot tell
//! all.

use std::time::Duration;

use crate::mirror::{Difference, PrefixMirror};
use crate::store::{Change, PrefixSnapshot, Revision, StoreError, WatchEnd};

use super::retry_pause::RetryPause;

/// What a member knows of the store.
#[derive(Debug, Default)]
pub(super) struct PrefixView {
    pub(super) mirror: PrefixMirror,
    state: ViewState,
    suspicion: Suspicion,
    pub(super) pause: RetryPause,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ViewState {
    /// The prefix must be read.
    #[default]
    Unread,
    Reading,
    /// The prefix is read, and nothing watches it.
    Read,
    Opening,
    Watching,
}

/// Whether a watch at a store of a lower revision is at a member that lags, or at a store that was restored. Reading
/// tells, since it asks a majority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Suspicion {
    #[default]
    None,
    /// A read has shown that the member lags.
    Lagging,
}

/// What is to be asked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewNeed {
    Read,
    Watch(Revision),
}

/// What an answer changed.
#[derive(Debug)]
pub(super) enum ViewOutcome {
    Differences(Vec<Difference>),
    /// The whole prefix was read.
    Synchronized(Vec<Difference>),
    /// The whole prefix was read, from a store that was restored from a backup.
    Restored(Vec<Difference>),
    /// The store has forgotten changes. The prefix is to be read again.
    Forgotten,
    Failed(StoreError),
}

impl PrefixView {
    /// Returns whether the prefix was read, so that a key that is not in the mirror was not in the store then.
    pub(super) fn is_read(&self) -> bool {
        matches!(
            self.state,
            ViewState::Read | ViewState::Opening | ViewState::Watching
        )
    }

    /// Returns what is to be asked now, and notes that it is.
    pub(super) fn ask(&mut self, now: Duration) -> Option<ViewNeed> {
        if !self.pause.is_over(now) {
            return None;
        }
        match self.state {
            ViewState::Unread => {
                self.state = ViewState::Reading;
                Some(ViewNeed::Read)
            }
            ViewState::Read => {
                self.state = ViewState::Opening;
                Some(ViewNeed::Watch(self.mirror.watch_from()))
            }
            ViewState::Reading | ViewState::Opening | ViewState::Watching => None,
        }
    }

    /// Returns when the time alone changes something.
    pub(super) fn wakes_at(&self) -> Option<Duration> {
        let waits = matches!(self.state, ViewState::Unread | ViewState::Read);
        waits.then(|| self.pause.until())
    }

    pub(super) fn read(&mut self, answer: Result<PrefixSnapshot, StoreError>) -> ViewOutcome {
        match answer {
            Ok(snapshot) => {
                self.state = ViewState::Read;
                let is_restored = self.mirror.is_older(snapshot.revision);
                let differences = self.mirror.take_snapshot(snapshot);
                match is_restored {
                    true => ViewOutcome::Restored(differences),
                    false => ViewOutcome::Synchronized(differences),
                }
            }
            Err(error) => {
                self.state = ViewState::Unread;
                ViewOutcome::Failed(error)
            }
        }
    }

    pub(super) fn opened(&mut self, answer: Result<Revision, WatchEnd>) -> ViewOutcome {
        match answer {
            Ok(revision) if self.mirror.is_older(revision) && self.suspicion == Suspicion::None => {
                self.suspicion = Suspicion::Lagging;
                self.state = ViewState::Unread;
                ViewOutcome::Differences(Vec::new())
            }
            Ok(_) => {
                self.suspicion = Suspicion::None;
                self.state = ViewState::Watching;
                ViewOutcome::Differences(Vec::new())
            }
            Err(end) => self.end(end),
        }
    }

    pub(super) fn changed(&mut self, answer: Result<Vec<Change>, WatchEnd>) -> ViewOutcome {
        match answer {
            Ok(changes) => {
                self.pause.succeed();
                let differences = changes
                    .into_iter()
                    .filter_map(|change| self.mirror.take_change(change))
                    .collect();
                ViewOutcome::Differences(differences)
            }
            Err(end) => self.end(end),
        }
    }

    fn end(&mut self, end: WatchEnd) -> ViewOutcome {
        match end {
            WatchEnd::Cut(error) => {
                self.state = ViewState::Read;
                ViewOutcome::Failed(error)
            }
            WatchEnd::Silent | WatchEnd::Renewed => {
                self.pause.succeed();
                self.state = ViewState::Read;
                ViewOutcome::Differences(Vec::new())
            }
            WatchEnd::Compacted => {
                self.state = ViewState::Unread;
                ViewOutcome::Forgotten
            }
        }
    }
}
