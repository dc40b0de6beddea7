//! What the daemon shows of itself: logs, metrics, and the process as the kernel sees it.

pub mod log;
pub mod metrics;
pub mod process;
mod seldom;

pub use seldom::Seldom;
