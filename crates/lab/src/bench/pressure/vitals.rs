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
    /// Pages that the host had to write to swap.
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

/// What the watch saw while something ran.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// One sample each [`WATCH_EVERY`].
    pub(super) samples: Vec<VitalsSample>,
    /// What the host suffered.
    pub(super) harm: PressureHarm,
}

/// Watches the host's memory and `resident` while `work` runs. One reader sees all of it, because it tells pages that
/// the host had to swap from those that something else swapped meanwhile.
pub(super) fn watch<R>(
    resident: impl Fn() -> Bytes + Sync,
    work: impl FnOnce() -> R,
) -> Result<(R, Watched), HostReadError> {
    let begun = Instant::now();
    let mut host = ProcHost::open()?;
    let before = host.read(Duration::ZERO)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut samples = Vec::new();
            let mut figures = before;
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(WATCH_EVERY);
                figures = host.read(begun.elapsed())?;
                samples.push(VitalsSample {
                    at: figures.at,
                    available: figures.available,
                    resident: resident(),
                });
            }
            let harm = PressureHarm::between(&before, &figures);
            Ok(Watched { samples, harm })
        });
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        let watched = watcher.join().unwrap_or_else(|_| Ok(Watched::default()))?;
        Ok((result, watched))
    })
}

/// The least that was available.
pub(super) fn least_available(samples: &[VitalsSample]) -> Bytes {
    let available = samples.iter().map(|sample| sample.available);
    available.min().unwrap_or(Bytes::ZERO)
}
