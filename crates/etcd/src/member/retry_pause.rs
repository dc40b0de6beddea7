//! The pause before a call that failed is tried again. It doubles, and is random by half, so that a thousand nodes do
//! not come back at once.

use std::time::Duration;

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_millis(200);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// The pause before the next try.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RetryPause {
    failures: u32,
    until: Duration,
}

impl RetryPause {
    /// Begins a pause after a failure. `draw` is any random number.
    pub(super) fn fail(&mut self, now: Duration, draw: u64) {
        let whole = (PAUSE_MIN * (1 << self.failures.min(8))).min(PAUSE_MAX);
        let random_millis = draw % (whole.as_millis() as u64 / 2 + 1);
        self.failures = self.failures.saturating_add(1);
        self.until = now + whole / 2 + Duration::from_millis(random_millis);
    }

    /// Ends the row of failures.
    pub(super) fn succeed(&mut self) {
        *self = RetryPause::default();
    }

    /// Returns when the next try may begin.
    pub(super) fn until(&self) -> Duration {
        self.until
    }

    /// Returns whether a try may begin.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        self.until <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_to_its_bound_and_begins_anew() {
        let mut pause = RetryPause::default();
        assert!(pause.is_over(Duration::ZERO));
        let now = Duration::from_secs(9);
        let mut longest = Duration::ZERO;
        for _ in 0..40 {
            pause.fail(now, u64::MAX);
            let length = pause.until() - now;
            assert!(length >= PAUSE_MIN / 2 && length <= PAUSE_MAX, "{length:?}");
            assert!(!pause.is_over(now) && pause.is_over(pause.until()));
            longest = longest.max(length);
        }
        assert!(longest >= PAUSE_MAX / 2);
        pause.succeed();
        assert!(pause.is_over(Duration::ZERO));
    }
}
