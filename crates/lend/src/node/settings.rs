//! What a node is told at its start.

use std::collections::BTreeSet;
use std::time::Duration;

use sublet_policy::placement::PlacementChoice;

use crate::control::{Addresses, VersionRange};
use crate::ids::{ClusterName, Incarnation, NodeName, RackName};
use crate::lender::LendLimits;

/// The most members beside this node, if each has a connection with each.
pub const PEERS_MAX: usize = 256;

/// The most members beside this node, if connections are made on demand.
pub const MEMBERS_MAX: usize = 16 << 10;

/// Whether a member may be lent to: `lend.to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LendTo {
    /// It may.
    Allowed,
    /// `lend.to` does not name it.
    NotNamed,
}

/// One member beside this node. Its place in the list is its [`crate::ids::PeerId`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    /// Its name, as its certificate has it.
    pub name: NodeName,
    /// Whether it may be lent to.
    pub lend: LendTo,
}

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It does.
    #[default]
    Here,
    /// It has left, until [`super::LendingInput::Join`].
    Away,
}

/// Which members a node has control connections with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// Each with each, at all times. There is no leader: borrowers look at what all lenders report.
    #[default]
    FullMesh,
    /// With the leader, and with those that a node has a lease with or asks.
    OnDemand(OnDemandSettings),
}

impl Topology {
    /// The most members beside a node.
    pub fn members_max(&self) -> usize {
        match self {
            Topology::FullMesh => PEERS_MAX,
            Topology::OnDemand(_) => MEMBERS_MAX,
        }
    }
}

/// How a node finds lenders without a connection with each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDemandSettings {
    /// Who leads.
    pub leader: LeaderNaming,
    /// How this node chooses lenders for others while it leads.
    pub placement: PlacementChoice,
    /// Where this node stands, as it tells the leader.
    pub rack: Option<RackName>,
    /// A random number of this run. All draws come from it.
    pub seed: u64,
}

/// Who says who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderNaming {
    /// Nobody leads. Borrowers ask two random members.
    Nobody,
    /// The settings of each node: `peers.leader`. Terms are those of one run of the leader.
    Fixed(NodeName),
    /// An election, whose outcome comes by [`super::LendingInput::Leader`]. Terms rise for ever.
    Elected,
}

/// What a node is told at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// The versions that it speaks: [`crate::control::VERSION_RANGE`].
    pub versions: VersionRange,
    /// Its cluster.
    pub cluster: ClusterName,
    /// Its name.
    pub node: NodeName,
    /// A random number of this run.
    pub incarnation: Incarnation,
    /// Where it listens.
    pub addresses: Addresses,
    /// The others.
    pub members: Vec<MemberSettings>,
    /// How much it lends.
    pub limits: LendLimits,
    /// The most blocks that it borrows: `borrow.max`.
    pub borrow_max: u32,
    /// The notice of a drain that was in force when the last run ended.
    pub drain: Option<Duration>,
    /// Whether it takes part from the start.
    pub presence: Presence,
    /// Which members it has connections with.
    pub topology: Topology,
}

/// Why a node cannot start with its members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeSettingsError {
    /// There are too many.
    #[error("{members} members; {most} are the most")]
    Many {
        /// How many.
        members: usize,
        /// How many there may be.
        most: usize,
    },
    /// A name is there twice.
    #[error("the member {name} is named twice; name it once")]
    Twice {
        /// The name.
        name: NodeName,
    },
    /// The node itself is among them.
    #[error("{name} is this node's own name; take it out of the members")]
    Own {
        /// The name.
        name: NodeName,
    },
}

impl NodeSettings {
    /// Checks the list of members. The error names the member that is wrong.
    pub(super) fn check(&self) -> Result<(), NodeSettingsError> {
        let members = self.members.len();
        let most = self.topology.members_max();
        if members > most {
            return Err(NodeSettingsError::Many { members, most });
        }
        let mut names = BTreeSet::new();
        for member in &self.members {
            let name = member.name.clone();
            if name == self.node {
                return Err(NodeSettingsError::Own { name });
            }
            if !names.insert(&member.name) {
                return Err(NodeSettingsError::Twice { name });
            }
        }
        Ok(())
    }
}
