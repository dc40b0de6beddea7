//! The cells of the table by which the guard is judged: how late a lender answers, and how late a disk.

use std::time::Duration;

use super::super::report::Goal;
use super::delaying_proxy::AddedDelay;

/// A daemon whose lender is slow has at least this much of the speed that it has without lending.
const NO_SLOWER: f64 = 0.95;

/// The spells: so long in each period. Each begins when a third of the period is over, so that a round begins and ends
/// with a quick lender.
const SPELL: Duration = Duration::from_secs(5);
const SPELL_PERIOD: Duration = Duration::from_secs(30);
const SPELL_BEGIN: Duration = Duration::from_secs(10);
const SPELL_DELAY: Duration = Duration::from_millis(20);

/// The stalls.
const STALL_ONE_IN: u64 = 100;
const STALL: Duration = Duration::from_millis(50);

/// How late the lender answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LenderDelay {
    /// As soon as it can.
    None,
    /// Each round trip takes 500 µs more.
    #[value(name = "500us")]
    Micros500,
    /// Each round trip takes 1 ms more.
    #[value(name = "1ms")]
    Millis1,
    /// Each round trip takes 2 ms more.
    #[value(name = "2ms")]
    Millis2,
    /// One request in a hundred takes 50 ms more, and what follows on its connection waits.
    Stalls,
    /// Each round trip takes 20 ms more during 5 s of each 30 s. A round lasts 30 s.
    Spells,
}

impl LenderDelay {
    /// Its name in a row.
    pub(super) fn label(self) -> &'static str {
        match self {
            LenderDelay::None => "nothing injected",
            LenderDelay::Micros500 => "+500 µs",
            LenderDelay::Millis1 => "+1 ms",
            LenderDelay::Millis2 => "+2 ms",
            LenderDelay::Stalls => "1 % of 50 ms",
            LenderDelay::Spells => "5 s of 20 ms in 30 s",
        }
    }

    /// What the relay is told.
    pub(super) fn added(self) -> AddedDelay {
        match self {
            LenderDelay::Stalls => AddedDelay::OneIn(STALL_ONE_IN, STALL),
            LenderDelay::Spells => AddedDelay::Spells {
                delay: SPELL_DELAY,
                begin: SPELL_BEGIN,
                length: SPELL,
                period: SPELL_PERIOD,
            },
            _ => AddedDelay::Always(self.longest()),
        }
    }

    /// The most that it adds to a round trip.
    pub(super) fn longest(self) -> Duration {
        match self {
            LenderDelay::None => Duration::ZERO,
            LenderDelay::Micros500 => Duration::from_micros(500),
            LenderDelay::Millis1 => Duration::from_millis(1),
            LenderDelay::Millis2 => Duration::from_millis(2),
            LenderDelay::Stalls => STALL,
            LenderDelay::Spells => SPELL_DELAY,
        }
    }

    /// How long a round lasts with lending, where others last `usual`. With spells it is a whole period, so that each
    /// round has one.
    pub(super) fn round(self, usual: Duration) -> Duration {
        match self {
            LenderDelay::Spells => SPELL_PERIOD,
            _ => usual,
        }
    }

    /// How long the lender is read before the rounds, so that the guard has decided. A round with spells has all of
    /// the guard's decisions in it.
    pub(super) fn settles(self) -> Duration {
        match self {
            LenderDelay::Spells => Duration::ZERO,
            _ => Duration::from_secs(1),
        }
    }
}

/// The rule of the borrower's guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum GuardRule {
    /// Against the disk that the lender spares.
    Relative,
    /// Against PUMA's constants. It looks at averages of 15 s and of ten minutes, so its rows have no goal.
    Puma,
}

impl GuardRule {
    /// Its line in the table `[borrow]`.
    pub(super) fn setting(self) -> &'static str {
        match self {
            GuardRule::Relative => "guard = \"relative\"\n",
            GuardRule::Puma => "guard = \"puma\"\n",
        }
    }

    /// What reads with one request at a time are to reach beside those without lending.
    pub(super) fn goal(self) -> Option<Goal> {
        match self {
            GuardRule::Relative => Some(Goal::RatioAtLeast(NO_SLOWER)),
            GuardRule::Puma => None,
        }
    }
}

/// Requests that fio has under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadDepth {
    One,
    Eight,
}

impl ReadDepth {
    /// Its name in a row.
    pub(super) fn label(self) -> &'static str {
        match self {
            ReadDepth::One => "depth 1",
            ReadDepth::Eight => "depth 8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_with_spells_has_one_whole_spell() {
        let round = LenderDelay::Spells.round(Duration::from_secs(1));
        assert_eq!(round, SPELL_PERIOD);
        assert!(SPELL_BEGIN + SPELL < round);
    }
}
