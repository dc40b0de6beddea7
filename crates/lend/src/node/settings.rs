//! What a node is told at its start.

use std::time::Duration;

use crate::control::{Addresses, VersionRange};
use crate::ids::{ClusterName, Incarnation, NodeName};
use crate::lender::LendLimits;

/// The most members beside this node.
pub const PEERS_MAX: usize = 256;

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
}

/// Why a node cannot start with its members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeSettingsError {
    /// There are too many.
    #[error("{members} members; {PEERS_MAX} are the most")]
    Many {
        /// How many.
        members: usize,
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
        if members > PEERS_MAX {
            return Err(NodeSettingsError::Many { members });
        }
        for (n, member) in self.members.iter().enumerate() {
            let name = member.name.clone();
            if name == self.node {
                return Err(NodeSettingsError::Own { name });
            }
            if self.members[..n].iter().any(|other| other.name == name) {
                return Err(NodeSettingsError::Twice { name });
            }
        }
        Ok(())
    }
}
