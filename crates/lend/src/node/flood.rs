//! Who sends too many messages.

use std::time::Duration;

/// The most lines that a peer may send in a second. The busiest honest peer sends a tenth.
pub(super) const LINES_PER_SEC_MAX: u32 = 2000;

const WINDOW: Duration = Duration::from_secs(1);

/// Whether a peer sends too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineRate {
    /// It does not.
    Fair,
    /// It does.
    Flood,
}

/// Counts the lines of a peer, second by second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloodMeter {
    began: Duration,
    lines: u32,
}

impl FloodMeter {
    /// Counts a line.
    pub(super) fn count(&mut self, now: Duration) -> LineRate {
        if now.saturating_sub(self.began) >= WINDOW {
            *self = FloodMeter {
                began: now,
                lines: 0,
            };
        }
        self.lines += 1;
        if self.lines > LINES_PER_SEC_MAX {
            LineRate::Flood
        } else {
            LineRate::Fair
        }
    }
}
