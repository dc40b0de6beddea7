//! Recent rates per second.

use sublet_types::Second;

use super::TenantRates;
use crate::decay::kept_after;

/// Counts that fade as those of a curve do, so that both speak of the same time.
#[derive(Clone, Debug)]
pub struct RateMeter {
    at: Second,
    secs: f64,
    counts: TenantRates,
}

impl RateMeter {
    /// A meter that counted nothing yet.
    pub fn new(now: Second) -> RateMeter {
        RateMeter {
            at: now,
            secs: 0.0,
            counts: TenantRates::default(),
        }
    }

    /// Adds what was counted since the last time. Returns the recent rates per second.
    pub fn count(&mut self, now: Second, more: TenantRates) -> TenantRates {
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

impl TenantRates {
    fn each(self, other: TenantRates, both: impl Fn(f64, f64) -> f64) -> TenantRates {
        TenantRates {
            gets: both(self.gets, other.gets),
            hits: both(self.hits, other.hits),
            puts: both(self.puts, other.puts),
            failed: both(self.failed, other.failed),
        }
    }
}
