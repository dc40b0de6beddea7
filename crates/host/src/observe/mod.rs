//! What the daemon shows of itself: events, logs, metrics, and the process as the kernel sees it.

mod ailment;
pub mod events;
mod limit;
pub mod log;
pub mod metrics;
pub mod process;

pub use ailment::Ailment;
