//! A brake for log lines that outside input can cause: one a second a cause.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One cause of log lines.
#[derive(Debug, Default)]
pub struct Seldom {
    start: OnceLock<Instant>,
    /// The second of the last line, from 1; 0 before the first.
    last: AtomicU64,
    swallowed: AtomicU64,
}

impl Seldom {
    /// A cause that nothing was said of yet.
    pub const fn new() -> Seldom {
        Seldom {
            start: OnceLock::new(),
            last: AtomicU64::new(0),
            swallowed: AtomicU64::new(0),
        }
    }

    /// Whether a line may be written now; if so, how often none was written since the last.
    pub fn may_speak(&self) -> Option<u64> {
        let second = 1 + self.start.get_or_init(Instant::now).elapsed().as_secs();
        self.may_speak_at(second)
    }

    fn may_speak_at(&self, second: u64) -> Option<u64> {
        if self.last.swap(second, Ordering::Relaxed) == second {
            self.swallowed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.swallowed.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::Seldom;

    #[test]
    fn r_t8_one_line_a_second_and_the_swallowed_ones_are_counted() {
        let cause = Seldom::new();
        assert_eq!(cause.may_speak_at(1), Some(0));
        assert_eq!(cause.may_speak_at(1), None);
        assert_eq!(cause.may_speak_at(1), None);
        assert_eq!(cause.may_speak_at(2), Some(2));
        assert_eq!(cause.may_speak_at(3), Some(0));
    }
}
