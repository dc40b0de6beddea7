//! PUMA's experiments (Lorrillere and others, SYSTOR 2015): a guest whose evicted pages go to another host's memory.
//!
//! ```text
//! benchmark ──► guest: 1 GB, LRU, read-ahead ──get, put──► store ──outbox, tickets──► link ──► lender's store
//!                      └──what neither has──► disk                 the guard decides ──┘
//! ```
//!
//! Both stores and the guard are the daemon's own code. The guest, the disk and the link are models in virtual time.

mod acceptance;
mod asked_lender;
mod benchmarks;
mod borrowing_guest;
mod borrowing_store;
mod bursts;
mod far_link;
mod lending_store;
mod page_cache;
mod paper;
mod plan;
mod plots;
mod report;
mod run;
mod setting;
mod variants;

pub use benchmarks::PumaBenchmark;
pub use bursts::{BurstCount, BurstOutcome};
pub use plan::{PumaOutcome, PumaPlan, PumaTask};
pub use plots::plots;
pub use report::PumaReport;
pub use run::BenchmarkOutcome;
pub use setting::{PumaScale, PumaScaleError, SettingName};
pub use variants::{BenchmarkRun, CachingStrategy, FarAmount, GuardChoice, SequentialFilter};

#[cfg(test)]
mod tests;
