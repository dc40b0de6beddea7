//! Pure decisions: how large the arena may be, and how much of it each tenant may hold.
//!
//! - [`headroom`]: from the host's figures to the arena's size.
//! - A [`Policy`]: from a [`Snapshot`](sublet_types::Snapshot) to a [`Decision`], which holds targets and their
//!   reasons. There is one file per policy, and [`catalogue`] is the table of them all. Whatever a policy proposes
//!   passes through one step that applies floors, ceilings and the total.
//! - [`what_if`]: from the requests of the last hour to the hits that each tenant would have with other memory or under
//!   another policy.
//! - [`placement`]: from what the nodes of a cluster report to advice on who should borrow of whom.
//! - [`mrc::Shadow`]: from sampled accesses to a miss-ratio curve.
//! - [`eviction_tracker::EvictionTracker`]: from the same accesses to what was evicted too soon.
//!
//! Nothing here reads a clock, draws random numbers or touches the world. Equal snapshots in equal order make equal
//! decisions.

#![forbid(unsafe_code)]

mod active;
mod apportion;
pub mod catalogue;
mod clamp;
mod decay;
mod decide;
mod decision;
pub mod eviction_tracker;
pub mod explain;
#[cfg(test)]
mod fixtures;
mod greedy;
pub mod headroom;
pub mod mrc;
pub mod placement;
mod pooled;
mod reconf_static;
mod smart_alloc;
mod static_alloc;
pub mod transfer_history;
pub mod transfers;
mod two_level;
mod utility;
mod weights;
pub mod what_if;

pub use decide::{AskingRule, Policy};
pub use decision::{Decision, Proposal};
