//! The distribution of a figure, fading with time.

use super::Quantiles;
use crate::mrc::{bucket_of, start_of};

/// Counts by the figure's size, in buckets that are at most a sixteenth wide. Buckets are exact up to 16.
#[derive(Clone, Debug, Default)]
pub(super) struct FadingHistogram {
    counts: Vec<f64>,
}

/// A sum below this counts as nothing: forty half-lives leave more of a single count.
const NOTHING: f64 = 1e-9;

impl FadingHistogram {
    pub(super) fn add(&mut self, figure: u64) {
        let bucket = bucket_of(figure);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0.0);
        }
        self.counts[bucket] += 1.0;
    }

    pub(super) fn fade(&mut self, kept: f64) {
        self.counts.iter_mut().for_each(|count| *count *= kept);
    }

    /// The median and the 95th percentile, each as the middle of its bucket.
    pub(super) fn quantiles(&self) -> Option<Quantiles> {
        let all: f64 = self.counts.iter().sum();
        (all > NOTHING).then(|| Quantiles {
            p50: self.quantile(all * 0.5),
            p95: self.quantile(all * 0.95),
        })
    }

    fn quantile(&self, wanted: f64) -> f64 {
        let mut below = 0.0;
        let mut last = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            if *count > 0.0 {
                last = bucket;
                below += count;
                if below >= wanted {
                    break;
                }
            }
        }
        let (low, high) = (start_of(last), start_of(last + 1) - 1);
        (low + high) as f64 / 2.0
    }
}
