//! Who sends too much.

use std::time::Duration;

/// The most lines that a peer may send in a second. The busiest honest peer sends a tenth.
pub(super) const LINES_PER_SEC_MAX: u32 = 2000;

/// The most bytes that a peer may send in a second, lines or not. The busiest honest peer sends a tenth: two hundred
/// lines, few of which have more than some hundred bytes.
pub(super) const BYTES_PER_SEC_MAX: usize = 8 << 20;

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
