//! A node lends or borrows, but not both at a time.

use std::time::Duration;

/// A node that wants this many blocks lends and asks as before. Only more make it a borrower.
pub(super) const HYSTERESIS_BLOCKS: u32 = 1;

/// The least time between the roles of lender and borrower.
pub const ROLE_PAUSE: Duration = Duration::from_secs(30);

/// What the node did of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoleGate {
    wants: bool,
    lent_at: Option<Duration>,
    borrowed_at: Option<Duration>,
}

/// What the node has of others, and others of it, in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoleInputs {
    /// What is lent, or set aside to be.
    pub(super) lent: u32,
    /// What is borrowed, or asked for.
    pub(super) borrowed: u32,
    /// What the node wants beyond what it has borrowed.
    pub(super) wanted: u32,
}

impl RoleGate {
    /// Records how things are now.
    pub(super) fn record(&mut self, now: Duration, inputs: RoleInputs) {
        self.wants = inputs.wanted > HYSTERESIS_BLOCKS || (self.wants && inputs.wanted > 0);
        if inputs.lent > 0 {
            self.lent_at = Some(now);
        }
        if inputs.borrowed > 0 || self.wants {
            self.borrowed_at = Some(now);
        }
    }

    /// Returns whether the node wants memory.
    pub(super) fn wants(&self) -> bool {
        self.wants
    }

    /// Returns whether the node may lend.
    pub(super) fn may_lend(&self, now: Duration) -> bool {
        !self.wants && is_long_ago(self.borrowed_at, now)
    }

    /// Returns whether the node may ask others.
    pub(super) fn may_ask(&self, now: Duration) -> bool {
        self.wants && is_long_ago(self.lent_at, now)
    }
}

fn is_long_ago(at: Option<Duration>, now: Duration) -> bool {
    at.is_none_or(|at| now.saturating_sub(at) >= ROLE_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_and_half_a_minute_lie_between_the_roles() {
        let mut gate = RoleGate::default();
        let mut at = |secs, lent, borrowed, wanted| {
            let now = Duration::from_secs(secs);
            gate.record(
                now,
                RoleInputs {
                    lent,
                    borrowed,
                    wanted,
                },
            );
            (gate.may_lend(now), gate.may_ask(now))
        };
        assert_eq!(at(0, 0, 0, 1), (true, false));
        assert_eq!(at(1, 5, 0, 0), (true, false));
        assert_eq!(at(2, 5, 0, 2), (false, false));
        assert_eq!(at(3, 0, 0, 1), (false, false));
        assert_eq!(at(31, 0, 0, 1), (false, false));
        assert_eq!(at(32, 0, 0, 1), (false, true));
        assert_eq!(at(40, 0, 7, 0), (false, false));
        assert_eq!(at(69, 0, 0, 0), (false, false));
        assert_eq!(at(70, 0, 0, 0), (true, false));
    }
}
