//! What happens in a second, of late.

use sublet_types::Second;

use super::Rates;
use crate::decay::kept_after;

/// Counts that fade as a curve's do, so that both speak of the same time.
#[derive(Clone, Debug)]
pub struct Meter {
    at: Second,
    secs: f64,
    counts: Rates,
}

impl Meter {
    /// Nothing was counted yet.
    pub fn new(now: Second) -> Meter {
        Meter {
            at: now,
            secs: 0.0,
            counts: Rates::default(),
        }
    }

    /// Takes in what was counted since the last time. Says how much that is in a second, of late.
    pub fn count(&mut self, now: Second, more: Rates) -> Rates {
        let since = now.0.saturating_sub(self.at.0);
        let kept = kept_after(since);
        self.at = now.max(self.at);
        self.secs = (self.secs + f64::from(since)) * kept;
        let fade = |count: f64, more: f64| (count + more) * kept;
        self.counts = self.counts.each(more, fade);
        let secs = self.secs;
        let a_second = |count: f64, _| if secs > 0.0 { count / secs } else { 0.0 };
        self.counts.each(more, a_second)
    }
}

impl Rates {
    fn each(self, other: Rates, both: impl Fn(f64, f64) -> f64) -> Rates {
        Rates {
            gets: both(self.gets, other.gets),
            hits: both(self.hits, other.hits),
            puts: both(self.puts, other.puts),
            failed: both(self.failed, other.failed),
        }
    }
}
