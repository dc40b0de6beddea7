//! The clock of connections' deadlines. It is the kernel's clock or one that a test moves.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// A thread that may sleep until a time, and reads the clock again when it wakes.
pub(crate) trait Sleeper: Send + Sync {
    fn wake(&self);
}

/// The clock that workers read. The default one is the kernel's.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock(Option<ManualClock>);

impl MonotonicClock {
    /// Returns the present time.
    pub fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(manual) => manual.now(),
        }
    }

    /// Returns the present time to a few milliseconds, which costs less. The times of one clock can be compared.
    pub(crate) fn coarse(&self) -> Duration {
        match &self.0 {
            None => Duration::try_from(clock_gettime(ClockId::MonotonicCoarse)).unwrap_or_default(),
            Some(manual) => manual.now() - manual.0.start,
        }
    }

    /// Returns whether time passes by itself.
    pub(crate) fn is_running(&self) -> bool {
        self.0.is_none()
    }

    /// Returns how long a thread may sleep in the kernel if it has work at `until`. A manual clock sets no limit, since
    /// its next move wakes the thread.
    pub(crate) fn longest_sleep(&self, until: Option<Instant>) -> Option<Duration> {
        let left = until.map(|at| at.saturating_duration_since(self.now()));
        left.filter(|left| self.is_running() || left.is_zero())
    }

    /// Adds a sleeper that each move of the clock wakes.
    pub(crate) fn add_sleeper<S: Sleeper + 'static>(&self, sleeper: &Arc<S>) {
        if let Some(ManualClock(time)) = &self.0 {
            let sleeper = Arc::downgrade(sleeper) as Weak<dyn Sleeper>;
            time.sleepers.lock().push(sleeper);
        }
    }
}

/// A clock that stands still until a test moves it. Its memory stays until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct ManualClock(&'static ManualTime);

struct ManualTime {
    start: Instant,
    now: Mutex<Instant>,
    sleepers: Mutex<Vec<Weak<dyn Sleeper>>>,
}

impl std::fmt::Debug for ManualTime {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "ManualTime({:?})", *self.now.lock())
    }
}

impl ManualClock {
    /// Makes a clock that shows the present time.
    pub fn start() -> ManualClock {
        let start = Instant::now();
        ManualClock(Box::leak(Box::new(ManualTime {
            start,
            now: Mutex::new(start),
            sleepers: Mutex::default(),
        })))
    }

    /// Returns the clock that workers read.
    pub fn clock(&self) -> MonotonicClock {
        MonotonicClock(Some(*self))
    }

    /// Returns the time that it shows.
    pub fn now(&self) -> Instant {
        *self.0.now.lock()
    }

    /// Moves the clock forward and wakes all sleepers.
    pub fn advance(&self, time: Duration) {
        *self.0.now.lock() += time;
        let mut sleepers = self.0.sleepers.lock();
        sleepers.retain(|sleeper| match sleeper.upgrade() {
            Some(sleeper) => {
                sleeper.wake();
                true
            }
            None => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct CountsWakes(AtomicU32);

    impl Sleeper for CountsWakes {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_manual_clock_moves_only_when_it_is_told_to_and_wakes_sleepers() {
        const HOUR: Duration = Duration::from_secs(3600);
        let (manual, sleeper) = (ManualClock::start(), Arc::<CountsWakes>::default());
        let clock = manual.clock();
        clock.add_sleeper(&sleeper);
        let (start, gone) = (clock.now(), Arc::<CountsWakes>::default());
        clock.add_sleeper(&gone);
        drop(gone);
        assert_eq!(clock.longest_sleep(Some(start + HOUR)), None);
        assert_eq!(clock.now(), start);
        manual.advance(HOUR);
        assert_eq!(clock.now(), start + HOUR);
        assert_eq!(sleeper.0.load(Ordering::Relaxed), 1);
        assert_eq!(manual.0.sleepers.lock().len(), 1);
        let due = clock.longest_sleep(Some(start + HOUR));
        assert_eq!(due, Some(Duration::ZERO));
    }

    #[test]
    fn a_sleep_by_the_kernels_clock_is_as_long_as_there_is_time_left() {
        let clock = MonotonicClock::default();
        assert_eq!(clock.longest_sleep(None), None);
        let left = clock.longest_sleep(Some(clock.now() + Duration::from_secs(3600)));
        assert!(left > Some(Duration::from_secs(1800)));
    }
}
