//! What the ledger shows: to this node's owner, and in parts to other nodes. A few nodes cost no look at the others.

use std::ops::Bound;
use std::time::Duration;

use super::cluster_status::{ClusterNodeState, ClusterNodeStatus, ClusterStatus, GivenAdvice};
use super::ledger::Ledger;
use super::ledger_node::LedgerNode;
use super::pair_books::PairMismatch;
use crate::ids::NodeName;

/// A node that is gone is shown for so long.
pub const GONE_SHOWN_FOR: Duration = Duration::from_secs(86_400);

impl Ledger {
    /// What the policy would advise now. Nothing is sent.
    pub fn plan(&self, now: Duration) -> Vec<GivenAdvice> {
        let draw = self.draws.clone().bits();
        let advice = self.placed(draw);
        advice.iter().map(|one| self.named(now, one)).collect()
    }

    /// The nodes after a name, or the first ones, by name. Nodes that are gone for more than a day are left out.
    pub fn nodes_after(
        &self,
        now: Duration,
        after: Option<&NodeName>,
    ) -> impl Iterator<Item = ClusterNodeStatus> {
        let is_shown = move |node: &&LedgerNode| {
            node.state != ClusterNodeState::Gone || now.saturating_sub(node.since) < GONE_SHOWN_FOR
        };
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let named = self.by_name.range::<NodeName, _>((after, Bound::Unbounded));
        let nodes = named.map(|(_, number)| self.node(*number));
        nodes.filter(is_shown).map(LedgerNode::status)
    }

    /// The latest advice, the oldest first.
    pub fn given_advice(&self) -> impl ExactSizeIterator<Item = &GivenAdvice> {
        self.given.iter()
    }

    /// Pairs whose counts have differed for too long.
    pub fn alarms(&self, now: Duration) -> impl Iterator<Item = PairMismatch> {
        self.books.alarms(now).map(|(pair, mismatch)| PairMismatch {
            lender: self.node(pair.lender).name.clone(),
            borrower: self.node(pair.borrower).name.clone(),
            lent: mismatch.lent,
            borrowed: mismatch.borrowed,
            since: mismatch.since,
        })
    }

    /// How the cluster stands. Nodes that are gone for more than a day are left out.
    pub fn status(&self, now: Duration) -> ClusterStatus {
        ClusterStatus {
            term: self.settings.term,
            since: self.began,
            nodes: self.nodes_after(now, None).collect(),
            advice: self.given_advice().cloned().collect(),
            alarms: self.alarms(now).collect(),
        }
    }
}
