//! A node's own clock, which may run faster or slower than true time. It never goes back.

use std::time::Duration;

use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// A clock that shows the time since the start of a run.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct NodeClock {
    /// What it showed at `since`.
    shown: Duration,
    since: VirtualInstant,
    /// Hundredths of the true speed.
    percent: u32,
}

impl NodeClock {
    /// A clock that starts now.
    pub(in crate::cluster) fn started(now: VirtualInstant, percent: u32) -> NodeClock {
        NodeClock {
            shown: Duration::ZERO,
            since: now,
            percent,
        }
    }

    /// What it shows.
    pub(in crate::cluster) fn local(&self, now: VirtualInstant) -> Duration {
        let passed: Duration = now.since(self.since).into();
        self.shown + passed * self.percent / 100
    }

    /// Lets it run at another speed from now on.
    pub(in crate::cluster) fn set_speed(&mut self, now: VirtualInstant, percent: u32) {
        *self = NodeClock {
            shown: self.local(now),
            since: now,
            percent,
        };
    }

    /// The true time that passes while it shows so much more.
    pub(in crate::cluster) fn true_span(&self, local: Duration) -> VirtualDuration {
        (local * 100 / self.percent.max(1)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_what_it_shows_when_its_speed_changes() {
        let at = |secs| VirtualInstant::START + VirtualDuration::secs(secs);
        let secs = Duration::from_secs;
        let mut clock = NodeClock::started(at(10), 80);
        assert_eq!(clock.local(at(10)), secs(0));
        assert_eq!(clock.local(at(20)), secs(8));
        clock.set_speed(at(20), 120);
        assert_eq!(clock.local(at(20)), secs(8));
        assert_eq!(clock.local(at(30)), secs(20));
        assert_eq!(clock.true_span(secs(12)), VirtualDuration::secs(10));
    }
}
