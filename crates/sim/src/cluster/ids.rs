//! The nodes of a simulated cluster, and their runs.

use std::fmt;

use serde::Serialize;
use sublet_lend::ids::{Incarnation, NodeName, PeerId};

use crate::rng::mixed;

/// A node, by its number in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct NodeNumber(pub u16);

impl NodeNumber {
    /// Its place in tables of nodes.
    pub(super) fn slot(self) -> usize {
        usize::from(self.0)
    }

    /// Its name. Names are in the order of the numbers.
    pub(super) fn name(self) -> NodeName {
        let name = format!("n{:05}", self.0);
        name.parse().expect("letters and digits are a name")
    }

    /// The node of a name.
    pub(super) fn named(name: &NodeName) -> Option<NodeNumber> {
        let number = name.as_str().strip_prefix('n')?;
        number.parse().ok().map(NodeNumber)
    }

    /// The place of another node in this node's list of members, which leaves out itself.
    pub(super) fn peer(self, other: NodeNumber) -> PeerId {
        PeerId(other.0 - u16::from(other > self))
    }

    /// The node at a place of this node's list of members.
    pub(super) fn member(self, peer: PeerId) -> NodeNumber {
        NodeNumber(peer.0 + u16::from(peer.0 >= self.0))
    }
}

impl fmt::Display for NodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// One run of a node, from its start to its crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRun {
    /// The node.
    pub node: NodeNumber,
    /// How many runs it had before.
    pub run: u32,
}

impl NodeRun {
    /// The number that the node draws at the start of the run.
    pub(super) fn incarnation(self, seed: u64) -> Incarnation {
        let run = u64::from(self.node.0) << 32 | u64::from(self.run);
        Incarnation(mixed(mixed(seed).wrapping_add(run)))
    }
}

impl fmt::Display for NodeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_members_leave_out_the_node_itself() {
        let nodes = (0..5).map(NodeNumber);
        for node in nodes.clone() {
            let others: Vec<NodeNumber> = nodes.clone().filter(|other| *other != node).collect();
            let places = (0..4).map(PeerId).map(|peer| node.member(peer));
            assert!(places.eq(others.iter().copied()));
            assert!(others.iter().map(|other| node.peer(*other).0).eq(0..4));
        }
    }

    #[test]
    fn names_are_in_the_order_of_numbers() {
        let names: Vec<NodeName> = (0..1100).map(|n| NodeNumber(n).name()).collect();
        assert!(names.is_sorted());
        let numbers = names.iter().map(NodeNumber::named);
        assert!(numbers.eq((0..1100).map(|n| Some(NodeNumber(n)))));
    }
}
