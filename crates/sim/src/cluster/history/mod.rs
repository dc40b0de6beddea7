//! Histories of live clusters: what clients asked for and got, for the same judges as of simulated ones.
//!
//! A history is lines of JSON (docs/simulator/cluster.md). Each client writes its own file; the files of all clients
//! are one history, if one clock made their times.

mod call;
mod error;
mod judge;
mod line;
mod reader;

pub use error::{HistoryError, HistoryFault};
pub use judge::{HistoryReport, HistoryViolation};
pub use reader::History;

#[cfg(test)]
mod tests;
