//! The messages about a cluster: who leads it, who takes part, and who is advised to borrow of whom.

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, ClusterName, NodeName};

use super::change_lifetime::ChangeLifetime;
use super::lending::LendPhase;

/// How a node stands in its cluster, and how the cluster stands (`GET /v1/cluster`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The node that answers.
    pub node: NodeName,
    /// Its cluster.
    pub cluster: ClusterName,
    /// How the node learns of whom to borrow.
    pub how: ClusterMode,
    /// Whether the node takes part.
    pub phase: LendPhase,
    /// How long it stays out: over restarts, or until the daemon ends. Null while it takes part.
    #[serde(default)]
    pub leave_lasts: Option<ChangeLifetime>,
    /// Whose advice the node follows. Null if there is no leader, or none is known.
    pub leader: Option<NodeName>,
    /// Whether the node leads.
    pub leads_here: bool,
    /// The highest term that the node has heard of. Zero if none.
    pub term: u64,
    /// How long the leader has been silent, milliseconds. Null if there is none, or it is this node.
    pub leader_silent_millis: Option<u64>,
    /// Pieces of advice that the node followed since its start.
    pub advice_followed: u64,
    /// Messages that only a leader sends and that did not count: they were of others, or of an earlier term.
    pub advice_ignored: u64,
    /// How the node stands with etcd. Null if it uses none.
    pub etcd: Option<EtcdStatus>,
    /// The cluster: of the leader's ledger, or, without a leader, what the node knows of its own peers. Null if the
    /// leader has not answered.
    pub view: Option<ClusterView>,
}

/// How a node learns of whom to borrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterMode {
    /// It is connected with each member, and asks those that have most.
    Mesh,
    /// It asks two members at random.
    NoLeader,
    /// A leader that its config names advises it.
    NamedLeader,
    /// A leader that the members elect through etcd advises it.
    Etcd,
}

impl ClusterMode {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            ClusterMode::Mesh => "mesh",
            ClusterMode::NoLeader => "no-leader",
            ClusterMode::NamedLeader => "named-leader",
            ClusterMode::Etcd => "etcd",
        }
    }
}

/// How a node stands with etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdStatus {
    /// Where etcd is, as the config says it.
    pub endpoints: Vec<String>,
    /// Whether etcd answers.
    pub state: EtcdState,
    /// Why not, if that is known; else empty.
    pub why: String,
    /// How long the node stays a member without a word to etcd, seconds. Null while it has no lease there.
    pub lease_ttl_secs: Option<u64>,
}

/// Whether etcd answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EtcdState {
    /// The node is a member there, and sees changes.
    Connected,
    /// It begins to be one.
    Registering,
    /// It is not, or etcd does not answer.
    Failing,
    /// The node does not try to be a member, because it has left its cluster.
    Unregistered,
}

impl EtcdState {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            EtcdState::Connected => "connected",
            EtcdState::Registering => "registering",
            EtcdState::Failing => "failing",
            EtcdState::Unregistered => "unregistered",
        }
    }
}

/// How a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    /// How old the view is, milliseconds.
    pub as_of_millis: u64,
    /// Whether this is the whole cluster. Else it is what one node knows of its peers.
    pub whole: bool,
    /// The nodes by name.
    pub nodes: Vec<ClusterNode>,
    /// The latest advice, the oldest first.
    pub advice: Vec<ClusterAdvice>,
    /// Pairs of nodes whose counts have differed for too long.
    pub alarms: Vec<CountAlarm>,
    /// The placement policy and its knobs, such as `spread part=25`.
    pub placement: String,
}

/// A node of a cluster, as it reported last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNode {
    /// Its name.
    pub name: NodeName,
    /// Whether it takes part.
    pub state: ClusterNodeState,
    /// Since when, seconds before now.
    pub since_secs: u64,
    /// Where it stands, if its config says so.
    pub rack: Option<String>,
    /// What its arena may have.
    pub total: Bytes,
    /// What of that nobody uses.
    pub free: Bytes,
    /// What it would lend beyond what it has lent.
    pub lendable: Bytes,
    /// What it has lent.
    pub lent: Bytes,
    /// What it has borrowed.
    pub borrowed: Bytes,
    /// What it wants beyond what it has.
    pub wanted: Bytes,
}

/// Whether a node takes part in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterNodeState {
    /// It is a member and has not reported yet.
    Expected,
    /// It reports.
    Active,
    /// It leaves: it neither lends nor borrows any more.
    Leaving,
    /// It is silent.
    Away,
    /// It left, or was silent for long.
    Gone,
}

impl ClusterNodeState {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            ClusterNodeState::Expected => "expected",
            ClusterNodeState::Active => "active",
            ClusterNodeState::Leaving => "leaving",
            ClusterNodeState::Away => "away",
            ClusterNodeState::Gone => "gone",
        }
    }
}

/// Advice that a node borrow of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterAdvice {
    /// How long ago it was given, milliseconds.
    pub age_millis: u64,
    /// Who should borrow.
    pub borrower: NodeName,
    /// Of whom.
    pub lender: NodeName,
    /// How much.
    pub bytes: Bytes,
    /// Why of this lender.
    pub why: String,
    /// Why the borrower is to have less than it wants, if so.
    pub shortage: Option<String>,
}

/// A lender and its borrower have counted differently for longer than their reports take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountAlarm {
    /// The lender.
    pub lender: NodeName,
    /// The borrower.
    pub borrower: NodeName,
    /// What the lender counts.
    pub lent: Bytes,
    /// What the borrower counts.
    pub borrowed: Bytes,
    /// Since when, seconds before now.
    pub since_secs: u64,
}

/// What the placement policy would advise now (`GET /v1/cluster/plan`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The placement policy and its knobs.
    pub placement: String,
    /// The advice, in the policy's order.
    pub advice: Vec<ClusterAdvice>,
    /// Why there is none, if so.
    pub why_none: Option<String>,
}

/// Take everything back, give everything back, and part from all (`POST /v1/cluster/leave`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaveCluster {
    /// How long borrowers may take to give back what they have of this node, milliseconds. What is not back then is
    /// taken.
    pub within_millis: u64,
    /// How long the node stays out if nobody lets it join.
    pub lasts: ChangeLifetime,
}

/// Take part again (`POST /v1/cluster/join`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinCluster {
    /// Whether the node takes part after the next start, too.
    pub lasts: ChangeLifetime,
}
