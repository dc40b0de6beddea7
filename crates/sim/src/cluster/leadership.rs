//! Who leads the nodes of a run, and how a leader chooses lenders.

use std::fmt;
use std::str::FromStr;

use sublet_lend::node::{LeaderNaming, OnDemandSettings, Topology};
use sublet_policy::placement::PlacementChoice;
use sublet_policy::placement::catalogue::PLACEMENTS;

use super::ids::NodeNumber;
use super::mutation::Mutation;
use super::plan::{ClusterPlan, MESH_NODES_MAX};
use crate::rng::SimRng;

/// The part of a run that draws who leads.
const LEADERSHIP_PART: u64 = 2 << 32;

/// Who leads the nodes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leadership {
    /// Each node has a connection with each, and nobody leads.
    Mesh,
    /// Nodes have connections on demand, and nobody leads.
    Nobody,
    /// The settings of each node name one.
    Static,
    /// An election through etcd, which keeps the members, too.
    Etcd,
}

/// A word that names no way to lead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} says not who leads; say mesh, none, static or etcd")]
pub struct UnknownLeadership {
    word: String,
}

impl Leadership {
    /// Every way.
    pub const ALL: [Leadership; 4] = [
        Leadership::Mesh,
        Leadership::Nobody,
        Leadership::Static,
        Leadership::Etcd,
    ];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Leadership::Mesh => "mesh",
            Leadership::Nobody => "none",
            Leadership::Static => "static",
            Leadership::Etcd => "etcd",
        }
    }

    /// Returns whether some node is to lead.
    pub fn has_leader(self) -> bool {
        matches!(self, Leadership::Static | Leadership::Etcd)
    }
}

impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Leadership {
    type Err = UnknownLeadership;

    fn from_str(word: &str) -> Result<Leadership, UnknownLeadership> {
        let found = Leadership::ALL.into_iter().find(|way| way.name() == word);
        found.ok_or_else(|| UnknownLeadership {
            word: word.to_owned(),
        })
    }
}

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

    #[test]
    fn the_word_of_a_way_names_it() {
        for way in Leadership::ALL {
            assert_eq!(way.name().parse(), Ok(way));
        }
        assert!("etc".parse::<Leadership>().is_err());
    }
}
