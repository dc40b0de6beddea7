//! What the daemon shows of itself: events, logs, metrics, and the process as the kernel sees it.

pub mod events;
mod failure_reporter;
pub mod log;
pub mod metrics;
pub mod process;
mod rate_limit;

pub use failure_reporter::FailureReporter;
pub(crate) use failure_reporter::HealthState;
