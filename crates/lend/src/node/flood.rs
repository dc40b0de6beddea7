//! Who sends too much.

use std::time::Duration;

use super::settings::MEMBERS_MAX;
use crate::control::VIEW_NODES_MAX;

/// The most lines that a peer may send in a second. The busiest honest peer sends a tenth.
pub(super) const LINES_PER_SEC_MAX: u32 = 2000;

/// The most bytes that a peer may send in a second, lines or not. The busiest honest peer sends a tenth: two hundred
/// lines, few of which have more than some hundred bytes.
pub(super) const BYTES_PER_SEC_MAX: usize = 8 << 20;

/// The most questions about the cluster that a peer is answered in a second: those for a whole view of the largest one.
pub(super) const QUESTIONS_PER_SEC_MAX: usize = MEMBERS_MAX / VIEW_NODES_MAX + 1;

const WINDOW: Duration = Duration::from_secs(1);

/// Whether a peer sends too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendRate {
    /// It does not.
    Fair,
    /// It does.
    Flood,
}

/// Counts what a peer sends, second by second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloodMeter {
    began: Duration,
    lines: u32,
    bytes: usize,
    questions: usize,
}

impl FloodMeter {
    /// Counts a line.
    pub(super) fn count_line(&mut self, now: Duration) -> SendRate {
        self.follow(now);
        self.lines += 1;
        self.rate()
    }

    /// Counts bytes. Those of lines are among them.
    pub(super) fn count_bytes(&mut self, now: Duration, bytes: usize) -> SendRate {
        self.follow(now);
        self.bytes = self.bytes.saturating_add(bytes);
        self.rate()
    }

    /// Counts a question about the cluster. Those beyond the bound are no reason to shut a peer out: its owner may be
    /// impatient.
    pub(super) fn count_question(&mut self, now: Duration) -> SendRate {
        self.follow(now);
        self.questions += 1;
        match self.questions > QUESTIONS_PER_SEC_MAX {
            true => SendRate::Flood,
            false => SendRate::Fair,
        }
    }

    fn follow(&mut self, now: Duration) {
        if now.saturating_sub(self.began) >= WINDOW {
            *self = FloodMeter {
                began: now,
                ..FloodMeter::default()
            };
        }
    }

    fn rate(&self) -> SendRate {
        match self.lines > LINES_PER_SEC_MAX || self.bytes > BYTES_PER_SEC_MAX {
            true => SendRate::Flood,
            false => SendRate::Fair,
        }
    }
}
