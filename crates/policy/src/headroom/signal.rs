//! Signs that somebody on the host misses memory.

use std::time::Duration;

use sublet_types::HostFigures;

/// Counters are compared over at least this time.
pub const WINDOW: Duration = Duration::from_millis(100);

/// Refaults that count as standing still, pages a second: 1 MiB. A disk hardly notices, and no host
/// is without any.
pub(crate) const REFAULTS_PER_SEC: u64 = 256;

/// A thousandth of the time lost for want of memory is the pressure that Senpai steers to.
pub(crate) const PRESSURE_SHARE: u32 = 1000;

/// A sign that somebody on the host misses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Evicted file pages are read again.
    Refaults,
    /// Tasks wait for memory.
    Pressure,
    /// Allocations reclaim memory themselves.
    Stalls,
    /// Pages go to swap.
    Swapping,
}

/// The counters when they were last compared, and what moved last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Watch {
    mark: HostFigures,
    last_refaults_in_cgroup: u64,
    moved: Option<(Signal, Duration)>,
    began_at: Duration,
    /// Since the last figures.
    pub(super) refaults_in_cgroup: u64,
}

impl Watch {
    pub(super) fn next(before: Option<Watch>, host: &HostFigures) -> Watch {
        let refaults = host.cgroup.map_or(0, |cgroup| cgroup.refaults);
        let Some(before) = before else {
            return Watch {
                mark: *host,
                last_refaults_in_cgroup: refaults,
                moved: None,
                began_at: host.at,
                refaults_in_cgroup: 0,
            };
        };
        let moved = between(&before.mark, host).map(|signal| (signal, host.at));
        let window_is_over = host.at.saturating_sub(before.mark.at) >= WINDOW;
        Watch {
            mark: if window_is_over || moved.is_some() {
                *host
            } else {
                before.mark
            },
            last_refaults_in_cgroup: refaults,
            moved: moved.or(before.moved),
            began_at: before.began_at,
            refaults_in_cgroup: refaults.saturating_sub(before.last_refaults_in_cgroup),
        }
    }

    /// What moved at `now`, or within `time` before it.
    pub(super) fn moved_within(&self, time: Duration, now: Duration) -> Option<Signal> {
        let (signal, at) = self.moved?;
        (now.saturating_sub(at) < time).then_some(signal)
    }

    pub(super) fn is_moving(&self, now: Duration) -> bool {
        self.moved.is_some_and(|(_, at)| at == now)
    }

    /// When something last moved; when the watch began, if nothing has.
    pub(super) fn moved_at(&self) -> Duration {
        self.moved.map_or(self.began_at, |(_, at)| at)
    }
}

fn between(from: &HostFigures, to: &HostFigures) -> Option<Signal> {
    let window = to.at.saturating_sub(from.at).max(WINDOW);
    let refaults_still = REFAULTS_PER_SEC * window.as_millis() as u64 / 1000;
    if to.stalls > from.stalls {
        Some(Signal::Stalls)
    } else if to.swapped_out > from.swapped_out {
        Some(Signal::Swapping)
    } else if to.refaults.saturating_sub(from.refaults) > refaults_still {
        Some(Signal::Refaults)
    } else if waited(from, to) > window / PRESSURE_SHARE {
        Some(Signal::Pressure)
    } else {
        None
    }
}

/// `full` time is a part of `some` time.
fn waited(from: &HostFigures, to: &HostFigures) -> Duration {
    match (from.pressure, to.pressure) {
        (Some(from), Some(to)) => to.some.saturating_sub(from.some),
        _ => Duration::ZERO,
    }
}
