//! How long a relay holds bytes.

use std::time::Duration;

use sublet_sim::rng::SimRng;

/// One way through a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RelayWay {
    /// From the client to the target.
    Forth,
    /// From the target to the client.
    Back,
}

/// The delay that a relay adds to round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench::lend) enum AddedDelay {
    /// To each as much: half of it on each way.
    Always(Duration),
    /// To one message in so many, on the way to the target. What follows on its connection waits behind it, as TCP has
    /// it.
    OneIn(u64, Duration),
    /// As `Always`, but for a part of each period only.
    Spells {
        /// The delay during a spell.
        delay: Duration,
        /// When in a period the spell begins.
        begin: Duration,
        /// How long it lasts.
        length: Duration,
        /// How long a period lasts.
        period: Duration,
    },
}

impl AddedDelay {
    /// No delay.
    pub(in crate::bench::lend) const NONE: AddedDelay = AddedDelay::Always(Duration::ZERO);

    /// How long bytes are held that come `since` the delay began.
    pub(super) fn hold(self, way: RelayWay, since: Duration, luck: &mut SimRng) -> Duration {
        match self {
            AddedDelay::Always(delay) => half(delay, way),
            AddedDelay::OneIn(messages, delay) => match way {
                RelayWay::Forth if luck.below(messages.max(1)) == 0 => delay,
                RelayWay::Forth | RelayWay::Back => Duration::ZERO,
            },
            AddedDelay::Spells {
                delay,
                begin,
                length,
                period,
            } => {
                let period = period.as_nanos().max(1);
                let at = since.as_nanos() % period;
                let begin = begin.as_nanos();
                match (begin..begin + length.as_nanos()).contains(&at) {
                    true => half(delay, way),
                    false => Duration::ZERO,
                }
            }
        }
    }
}

/// The part of a round trip's delay that one way has. Both parts together are the whole.
fn half(delay: Duration, way: RelayWay) -> Duration {
    match way {
        RelayWay::Forth => delay / 2,
        RelayWay::Back => delay - delay / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(delay: AddedDelay, since: Duration, luck: &mut SimRng) -> Duration {
        let ways = [RelayWay::Forth, RelayWay::Back];
        ways.map(|way| delay.hold(way, since, luck)).iter().sum()
    }

    #[test]
    fn both_ways_together_add_the_whole_delay() {
        let mut luck = SimRng::seeded(1);
        for nanos in [0, 1, 2, 500_001, 2_000_000] {
            let whole = Duration::from_nanos(nanos);
            let added = round_trip(AddedDelay::Always(whole), Duration::ZERO, &mut luck);
            assert_eq!(added, whole);
        }
    }

    #[test]
    fn one_message_in_a_hundred_is_held_and_no_answer() {
        let (mut luck, whole) = (SimRng::seeded(2), Duration::from_millis(50));
        let delay = AddedDelay::OneIn(100, whole);
        let mut held = 0;
        for _ in 0..100_000 {
            let added = round_trip(delay, Duration::ZERO, &mut luck);
            assert!(added.is_zero() || added == whole);
            held += u32::from(!added.is_zero());
        }
        assert!((900..1100).contains(&held), "{held}");
    }

    #[test]
    fn a_spell_comes_once_a_period_and_ends() {
        let (mut luck, secs) = (SimRng::seeded(3), Duration::from_secs);
        let delay = AddedDelay::Spells {
            delay: Duration::from_millis(20),
            begin: secs(10),
            length: secs(5),
            period: secs(30),
        };
        let slow: Vec<u64> = (0..60)
            .filter(|since| !round_trip(delay, secs(*since), &mut luck).is_zero())
            .collect();
        let expected: Vec<u64> = (10..15).chain(40..45).collect();
        assert_eq!(slow, expected);
    }
}
