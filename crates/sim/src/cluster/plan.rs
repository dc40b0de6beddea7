//! What a run is made of: nodes, guests, faults and times.

use sublet_policy::placement::PlacementPolicy;

use super::leadership::Leadership;
use super::network::NetworkSpeed;
use super::node::GuestHabits;
use crate::virtual_time::VirtualDuration;

/// The most nodes of a cluster. With connections on demand, the memory of this machine is the bound.
pub const NODES_MAX: u16 = 2_000;

/// The most nodes of a cluster in which each has a connection with each.
pub const MESH_NODES_MAX: u16 = sublet_lend::node::PEERS_MAX as u16 + 1;

/// Which faults a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultScope {
    /// Any.
    #[default]
    Everything,
    /// Those of etcd alone. Nodes, hosts and links are well.
    EtcdAlone,
}

/// What a run is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterPlan {
    /// The nodes: 2 to [`NODES_MAX`].
    pub nodes: u16,
    /// Who leads. `None`: the seed draws it.
    pub leadership: Option<Leadership>,
    /// How a leader chooses lenders. `None`: the seed draws it.
    pub placement: Option<PlacementPolicy>,
    /// Which faults there are.
    pub faults: FaultScope,
    /// How long there are faults.
    pub faults_for: VirtualDuration,
    /// How long guests go on after everything has healed.
    pub heals_for: VirtualDuration,
    /// How long all is quiet then, before the judges look.
    pub quiet_for: VirtualDuration,
    /// How long nodes have to give everything back whose pages are flushed then, before the judges look a last time.
    pub empties_for: VirtualDuration,
    /// The network between the nodes.
    pub speed: NetworkSpeed,
}

impl ClusterPlan {
    /// The plan for so many nodes: 30 s of faults, 30 s to converge, and 6 s to give everything back.
    pub fn of(nodes: u16) -> ClusterPlan {
        ClusterPlan {
            nodes,
            leadership: None,
            placement: None,
            faults: FaultScope::default(),
            faults_for: VirtualDuration::secs(30),
            heals_for: VirtualDuration::secs(15),
            quiet_for: VirtualDuration::secs(15),
            empties_for: VirtualDuration::secs(6),
            speed: NetworkSpeed::default(),
        }
    }

    /// When everything heals.
    pub(super) fn heals_after(&self) -> VirtualDuration {
        self.faults_for
    }

    /// When guests stop.
    pub(super) fn quiet_after(&self) -> VirtualDuration {
        self.faults_for + self.heals_for
    }

    /// When guests flush everything.
    pub(super) fn empties_after(&self) -> VirtualDuration {
        self.quiet_after() + self.quiet_for
    }

    /// When the run is over.
    pub(super) fn ends_after(&self) -> VirtualDuration {
        self.empties_after() + self.empties_for
    }
}

/// Pages of each pool that a guest can name.
pub(super) const GUEST_PAGES: u32 = 256;

/// What a node is in the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeRole {
    /// It has little memory, and its guest is busy.
    Hungry,
    /// It has much memory, and its guest does little.
    Idle,
}

impl NodeRole {
    /// The blocks that the host lets it have: at least, and so many more by chance.
    pub(super) fn own_blocks(self) -> (u64, u64) {
        match self {
            NodeRole::Hungry => (8, 12),
            NodeRole::Idle => (24, 24),
        }
    }

    /// The blocks that it wishes to borrow: at least, and so many more by chance.
    pub(super) fn wish(self) -> (u64, u64) {
        match self {
            NodeRole::Hungry => (4, 20),
            NodeRole::Idle => (0, 0),
        }
    }

    /// How busy its guest is.
    pub(super) fn habits(self) -> GuestHabits {
        let (pages, millis) = match self {
            NodeRole::Hungry => (GUEST_PAGES, 9),
            NodeRole::Idle => (24, 60),
        };
        GuestHabits {
            pages,
            think: VirtualDuration::micros(1000 * millis),
        }
    }
}

/// The most blocks that a node borrows.
pub(super) const FAR_BLOCKS_MAX: u32 = 32;
