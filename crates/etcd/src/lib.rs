//! What a node of a cluster needs from etcd, version 3.4 or later: who the members are, who leads, and the cluster's
//! settings.
//!
//! - [`store`] is the contract: the few calls that a node makes, and what their answers mean.
//! - [`member`] decides which call comes next. It is sans I/O: the time and the answers are arguments.
//! - [`gateway`] makes the calls through etcd's JSON gateway. [`answers`] parses what comes back.
//! - [`driver`] lets a member and a store work together in a task of tokio.
//!
//! Nothing here decides about memory. A node's own table is the truth about its blocks, and what etcd says is advice.

#![forbid(unsafe_code)]

pub mod answers;
pub mod driver;
pub mod gateway;
pub mod keys;
pub mod lease_clock;
pub mod member;
pub mod mirror;
mod questions;
pub mod record;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
