//! When the arena takes memory that old file pages hold.
//!
//! ```text
//!            calm for long, arena full, many old pages
//!    Kept ─────────────────────────────────────────────▶ Squeezed
//!      ▲                                                   │
//!      └── done (reserve comes back slowly), or a signal ──┘
//! ```
//!
//! The kernel drops file pages only when free memory runs under its watermarks; a reserve of free
//! memory would protect them for ever. So the arena now and then leans on them, by taking the
//! reserve itself, and gives the reserve back when the old pages are gone. It stops at the first
//! sign that they were not idle, and then waits twice as long before it tries again.

use std::time::Duration;

use sublet_types::Bytes;

/// How long no signal may move before file pages count as idle: Linux writes dirty pages back after
/// 30 s, and what a job reads again it mostly does within that.
pub(crate) const QUIET_MIN: Duration = Duration::from_secs(30);
/// The longest wait after failures.
pub(crate) const QUIET_MAX: Duration = Duration::from_secs(3600);

/// While it leans on file pages, the arena is allowed no more than this beyond what it holds, so that the kernel's
/// background reclaim keeps up.
pub const AHEAD: Bytes = Bytes::mib(128);

/// A squeeze ends when the arena did not grow for this long: nobody needs the memory.
pub(crate) const IDLE: Duration = Duration::from_secs(2);

/// How the arena treats the owner's file pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// They are the owner's.
    Kept {
        /// Part of the reserve still to be restored after the last squeeze.
        waived: Bytes,
        /// Calm that must precede the next one.
        wait: Duration,
        /// When this phase began.
        since: Duration,
    },
    /// Old ones count as idle.
    Squeezed {
        /// The calm that preceded it.
        wait: Duration,
        /// What the arena held when it last grew.
        held: Bytes,
        /// When that was.
        grew_at: Duration,
    },
}

impl Default for Files {
    fn default() -> Files {
        Files::Kept {
            waived: Bytes::ZERO,
            wait: QUIET_MIN,
            since: Duration::ZERO,
        }
    }
}

pub(super) struct Sight {
    pub(super) now: Duration,
    pub(super) quiet_since: Duration,
    /// A signal moves.
    pub(super) moved: bool,
    /// What the arena holds.
    pub(super) held: Bytes,
    /// The arena is full and may grow.
    pub(super) wanted: bool,
    /// There is enough to gain.
    pub(super) worth: bool,
    /// The arena is as large as it can be.
    pub(super) done: bool,
    /// What free memory lacks of the reserve.
    pub(super) short: Bytes,
    /// How much of the reserve comes back by now.
    pub(super) ramp: Bytes,
}

impl Files {
    pub(super) fn next(self, sight: &Sight) -> Files {
        match self {
            Files::Squeezed { wait, .. } if sight.moved => Files::Kept {
                waived: Bytes::ZERO,
                wait: (wait * 2).min(QUIET_MAX),
                since: sight.now,
            },
            Files::Squeezed { held, grew_at, .. } if sight.ends(held, grew_at) => Files::Kept {
                waived: sight.short,
                wait: QUIET_MIN,
                since: sight.now,
            },
            Files::Squeezed { wait, held, .. } if sight.held > held => sight.squeeze(wait),
            Files::Squeezed { .. } => self,
            Files::Kept { wait, .. } if sight.begins(self) => sight.squeeze(wait),
            Files::Kept {
                waived,
                wait,
                since,
            } => Files::Kept {
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
            Files::Kept { waived, .. } => waived.min(reserve),
            Files::Squeezed { .. } => reserve,
        }
    }

    pub(super) fn is_squeezed(self) -> bool {
        matches!(self, Files::Squeezed { .. })
    }

    /// Growth to `grown`, held to what the kernel's background reclaim keeps up with.
    pub(super) fn pace(self, grown: Bytes, held: Bytes) -> Bytes {
        match self {
            Files::Squeezed { .. } => grown.min(held + AHEAD),
            Files::Kept { .. } => grown,
        }
    }
}

impl Sight {
    fn begins(&self, files: Files) -> bool {
        let Files::Kept {
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

    fn squeeze(&self, wait: Duration) -> Files {
        Files::Squeezed {
            wait,
            held: self.held,
            grew_at: self.now,
        }
    }
}
