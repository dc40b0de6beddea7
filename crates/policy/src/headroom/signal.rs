//! Signs that somebody on the host misses memory.

use std::time::Duration;

use sublet_types::HostFigures;

/// Counters are compared over at least this time.
pub const WINDOW: Duration = Duration::from_millis(100);

/// The rate of refaults that still counts as calm, in pages per second: 1 MiB. A disk hardly notices it, and no host is
/// without any.
pub(crate) const REFAULTS_PER_SEC: u64 = 256;

/// The pressure that Senpai steers to: a thousandth of the time is lost for want of memory.
pub(crate) const PRESSURE_SHARE: u32 = 1000;

/// A sign that somebody on the host misses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPressureSignal {
    /// Evicted file pages are read again.
    Refaults,
    /// Tasks wait for memory.
    Pressure,
    /// Allocations reclaim memory themselves.
    Stalls,
    /// Pages go to swap.
    Swapping,
}

/// The counters at the last comparison, and what moved last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SignalWatch {
    mark: HostFigures,
    last_refaults_in_cgroup: u64,
    moved: Option<(MemoryPressureSignal, Duration)>,
    began_at: Duration,
    /// Refaults since the last figures.
    pub(super) refaults_in_cgroup: u64,
}

impl SignalWatch {
    pub(super) fn next(before: Option<SignalWatch>, host: &HostFigures) -> SignalWatch {
        let refaults = host.cgroup.map_or(0, |cgroup| cgroup.refaults);
        let Some(before) = before else {
            return SignalWatch {
                mark: *host,
                last_refaults_in_cgroup: refaults,
                moved: None,
                began_at: host.at,
                refaults_in_cgroup: 0,
            };
        };
        let moved = between(&before.mark, host).map(|signal| (signal, host.at));
        let window_is_over = host.at.saturating_sub(before.mark.at) >= WINDOW;
        SignalWatch {
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

    /// The signal that moved at `now`, or within `time` before it.
    pub(super) fn moved_within(
        &self,
        time: Duration,
        now: Duration,
    ) -> Option<MemoryPressureSignal> {
        let (signal, at) = self.moved?;
        (now.saturating_sub(at) < time).then_some(signal)
    }

    pub(super) fn is_moving(&self, now: Duration) -> bool {
        self.moved.is_some_and(|(_, at)| at == now)
    }

    /// When a signal last moved, or when the watch began if none has.
    pub(super) fn moved_at(&self) -> Duration {
        self.moved.map_or(self.began_at, |(_, at)| at)
    }
}

fn between(from: &HostFigures, to: &HostFigures) -> Option<MemoryPressureSignal> {
    let window = to.at.saturating_sub(from.at).max(WINDOW);
    let refaults_still = REFAULTS_PER_SEC * window.as_millis() as u64 / 1000;
    if to.stalls > from.stalls {
        Some(MemoryPressureSignal::Stalls)
    } else if to.swapped_out > from.swapped_out {
        Some(MemoryPressureSignal::Swapping)
    } else if to.refaults.saturating_sub(from.refaults) > refaults_still {
        Some(MemoryPressureSignal::Refaults)
    } else if waited(from, to) > window / PRESSURE_SHARE {
        Some(MemoryPressureSignal::Pressure)
    } else {
        None
    }
}

/// The time that tasks waited. `full` time is a part of `some` time.
fn waited(from: &HostFigures, to: &HostFigures) -> Duration {
    match (from.pressure, to.pressure) {
        (Some(from), Some(to)) => to.some.saturating_sub(from.some),
        _ => Duration::ZERO,
    }
}
