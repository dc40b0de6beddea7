//! The daemon's own rule for the arena's size, fed with a host that a trace makes up.
//!
//! A trace tells what programs leave free. It tells nothing of file pages, swapping or pressure, so the host has none
//! of these. What is free beside the arena is what the trace leaves less what the arena holds. If programs take more at
//! once than was free, nothing is free, and the arena makes way in several looks.

use sublet_policy::headroom::{self, ArenaDecision, ArenaState, HeadroomSettings, HeadroomState};
use sublet_types::{Bytes, HostFigures};

use crate::scenario::{HostSpec, HostTraceSpec, TierSizing};
use crate::traces::HostSeries;
use crate::virtual_time::VirtualInstant;

/// What a tier of a fixed size leaves free on a host that follows a trace. In that case only the free memory of the
/// host as a whole is known.
pub(super) fn reserve(host: &HostSpec, series: &HostSeries) -> Bytes {
    let derived = headroom::reserve_for(series.most());
    let reserve = |follow: &HostTraceSpec| follow.reserve.unwrap_or(derived);
    host.follow.as_ref().map_or(Bytes::ZERO, reserve)
}

/// The rule and its memory.
#[derive(Debug)]
pub(super) struct Headroom {
    memory: Bytes,
    settings: HeadroomSettings,
    state: HeadroomState,
}

impl Headroom {
    /// A rule for a host that follows a trace. `None` if its store is of a fixed size. The host's memory is taken to be
    /// the most that the trace ever leaves free.
    pub(super) fn of(host: &HostSpec, series: &HostSeries) -> Option<Headroom> {
        let follow = host.follow.as_ref()?;
        (host.store == TierSizing::Elastic).then(|| Headroom {
            memory: series.most(),
            settings: HeadroomSettings {
                reserve: follow.reserve,
                ..HeadroomSettings::default()
            },
            state: HeadroomState::default(),
        })
    }

    /// Decides. Programs leave `left`, and the arena holds `held` of it.
    pub(super) fn decide(
        &mut self,
        now: VirtualInstant,
        left: Bytes,
        held: Bytes,
    ) -> ArenaDecision {
        let free = left - held;
        let figures = HostFigures {
            at: std::time::Duration::from_nanos(now.0),
            memory: self.memory,
            free,
            available: free,
            ..HostFigures::default()
        };
        let arena = ArenaState { held, cap: None };
        let (state, decision) = headroom::decide(&self.state, &self.settings, &figures, arena);
        self.state = state;
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::HostSample;
    use crate::virtual_time::VirtualDuration;

    fn host(store: &str) -> HostSpec {
        let text = format!(
            "memory = \"1GiB\"\nstore = \"{store}\"\n\
             follow = {{ file = \"a\", format = \"bitbrains\", host = \"h0\", reserve = \"1GiB\" }}"
        );
        toml::from_str(&text).expect("it is right")
    }

    fn series() -> HostSeries {
        let sample = |secs, gib| HostSample {
            at: VirtualInstant::START + VirtualDuration::secs(secs),
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
            let now = VirtualInstant::START + VirtualDuration::secs(secs);
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
        assert_eq!(reserve(&HostSpec::default(), &series()), Bytes::ZERO);
    }
}
