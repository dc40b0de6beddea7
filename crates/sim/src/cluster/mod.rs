//! A cluster of nodes that lend memory to each other, in virtual time, under any faults.
//!
//! Each node has the daemon's own store, lending node and guard. Around them are a network that delays, stalls, breaks
//! and parts, hosts that crash, stop and need memory, and guests that know what they wrote. Judges watch every step.
//! First there are faults. Then everything heals, and the nodes must agree again.

mod content;
mod environment;
mod ids;
mod judges;
mod messages;
mod mutation;
mod nemesis;
mod network;
mod node;
mod plan;
mod report;
mod run;
mod seal;
mod tally;
mod trace;
mod verdict;
mod world;

pub use ids::{NodeNumber, NodeRun};
pub use mutation::{Mutation, UnknownMutation};
pub use network::NetworkSpeed;
pub use plan::{ClusterPlan, NODES_MAX};
pub use report::{ClusterReport, MutationReport, MutationRow};
pub use run::{ClusterOutcome, ClusterRun};
pub use tally::ClusterTally;
pub use trace::TraceLength;
pub use verdict::{ClusterJudge, ClusterVerdict};

#[cfg(test)]
mod tests;
