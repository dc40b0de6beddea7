//! Who of a tenant's was evicted of late.

use serde::{Deserialize, Serialize};

/// Who was evicted of late, of each kind that the tenant has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaversStatus {
    /// Of its pages.
    pub pages: Option<EvictedStatus>,
    /// Of its items.
    pub items: Option<EvictedStatus>,
}

/// Who was evicted of late, learnt from one in sixteen; the past fades, half of it in a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvictedStatus {
    /// Seconds since they were put or stored: of half no more than this.
    pub age_p50_secs: Option<f64>,
    /// Of 95 in 100 no more than this.
    pub age_p95_secs: Option<f64>,
    /// Gets that found them: half no more than so many.
    pub uses_p50: Option<f64>,
    /// 95 in 100 no more than so many.
    pub uses_p95: Option<f64>,
    /// Their part, from 0 to 1, that was asked for within a turnover: before as many were evicted as the tenant has.
    pub regret: Option<f64>,
    /// Sampled ones whose turnover is over, since the start.
    pub judged: u64,
    /// Of these, asked for within it.
    pub regretted: u64,
}
