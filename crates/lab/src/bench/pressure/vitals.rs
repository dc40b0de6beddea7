//! The harm that the host suffered meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sublet_host::headroom::{HostReadError, ProcHost, ReadHost};
use sublet_types::{Bytes, HostFigures};

/// The interval between two looks of the watch.
const WATCH_EVERY: Duration = Duration::from_millis(5);

/// The host's present figures.
pub(super) fn figures() -> Result<HostFigures, HostReadError> {
    ProcHost::open()?.read(Duration::ZERO)
}

/// What rose between two looks at the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PressureHarm {
    /// Allocations that had to reclaim memory themselves.
    pub(super) stalls: u64,
    /// Pages written to swap.
    pub(super) swapped_out: u64,
    /// Programs killed.
    pub(super) kills: u64,
}

impl PressureHarm {
    /// What rose from `before` to `after`.
    pub(super) fn between(before: &HostFigures, after: &HostFigures) -> PressureHarm {
        PressureHarm {
            stalls: after.stalls.saturating_sub(before.stalls),
            swapped_out: after.swapped_out.saturating_sub(before.swapped_out),
            kills: after.oom_kills.saturating_sub(before.oom_kills),
        }
    }

    /// Adds the harm of another run.
    pub(super) fn add(&mut self, more: PressureHarm) {
        self.stalls += more.stalls;
        self.swapped_out += more.swapped_out;
        self.kills += more.kills;
    }
}

/// One look of the watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct VitalsSample {
    /// The time since the watch began.
    pub(super) at: Duration,
    /// MemAvailable.
    pub(super) available: Bytes,
    /// What the daemon has in memory.
    pub(super) resident: Bytes,
}

/// Samples the host's memory and `resident` while `work` runs.
pub(super) fn watch<R>(
    resident: impl Fn() -> Bytes + Sync,
    work: impl FnOnce() -> R,
) -> (R, Vec<VitalsSample>) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let begun = Instant::now();
            let mut samples = Vec::new();
            let Ok(mut host) = ProcHost::open() else {
                return samples;
            };
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(figures) = host.read(begun.elapsed()) {
                    samples.push(VitalsSample {
                        at: figures.at,
                        available: figures.available,
                        resident: resident(),
                    });
                }
                thread::sleep(WATCH_EVERY);
            }
            samples
        });
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        (result, watcher.join().unwrap_or_default())
    })
}

/// The least that was available.
pub(super) fn least_available(samples: &[VitalsSample]) -> Bytes {
    let available = samples.iter().map(|sample| sample.available);
    available.min().unwrap_or(Bytes::ZERO)
}
