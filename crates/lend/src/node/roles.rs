//! A node lends or borrows, but not both at a time.

use std::time::Duration;

/// A node that has lent some and wants this many blocks leaves its loans as they are. It takes back for more.
pub(super) const HYSTERESIS_BLOCKS: u32 = 1;

/// A node that borrowed, or wanted to, lends again after this time. So does one whose operator took all back at once.
pub const ROLE_PAUSE: Duration = Duration::from_secs(30);

/// A node that needed lent blocks itself lends nothing new for this time. Otherwise it would lend and recall in turns
/// while it fills.
pub const LEND_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What the node did of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoleGate {
    wants: bool,
    has_lent: bool,
    needed_at: Option<Duration>,
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
        self.has_lent = inputs.lent > 0;
        let ignored = if self.has_lent && !self.wants {
            HYSTERESIS_BLOCKS
        } else {
            0
        };
        self.wants = inputs.wanted > ignored;
        if inputs.borrowed > 0 || self.wants {
            self.borrowed_at = Some(now);
        }
    }

    /// Records that the node needed blocks itself that it had lent.
    pub(super) fn needed(&mut self, now: Duration) {
        self.needed_at = Some(now);
    }

    /// Returns whether the node wants memory.
    pub(super) fn wants(&self) -> bool {
        self.wants
    }

    /// Returns whether the node may lend.
    pub(super) fn may_lend(&self, now: Duration) -> bool {
        let is_over = |at: Option<Duration>, pause| at.is_none_or(|at| now >= at + pause);
        let has_borrowed_long_ago = is_over(self.borrowed_at, ROLE_PAUSE);
        !self.wants && has_borrowed_long_ago && is_over(self.needed_at, LEND_AGAIN_AFTER)
    }

    /// Returns whether the node may ask others: it has all back that it had lent, and wants more.
    pub(super) fn may_ask(&self) -> bool {
        self.wants && !self.has_lent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lender_asks_others_when_it_has_all_back_and_a_borrower_lends_half_a_minute_later() {
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
            (gate.may_lend(now), gate.may_ask())
        };
        assert_eq!(at(0, 5, 0, 1), (true, false));
        assert_eq!(at(1, 5, 0, 2), (false, false));
        assert_eq!(at(2, 5, 0, 1), (false, false));
        assert_eq!(at(3, 0, 0, 1), (false, true));
        assert_eq!(at(32, 0, 0, 0), (false, false));
        assert_eq!(at(33, 0, 0, 0), (true, false));
        assert_eq!(at(34, 0, 0, 1), (false, true));
        assert_eq!(at(40, 0, 7, 0), (false, false));
        assert_eq!(at(69, 0, 0, 0), (false, false));
        assert_eq!(at(70, 0, 0, 0), (true, false));
    }

    #[test]
    fn a_node_that_needed_lent_blocks_lends_nothing_new_for_a_while() {
        let mut gate = RoleGate::default();
        let needed_at = Duration::from_secs(100);
        assert!(gate.may_lend(needed_at));
        gate.needed(needed_at);
        assert!(!gate.may_lend(needed_at + LEND_AGAIN_AFTER - Duration::from_millis(1)));
        assert!(gate.may_lend(needed_at + LEND_AGAIN_AFTER));
    }
}
