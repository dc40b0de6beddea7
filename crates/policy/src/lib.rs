//! Pure decisions: how large the arena may be, and how much of it each tenant may hold.
//!
//! - [`headroom`]: the host's figures in, the arena's size out.
//! - A [`Policy`]: a [`Snapshot`](sublet_types::Snapshot) in, a [`Decision`] out: targets, and why. One file a policy;
//!   [`catalogue`] is the table of them all. Whatever a policy proposes passes through one step that keeps floors,
//!   ceilings and the total.
//! - [`what_if`]: what was asked in the last hour in, who would have how many hits with other memory or another
//!   policy out.
//! - [`mrc::Shadow`]: sampled accesses in, a miss-ratio curve out. [`departures::Departures`]: the same in, who was
//!   evicted too soon out.
//!
//! Nothing here reads a clock, draws luck or touches the world; equal snapshots in equal order make equal decisions.

#![forbid(unsafe_code)]

mod active;
mod apportion;
pub mod catalogue;
mod clamp;
mod decay;
mod decide;
mod decision;
pub mod departures;
pub mod explain;
mod greedy;
pub mod headroom;
pub mod moved;
pub mod mrc;
mod pooled;
mod reconf_static;
#[cfg(test)]
mod scene;
mod smart_alloc;
mod static_alloc;
mod two_level;
pub mod undone;
mod utility;
mod weights;
pub mod what_if;

pub use decide::Policy;
pub use decision::{Decision, Proposal};
