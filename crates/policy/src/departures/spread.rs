//! How a figure is spread, fading with time.

use super::Quantiles;
use crate::mrc::{bucket_of, start_of};

/// Counts by the figure's size, in buckets at most a sixteenth wide; exact up to 16.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    counts: Vec<f64>,
}

/// A sum below this is nothing: forty half-lives leave more of one.
const NOTHING: f64 = 1e-9;

impl Spread {
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

    /// The figures below which half and 95 in 100 lie: the middles of their buckets.
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
