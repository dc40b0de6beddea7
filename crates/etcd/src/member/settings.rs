//! What a member is told at its start.

use std::time::Duration;

use sublet_types::{ClusterName, NodeName};

/// How long a node's lease lives without a renewal, unless the store's least is more.
pub const TTL_DEFAULT: Duration = Duration::from_secs(5);

/// Whether a node wants to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidacy {
    /// It leads if nobody else does.
    Candidate,
    /// It only follows.
    Follower,
}

/// What a member is told at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Its name.
    pub node: NodeName,
    /// What it writes about itself: a [`crate::record::NodeRecord`] as JSON.
    pub record: Vec<u8>,
    /// Whether it wants to lead.
    pub candidacy: Candidacy,
    /// How long its lease is to live without a renewal: [`TTL_DEFAULT`].
    pub ttl: Duration,
    /// A random number. It spreads the nodes' tries over time.
    pub seed: u64,
}
