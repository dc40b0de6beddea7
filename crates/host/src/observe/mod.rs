//! What the daemon shows of itself: logs, metrics, and the process as the kernel sees it.

mod ailment;
pub mod log;
pub mod metrics;
pub mod process;
mod seldom;

pub use ailment::Ailment;
pub use seldom::Seldom;
