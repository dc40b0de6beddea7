//! The daemon's own rule for the arena's size, fed with a host that a trace makes up.
//!
//! A trace tells what programs leave free, and nothing of file pages, swapping or pressure: of these the
//! host has none. What is free beside the arena is what the trace leaves, less what the arena holds: where
//! programs take more at once than was free, nothing is, and the arena makes way in several looks.

use sublet_policy::headroom::{self, Arena, Decision, Settings, State};
use sublet_types::{Bytes, HostFigures};

use crate::scenario::{Follow, Host, Sizing};
use crate::traces::HostSeries;
use crate::virtual_time::Moment;

/// What a tier of a fixed size leaves free on a host that follows a trace; what is free is known there only
/// of the host as a whole.
pub(super) fn reserve(host: &Host, series: &HostSeries) -> Bytes {
    let derived = headroom::reserve_for(series.most());
    let reserve = |follow: &Follow| follow.reserve.unwrap_or(derived);
    host.follow.as_ref().map_or(Bytes::ZERO, reserve)
}

/// The rule and what it remembers.
#[derive(Debug)]
pub(super) struct Headroom {
    memory: Bytes,
    settings: Settings,
    state: State,
}

impl Headroom {
    /// For a host that follows a trace, unless its store is of a fixed size. Its memory is taken to be the
    /// most that the trace ever leaves free.
    pub(super) fn of(host: &Host, series: &HostSeries) -> Option<Headroom> {
        let follow = host.follow.as_ref()?;
        (host.store == Sizing::Elastic).then(|| Headroom {
            memory: series.most(),
            settings: Settings {
                reserve: follow.reserve,
                ..Settings::default()
            },
            state: State::default(),
        })
    }

    /// Decides, where programs leave `left` and the arena holds `held` of it.
    pub(super) fn decide(&mut self, now: Moment, left: Bytes, held: Bytes) -> Decision {
        let free = left - held;
        let figures = HostFigures {
            at: std::time::Duration::from_nanos(now.0),
            memory: self.memory,
            free,
            available: free,
            ..HostFigures::default()
        };
        let arena = Arena { held, cap: None };
        let (state, decision) = headroom::decide(&self.state, &self.settings, &figures, arena);
        self.state = state;
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::HostSample;
    use crate::virtual_time::Nanos;

    fn host(store: &str) -> Host {
        let text = format!(
            "memory = \"1GiB\"\nstore = \"{store}\"\n\
             follow = {{ file = \"a\", format = \"bitbrains\", host = \"h0\", reserve = \"1GiB\" }}"
        );
        toml::from_str(&text).expect("it is right")
    }

    fn series() -> HostSeries {
        let sample = |secs, gib| HostSample {
            at: Moment::START + Nanos::secs(secs),
            free: Bytes::gib(gib),
        };
        HostSeries {
            samples: vec![sample(0, 8), sample(100, 4), sample(200, 8)],
        }
    }

    #[test]
    fn the_arena_leaves_the_reserve_and_follows_a_fall_soon_and_a_rise_slowly() {
        let mut headroom = Headroom::of(&host("elastic"), &series()).expect("it follows a trace");
        let mut decide = |secs, held| {
            let now = Moment::START + Nanos::secs(secs);
            let left = series().free_at(now);
            headroom.decide(now, left, held).arena_max
        };
        assert_eq!(decide(0, Bytes::ZERO), Bytes::gib(7));
        let looks = 0..10;
        let fallen = looks.fold(Bytes::gib(7), |held, _| decide(100, held).min(held));
        assert!(fallen <= Bytes::gib(3), "{fallen}");
        let risen = decide(201, fallen);
        assert!(risen > fallen && risen < Bytes::gib(7), "{risen}");
    }

    #[test]
    fn a_fixed_store_has_the_least_that_is_ever_free_but_the_reserve() {
        let host = host("fixed");
        assert!(Headroom::of(&host, &series()).is_none());
        assert_eq!(reserve(&host, &series()), Bytes::gib(1));
        assert_eq!(reserve(&Host::default(), &series()), Bytes::ZERO);
    }
}
