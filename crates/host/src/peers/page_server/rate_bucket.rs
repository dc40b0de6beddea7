//! A token bucket: at most so much a second on average, and at most a second's worth at once.

use std::time::Duration;

/// Amounts are kept in billionths, so that no refill rounds.
const NANOS: u128 = 1_000_000_000;

/// A token bucket. It may be overdrawn once, and then refuses until it is refilled.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateBucket {
    per_second: u64,
    /// What is left, in billionths of the amount's unit.
    left: u128,
    /// What was spent beyond that.
    overdrawn: u128,
    filled_at: Duration,
}

impl RateBucket {
    /// A full bucket. `per_second` is at least 1.
    pub(super) fn new(per_second: u64, now: Duration) -> RateBucket {
        RateBucket {
            per_second: per_second.max(1),
            left: u128::from(per_second.max(1)) * NANOS,
            overdrawn: 0,
            filled_at: now,
        }
    }

    /// Takes an amount out.
    pub(super) fn spend(&mut self, amount: u64) {
        let amount = u128::from(amount) * NANOS;
        self.overdrawn += amount.saturating_sub(self.left);
        self.left = self.left.saturating_sub(amount);
    }

    /// Refills the bucket. Returns how long to wait until something may be spent: nothing, if it may be now.
    pub(super) fn delay(&mut self, now: Duration) -> Duration {
        let elapsed = now.saturating_sub(self.filled_at).as_nanos();
        self.filled_at = self.filled_at.max(now);
        let came = elapsed * u128::from(self.per_second);
        let repaid = came.min(self.overdrawn);
        self.overdrawn -= repaid;
        let full = u128::from(self.per_second) * NANOS;
        self.left = (self.left + came - repaid).min(full);
        match self.overdrawn {
            0 if self.left > 0 => Duration::ZERO,
            owed => {
                let nanos = (owed + 1).div_ceil(self.per_second.into());
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever spends whenever the bucket lets it never gets more than a second's worth and the rate together.
    #[test]
    fn no_more_goes_than_the_rate_and_a_second_of_it() {
        const RATE: u64 = 1000;
        let mut bucket = RateBucket::new(RATE, Duration::ZERO);
        let mut spent = 0;
        for millis in 0..10_000u64 {
            let now = Duration::from_millis(millis);
            let wait = bucket.delay(now);
            if wait.is_zero() {
                bucket.spend(7);
                spent += 7;
            }
            assert!(spent <= RATE + RATE * millis / 1000 + 7, "{millis}");
        }
        assert!(spent >= RATE * 10, "{spent}");
    }

    #[test]
    fn the_wait_ends_when_the_debt_is_repaid() {
        let mut bucket = RateBucket::new(1000, Duration::ZERO);
        assert_eq!(bucket.delay(Duration::ZERO), Duration::ZERO);
        bucket.spend(1500);
        let wait = bucket.delay(Duration::ZERO);
        assert!(wait > Duration::from_millis(500) && wait < Duration::from_millis(501));
        assert!(!bucket.delay(Duration::from_millis(500)).is_zero());
        assert!(bucket.delay(wait).is_zero());
    }
}
