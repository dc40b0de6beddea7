//! When a lender that granted nothing, or was not reached, is asked again.

use std::time::Duration;

/// The wait after the first refusal.
pub const ASK_AGAIN_MIN: Duration = Duration::from_secs(1);

/// The longest wait.
pub const ASK_AGAIN_MAX: Duration = Duration::from_secs(30);

/// The wait after refusals of one lender. It doubles with each, and a grant ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskBackoff {
    wait: Option<Duration>,
    until: Duration,
}

impl AskBackoff {
    /// Returns whether the lender may be asked at `now`.
    pub fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }

    /// Records that the lender granted nothing, took blocks back, or was not reached.
    pub fn refused(&mut self, now: Duration) {
        let wait = self
            .wait
            .map_or(ASK_AGAIN_MIN, |wait| (wait * 2).min(ASK_AGAIN_MAX));
        *self = AskBackoff {
            wait: Some(wait),
            until: now + wait,
        };
    }

    /// Records that the lender granted something.
    pub fn granted(&mut self) {
        *self = AskBackoff::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound() {
        let mut backoff = AskBackoff::default();
        let mut now = Duration::from_secs(100);
        assert!(backoff.is_over(now));
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            backoff.refused(now);
            now += Duration::from_secs(wait);
            assert!(!backoff.is_over(now - Duration::from_millis(1)));
            assert!(backoff.is_over(now));
        }
        backoff.granted();
        backoff.refused(now);
        assert!(backoff.is_over(now + ASK_AGAIN_MIN));
    }
}
