//! When the arena takes memory that old file pages hold.
//!
//! ```text
//!            calm for long, arena full, many old pages
//!    Kept ─────────────────────────────────────────────▶ Squeezed
//!      ▲                                                   │
//!      └── done (reserve comes back slowly), or a signal ──┘
//! ```
//!
//! The kernel drops file pages only when free memory runs under its watermarks. A reserve of free memory would protect
//! them for ever. So the arena leans on them now and then: it takes the reserve itself, and gives the reserve back when
//! the old pages are gone. It stops at the first sign that they were not idle, and then waits twice as long before it
//! tries again.

use std::time::Duration;

use sublet_types::Bytes;

/// How long no signal may move before file pages count as idle. Linux writes dirty pages back after 30 s, and a job
/// that reads a page again mostly does so within that time.
pub(crate) const QUIET_MIN: Duration = Duration::from_secs(30);
/// The longest wait after failed squeezes.
pub(crate) const QUIET_MAX: Duration = Duration::from_secs(3600);

/// While the arena leans on file pages, it may grow by no more than this beyond what it holds, so that the kernel's
/// background reclaim keeps up.
pub const AHEAD: Bytes = Bytes::mib(128);

/// A squeeze ends if the arena did not grow for this long: nobody needs the memory.
pub(crate) const IDLE: Duration = Duration::from_secs(2);

/// How the arena treats the owner's file pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePageMode {
    /// They are the owner's.
    Kept {
        /// The part of the reserve that is still to be restored after the last squeeze.
        waived: Bytes,
        /// The calm that must precede the next squeeze.
        wait: Duration,
        /// When this phase began.
        since: Duration,
    },
    /// Old file pages count as idle.
    Squeezed {
        /// The calm that preceded this phase.
        wait: Duration,
        /// What the arena held when it last grew.
        held: Bytes,
        /// When it last grew.
        grew_at: Duration,
    },
}

impl Default for FilePageMode {
    fn default() -> FilePageMode {
        FilePageMode::Kept {
            waived: Bytes::ZERO,
            wait: QUIET_MIN,
            since: Duration::ZERO,
        }
    }
}

pub(super) struct SqueezeInputs {
    pub(super) now: Duration,
    pub(super) quiet_since: Duration,
    /// Whether a signal moves.
    pub(super) moved: bool,
    /// What the arena holds.
    pub(super) held: Bytes,
    /// Whether the arena is full and may grow.
    pub(super) wanted: bool,
    /// Whether there is enough to gain.
    pub(super) worth: bool,
    /// Whether the arena is as large as it can be.
    pub(super) done: bool,
    /// What free memory lacks of the reserve.
    pub(super) short: Bytes,
    /// How much of the reserve comes back by now.
    pub(super) ramp: Bytes,
}

impl FilePageMode {
    pub(super) fn next(self, sight: &SqueezeInputs) -> FilePageMode {
        match self {
            FilePageMode::Squeezed { wait, .. } if sight.moved => FilePageMode::Kept {
                waived: Bytes::ZERO,
                wait: (wait * 2).min(QUIET_MAX),
                since: sight.now,
            },
            FilePageMode::Squeezed { held, grew_at, .. } if sight.ends(held, grew_at) => {
                FilePageMode::Kept {
                    waived: sight.short,
                    wait: QUIET_MIN,
                    since: sight.now,
                }
            }
            FilePageMode::Squeezed { wait, held, .. } if sight.held > held => sight.squeeze(wait),
            FilePageMode::Squeezed { .. } => self,
            FilePageMode::Kept { wait, .. } if sight.begins(self) => sight.squeeze(wait),
            FilePageMode::Kept {
                waived,
                wait,
                since,
            } => FilePageMode::Kept {
                waived: if sight.moved {
                    Bytes::ZERO
                } else {
                    waived - sight.ramp
                },
                wait,
                since,
            },
        }
    }

    /// How much of `reserve` is waived now.
    pub(super) fn waived(self, reserve: Bytes) -> Bytes {
        match self {
            FilePageMode::Kept { waived, .. } => waived.min(reserve),
            FilePageMode::Squeezed { .. } => reserve,
        }
    }

    pub(super) fn is_squeezed(self) -> bool {
        matches!(self, FilePageMode::Squeezed { .. })
    }

    /// Growth to `grown`, limited to what the kernel's background reclaim keeps up with.
    pub(super) fn pace(self, grown: Bytes, held: Bytes) -> Bytes {
        match self {
            FilePageMode::Squeezed { .. } => grown.min(held + AHEAD),
            FilePageMode::Kept { .. } => grown,
        }
    }
}

impl SqueezeInputs {
    fn begins(&self, files: FilePageMode) -> bool {
        let FilePageMode::Kept {
            waived,
            wait,
            since,
        } = files
        else {
            return false;
        };
        let calm = self.now.saturating_sub(self.quiet_since.max(since)) >= wait;
        calm && waived == Bytes::ZERO && self.wanted && self.worth && self.done
    }

    fn ends(&self, held: Bytes, grew_at: Duration) -> bool {
        let idle = self.held <= held && self.now.saturating_sub(grew_at) >= IDLE;
        idle || self.done || !self.wanted
    }

    fn squeeze(&self, wait: Duration) -> FilePageMode {
        FilePageMode::Squeezed {
            wait,
            held: self.held,
            grew_at: self.now,
        }
    }
}
