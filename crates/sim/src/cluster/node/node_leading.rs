//! What a node keeps about who leads: its place in etcd, and what the judge is to know.

use std::time::Duration;

use super::etcd_member::EtcdMember;
use super::leader_watch::{LeaderWatch, TermOrder};
use crate::cluster::ids::NodeNumber;
use crate::cluster::leadership::Leadership;
use crate::cluster::leadership_plan::LeadershipPlan;

/// The node's part in who leads.
pub(super) struct NodeLeading {
    pub(super) member: Option<EtcdMember>,
    pub(super) watch: Option<LeaderWatch>,
    /// The leader before this one, until it reports. Only a run waits for it that leaves that rule out.
    pub(super) predecessor: Option<NodeNumber>,
    pub(super) planned_at: Duration,
}

impl NodeLeading {
    /// The part of a node by a run's plan.
    pub(super) fn new(plan: &LeadershipPlan, member: impl FnOnce() -> EtcdMember) -> NodeLeading {
        let watch = match plan.leadership {
            Leadership::Mesh => None,
            Leadership::Nobody => Some((None, TermOrder::OfOneRun)),
            Leadership::Static => Some((Some(plan.named), TermOrder::OfOneRun)),
            Leadership::Etcd => Some((None, TermOrder::Rising)),
        };
        NodeLeading {
            member: (plan.leadership == Leadership::Etcd).then(member),
            watch: watch.map(|(leader, order)| LeaderWatch::new(leader, order)),
            predecessor: None,
            planned_at: Duration::ZERO,
        }
    }
}
