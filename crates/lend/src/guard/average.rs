//! Moving averages of latencies.

use std::time::Duration;

/// The longest latency that an average takes. A longer one counts as this.
const SAMPLE_MAX: Duration = Duration::from_secs(60);

/// An exponentially weighted moving average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovingAverage(Duration);

impl MovingAverage {
    /// Starts an average with a first sample.
    pub(super) fn new(sample: Duration) -> MovingAverage {
        MovingAverage(sample.min(SAMPLE_MAX))
    }

    /// Adds a sample with a weight of one in `one_in`.
    pub(super) fn add(&mut self, sample: Duration, one_in: u32) {
        self.0 = (self.0 * (one_in - 1) + sample.min(SAMPLE_MAX)) / one_in;
    }

    /// Returns the average.
    pub(super) fn get(self) -> Duration {
        self.0
    }
}
