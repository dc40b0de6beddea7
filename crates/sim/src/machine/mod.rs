//! A simulated host: guests with their own memory, a tier behind them, and one disk behind that.
//!
//! ```text
//! workload --steps--> Guest: LRU memory --read-ahead window--> Tier --miss--> Disk (a queue in time)
//! ```

pub mod disk_model;
pub(crate) mod far_tier;
pub mod guest;
pub mod lru_map;
pub mod processors;
pub mod shadowed_tier;
pub mod swap;
pub mod tier;
pub(crate) mod tier_map;
pub mod tier_store;
pub mod use_log;
