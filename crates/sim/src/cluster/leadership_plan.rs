//! Who leads in one run, and how a leader chooses lenders: what the plan says, and what the seed draws.

use sublet_lend::node::{LeaderNaming, OnDemandSettings, Topology};
use sublet_policy::placement::PlacementChoice;
use sublet_policy::placement::catalogue::PLACEMENTS;

use super::ids::NodeNumber;
use super::leadership::Leadership;
use super::mutation::Mutation;
use super::plan::{ClusterPlan, MESH_NODES_MAX};
use crate::rng::SimRng;

/// The part of a run that draws who leads.
const LEADERSHIP_PART: u64 = 2 << 32;

/// Who leads in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeadershipPlan {
    pub(super) leadership: Leadership,
    /// Whom settings name, if they name one.
    pub(super) named: NodeNumber,
    pub(super) placement: PlacementChoice,
}

impl LeadershipPlan {
    /// What a run's plan says. The seed draws the rest, among what shows the rule that is left out.
    pub(super) fn of(plan: &ClusterPlan, seed: u64, mutation: Option<Mutation>) -> LeadershipPlan {
        let mut luck = SimRng::of_part(seed, LEADERSHIP_PART);
        let ways = mutation.map_or(&Leadership::ALL[..], Mutation::shows_with);
        let may_mesh =
            |way: &&Leadership| **way != Leadership::Mesh || plan.nodes <= MESH_NODES_MAX;
        let ways: Vec<&Leadership> = ways.iter().filter(may_mesh).collect();
        let drawn = ways.get(luck.below(ways.len().max(1) as u64) as usize);
        let drawn = drawn.map_or(Leadership::Nobody, |way| **way);
        let policy = luck.below(PLACEMENTS.len() as u64) as usize;
        let named = NodeNumber(luck.below(plan.nodes.into()) as u16);
        let policy = plan.placement.unwrap_or(PLACEMENTS[policy].policy);
        let entry = PLACEMENTS.iter().find(|entry| entry.policy == policy);
        let placement = entry.map(|entry| PlacementChoice::new(entry.name, []));
        LeadershipPlan {
            leadership: plan.leadership.unwrap_or(drawn),
            named,
            placement: placement.and_then(Result::ok).unwrap_or_default(),
        }
    }

    /// How a node finds lenders. All its draws come from a random number.
    pub(super) fn topology(&self, seed: u64) -> Topology {
        let leader = match self.leadership {
            Leadership::Mesh => return Topology::FullMesh,
            Leadership::Nobody => LeaderNaming::Nobody,
            Leadership::Static => LeaderNaming::Fixed(self.named.name()),
            Leadership::Etcd => LeaderNaming::Elected,
        };
        Topology::OnDemand(OnDemandSettings {
            leader,
            placement: self.placement.clone(),
            rack: None,
            seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_draw_every_way_and_every_policy_and_large_clusters_no_mesh() {
        let drawn = |nodes| {
            let plan = ClusterPlan::of(nodes);
            let of = |seed| LeadershipPlan::of(&plan, seed, None);
            let drawn = (0..200).map(of);
            let drawn = drawn.map(|drawn| (drawn.leadership, drawn.placement.policy()));
            drawn.collect::<BTreeSet<_>>()
        };
        assert_eq!(drawn(5).len(), Leadership::ALL.len() * PLACEMENTS.len());
        let ways: BTreeSet<Leadership> = drawn(300).into_iter().map(|(way, _)| way).collect();
        assert_eq!(ways.len(), Leadership::ALL.len() - 1);
    }
}
