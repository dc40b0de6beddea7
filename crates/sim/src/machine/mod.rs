//! A simulated host: guests with memory of their own, a tier behind them, and one disk behind that.
//!
//! ```text
//! workload --steps--> Guest: LRU memory --read-ahead window--> Tier --miss--> Disk (a queue in time)
//! ```

pub mod disk;
pub mod guest;
pub mod processors;
pub mod recency;
pub mod shadows;
pub mod swap;
pub mod tier;
pub(crate) mod tier_map;
pub mod tier_store;
pub mod uses;
