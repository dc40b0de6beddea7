//! Chooses what to log of something that fails again and again, and at last works again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A failure that was logged already is logged again after this time.
const REST: Duration = Duration::from_secs(60);

/// Whether something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthState {
    /// It works.
    Working,
    /// It fails.
    Failing,
}

/// The most causes that are told apart. More causes count as one.
const CAUSES_MAX: usize = 8;

/// Something that may fail again and again. The log gets a line when the failure begins, for another cause, when it
/// works again, and also once per minute. Each line says how often it failed since the last line.
#[derive(Debug, Default)]
pub struct FailureReporter {
    /// Read while it works, so that no lock is needed then.
    is_failing: AtomicBool,
    state: Mutex<FailureState>,
}

#[derive(Debug, Default)]
struct FailureState {
    /// When the last line was written.
    reported_at: Option<Instant>,
    /// Whether that line said that it fails.
    reported_failing: bool,
    /// The causes of recent lines.
    causes: Vec<String>,
    latest: String,
    failures: u64,
}

impl FailureState {
    fn is_due(&self, now: Instant) -> bool {
        self.reported_at.is_none_or(|told| now - told >= REST)
    }

    fn mark_reported(&mut self, health: HealthState, now: Instant) -> u64 {
        self.reported_at = Some(now);
        self.reported_failing = health == HealthState::Failing;
        std::mem::take(&mut self.failures)
    }
}

impl FailureReporter {
    /// Records a failure. Returns how often it failed, if a line is to be written.
    pub fn record_failure(&self, cause: &str, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        let was_failing = self.is_failing.swap(true, Ordering::Relaxed);
        if !was_failing && state.is_due(now) {
            state.causes.clear();
        }
        state.failures += 1;
        cause.clone_into(&mut state.latest);
        let is_known = state.causes.iter().any(|known| known == cause);
        let is_new = !is_known && state.causes.len() < CAUSES_MAX;
        if is_new {
            state.causes.push(cause.to_owned());
        }
        (is_new || state.is_due(now)).then(|| state.mark_reported(HealthState::Failing, now))
    }

    /// Records a success. Returns how often it had failed, if the log says that it does not work.
    pub fn record_success(&self, now: Instant) -> Option<u64> {
        if !self.is_failing.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = self.state.lock();
        self.is_failing.store(false, Ordering::Relaxed);
        state
            .reported_failing
            .then(|| state.mark_reported(HealthState::Working, now))
    }

    /// Why it does not work, if it does not.
    pub fn cause(&self) -> Option<String> {
        let is_failing = self.is_failing.load(Ordering::Relaxed);
        is_failing.then(|| self.state.lock().latest.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which lines were written, for a backing that is tried once per second.
    fn lines(tries: impl IntoIterator<Item = Result<(), &'static str>>) -> Vec<(u64, u64)> {
        let (reporter, start) = (FailureReporter::default(), Instant::now());
        let told = tries.into_iter().zip(0..).filter_map(|(tried, second)| {
            let now = start + Duration::from_secs(second);
            let failures = match tried {
                Ok(()) => reporter.record_success(now),
                Err(cause) => reporter.record_failure(cause, now),
            };
            Some((second, failures?))
        });
        told.collect()
    }

    #[test]
    fn what_goes_on_failing_is_told_once_a_minute_and_at_its_end() {
        let tries = std::iter::repeat_n(Err("EIO"), 150).chain([Ok(()), Ok(())]);
        assert_eq!(lines(tries), [(0, 1), (60, 60), (120, 60), (150, 29)]);
    }

    #[test]
    fn another_cause_is_told_at_once_and_only_once() {
        let tries = (0..50).map(|n| Err(["EIO", "ENOSPC"][n / 10 % 2]));
        assert_eq!(lines(tries), [(0, 1), (10, 10)]);
    }

    #[test]
    fn what_fails_now_and_then_fills_no_log() {
        let tries = (0..130).map(|n| if n % 2 == 0 { Err("EIO") } else { Ok(()) });
        assert_eq!(
            lines(tries),
            [(0, 1), (1, 0), (62, 31), (63, 0), (124, 31), (125, 0)]
        );
    }

    #[test]
    fn the_cause_is_known_while_it_lasts() {
        let (reporter, now) = (FailureReporter::default(), Instant::now());
        assert_eq!(
            (reporter.record_success(now), reporter.cause()),
            (None, None)
        );
        reporter.record_failure("EIO", now);
        reporter.record_failure("ENOSPC", now);
        assert_eq!(reporter.cause().as_deref(), Some("ENOSPC"));
        reporter.record_success(now);
        assert_eq!(reporter.cause(), None);
    }
}
