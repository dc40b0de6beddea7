//! What a leader keeps about one node.

use std::time::Duration;

use sublet_policy::placement::{NodeNumber, NodeReport, RackNumber};

use super::cluster_status::{ClusterNodeState, ClusterNodeStatus};
use crate::control::ClusterReport;
use crate::ids::{NodeName, RackName};

/// Blocks by the number of the other node, rising.
pub(super) type Pairs = Vec<(NodeNumber, u32)>;

/// The blocks of a node, 0 if it is not named.
pub(super) fn blocks_of(pairs: &[(NodeNumber, u32)], node: NodeNumber) -> u32 {
    let found = pairs.binary_search_by_key(&node, |(node, _)| *node);
    found.map_or(0, |place| pairs[place].1)
}

/// The blocks of all nodes.
fn all_blocks(pairs: &[(NodeNumber, u32)]) -> u32 {
    let blocks = pairs.iter().map(|(_, blocks)| *blocks);
    blocks.fold(0, u32::saturating_add)
}

/// What a leader keeps about one node.
#[derive(Debug)]
pub(super) struct LedgerNode {
    pub(super) name: NodeName,
    pub(super) state: ClusterNodeState,
    /// Since when it is in its state.
    pub(super) since: Duration,
    /// When it reported last.
    pub(super) heard_at: Duration,
    pub(super) rack: Option<RackNumber>,
    /// The last report, without its pairs.
    pub(super) report: ClusterReport,
    pub(super) lent: Pairs,
    pub(super) borrowed: Pairs,
}

impl LedgerNode {
    pub(super) fn new(now: Duration, name: NodeName) -> LedgerNode {
        LedgerNode {
            name,
            state: ClusterNodeState::Expected,
            since: now,
            heard_at: now,
            rack: None,
            report: ClusterReport::default(),
            lent: Pairs::new(),
            borrowed: Pairs::new(),
        }
    }

    /// What it said holds no more.
    pub(super) fn forget_report(&mut self) {
        self.report = ClusterReport {
            rack: self.report.rack.take(),
            ..ClusterReport::default()
        };
        self.lent = Pairs::new();
        self.borrowed = Pairs::new();
    }

    /// What placement needs of it.
    pub(super) fn placed(&self, node: NodeNumber) -> NodeReport {
        NodeReport {
            node,
            rack: self.rack,
            lendable: self.report.lendable.get(),
            wanted: self.report.wanted.get(),
            borrowed: all_blocks(&self.borrowed),
        }
    }

    pub(super) fn status(&self) -> ClusterNodeStatus {
        let rack: Option<&RackName> = self.report.rack.as_ref();
        ClusterNodeStatus {
            name: self.name.clone(),
            state: self.state,
            since: self.since,
            rack: rack.cloned(),
            total: self.report.total.get(),
            free: self.report.free.get(),
            lendable: self.report.lendable.get(),
            wanted: self.report.wanted.get(),
            lent: all_blocks(&self.lent),
            borrowed: all_blocks(&self.borrowed),
        }
    }
}
