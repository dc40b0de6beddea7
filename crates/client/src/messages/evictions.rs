//! What was evicted from a tenant lately.

use serde::{Deserialize, Serialize};

/// What was evicted lately, for each kind that the tenant has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvictionsStatus {
    /// Evicted pages.
    pub pages: Option<EvictedStatus>,
    /// Evicted items.
    pub items: Option<EvictedStatus>,
}

/// Statistics of recent evictions, from a sample of one in sixteen. The past fades, by half in a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvictedStatus {
    /// Seconds since an entry was put or stored: half of them have at most this age.
    pub age_p50_secs: Option<f64>,
    /// 95 % of them have at most this age.
    pub age_p95_secs: Option<f64>,
    /// Gets that found an entry: half of the entries had at most so many.
    pub uses_p50: Option<f64>,
    /// 95 % of the entries had at most so many.
    pub uses_p95: Option<f64>,
    /// The part, from 0 to 1, that clients asked for within a turnover. A turnover ends when as many entries were
    /// evicted as the tenant has.
    pub regret: Option<f64>,
    /// Sampled entries whose turnover is over, since the start.
    pub judged: u64,
    /// The part of `judged` that clients asked for within it.
    pub regretted: u64,
}
