//! The arena gives way in many small steps: the log has one line for all that follow each other closely.

use std::time::Duration;

use sublet_policy::headroom::Bound;
use sublet_store::Released;

/// So long nothing more was given when the line is written.
const REST: Duration = Duration::from_secs(1);

/// Who takes memory for as long as this without a rest is told of so often.
const LONGEST: Duration = Duration::from_secs(60);

/// What was given since the last line.
#[derive(Debug, Default)]
pub(super) struct Giving {
    now: Option<Given>,
}

/// What the arena gave in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) sum: Released,
    /// What kept the arena from being larger at its beginning.
    pub(super) bound: Bound,
    began: Duration,
    last: Duration,
}

impl Given {
    /// From its first step to its last.
    pub(super) fn time(&self) -> Duration {
        self.last.saturating_sub(self.began)
    }
}

impl Giving {
    /// Adds a step at `at`.
    pub(super) fn add(&mut self, at: Duration, released: Released, bound: Bound) {
        let given = self.now.get_or_insert(Given {
            sum: Released::default(),
            bound,
            began: at,
            last: at,
        });
        given.sum += released;
        given.last = at;
    }

    /// What is to be told at `at`, once.
    pub(super) fn take(&mut self, at: Duration) -> Option<Given> {
        let is_due = |given: &mut Given| {
            at.saturating_sub(given.last) >= REST || at.saturating_sub(given.began) >= LONGEST
        };
        self.now.take_if(is_due)
    }
}

#[cfg(test)]
mod tests {
    use sublet_types::Bytes;

    use super::*;

    #[test]
    fn steps_that_follow_each_other_closely_are_told_as_one() {
        let step = Released {
            bytes: Bytes::mib(64),
            items_lost: 3,
            ..Released::default()
        };
        let millis = Duration::from_millis;
        let mut giving = Giving::default();
        for n in 0..10 {
            giving.add(millis(n * 500), step, Bound::Host);
            assert_eq!(giving.take(millis(n * 500 + 400)), None);
        }
        let told = giving.take(millis(5500)).expect("it rests");
        assert_eq!((told.sum.bytes, told.sum.items_lost), (Bytes::mib(640), 30));
        assert_eq!((told.bound, told.time()), (Bound::Host, millis(4500)));
        assert_eq!(giving.take(millis(9000)), None);
        for n in 0..=120 {
            giving.add(millis(n * 500), step, Bound::Host);
        }
        assert!(giving.take(millis(60_000)).is_some(), "it never rests");
    }
}
