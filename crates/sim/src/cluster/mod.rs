//! A cluster of nodes that lend memory to each other, in virtual time, under any faults.
//!
//! Each node has the daemon's own store, lending node and guard. Around them are a network that delays, stalls, breaks
//! and parts, hosts that crash, stop and need memory, and guests that know what they wrote. Judges watch every step.
//! First there are faults. Then everything heals, and the nodes must agree again.

mod content;
mod environment;
mod etcd_service;
pub mod history;
mod ids;
mod judges;
mod leaders;
mod leadership;
mod leadership_plan;
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
mod traffic;
mod verdict;
mod world;

pub use ids::{NodeNumber, NodeRun};
pub use leadership::{Leadership, UnknownLeadership};
pub use mutation::{Mutation, UnknownMutation};
pub use network::NetworkSpeed;
pub use plan::{ClusterPlan, FaultScope, MESH_NODES_MAX, NODES_MAX};
pub use report::{ClusterReport, MutationReport, MutationRow};
pub use run::{ClusterOutcome, ClusterRun};
pub use tally::ClusterTally;
pub use trace::TraceLength;
pub use traffic::{
    CONNECTION_BYTES_MAX, ControlTrafficFigures, NODE_BYTES_MAX, NodeTrafficFigures,
};
pub use verdict::{ClusterJudge, ClusterVerdict};

#[cfg(test)]
mod tests;
