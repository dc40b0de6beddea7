//! The daemon's own rule for the arena's size, fed with a host that a trace makes up.
//!
//! A trace tells what programs leave free, and nothing of file pages, swapping or pressure: of these the
//! host has none. What is free beside the arena is what the trace leaves, less what the arena holds.

use sublet_policy::headroom::{self, Arena, Decision, Settings, State};
use sublet_types::{Bytes, HostFigures};

use crate::scenario::{Host, Sizing};
use crate::traces::HostSeries;
use crate::virtual_time::Moment;

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
