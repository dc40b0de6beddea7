//! What all parts of a node share: who it is, its clock, its memory, its sessions and its routes.

use std::collections::BTreeMap;

use sublet_lend::ids::{Incarnation, PeerId, SessionId};
use sublet_types::Second;

use super::clock::NodeClock;
use super::memory::NodeMemory;
use super::routes::LeaseRoutes;
use crate::cluster::ids::{NodeNumber, NodeRun};
use crate::virtual_time::VirtualInstant;

/// A session with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct PeerSession {
    /// This node's number of it.
    pub(in crate::cluster) ours: SessionId,
    /// The peer's number of it.
    pub(in crate::cluster) theirs: SessionId,
    /// The peer's run, as this node knows it.
    pub(in crate::cluster) incarnation: Incarnation,
    /// The peer's run, as the network knows it.
    pub(in crate::cluster) peer_run: NodeRun,
}

/// What all parts of a node share.
pub(in crate::cluster) struct NodeState {
    pub(in crate::cluster) run: NodeRun,
    pub(in crate::cluster) incarnation: Incarnation,
    pub(in crate::cluster) clock: NodeClock,
    /// The node does nothing before this time.
    pub(in crate::cluster) stopped_until: VirtualInstant,
    pub(in crate::cluster) memory: NodeMemory,
    pub(in crate::cluster) sessions: BTreeMap<PeerId, PeerSession>,
    pub(in crate::cluster) routes: LeaseRoutes,
}

impl NodeState {
    /// The node.
    pub(in crate::cluster) fn node(&self) -> NodeNumber {
        self.run.node
    }

    /// The second that the node's clock shows.
    pub(in crate::cluster) fn second(&self, now: VirtualInstant) -> Second {
        Second(self.clock.local(now).as_secs() as u32 + 1)
    }

    /// The node at a place of the list of members.
    pub(in crate::cluster) fn member(&self, peer: PeerId) -> NodeNumber {
        self.node().member(peer)
    }
}
