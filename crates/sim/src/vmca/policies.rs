//! How memory is divided inside a node and between nodes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};
use sublet_lend::wanted::WantedMeter;
use sublet_policy::placement::PlacementChoice;

use super::scale::VmcaScale;
use super::wish::NodeWish;
use crate::scenario::PolicySpec;

/// A policy for a node and one between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VmcaPolicy {
    /// No limits in a node, and no remote memory.
    GreedyLocal,
    /// No limits in a node, and 1000 pages a second while it lacks memory.
    GreedyRemote,
    /// Algorithm 2 in a node, with this P in percent, and Algorithm 3 between nodes (*TLP*).
    TwoLevel(StepPercent),
    /// The daemon's own: no limits in a node, and what its own memory had no room for of late from several lenders.
    Spread,
    /// As `Spread` between nodes. In a node there are Algorithm 2's targets, which do not say what it asks for.
    SpreadWithTargets,
}

/// TLP's P: the step of a target, in hundredths of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepPercent(pub(super) u8);

/// P where targets stand beside `spread`: the default of the daemon's `smart-alloc`.
const TARGET_STEP: StepPercent = StepPercent(2);

/// Unused pages that Algorithm 2 tolerates in a target.
const THRESHOLD: u64 = 512;

impl VmcaPolicy {
    /// All of them, the yard-stick first.
    pub const ALL: [VmcaPolicy; 8] = [
        VmcaPolicy::GreedyLocal,
        VmcaPolicy::GreedyRemote,
        VmcaPolicy::TwoLevel(StepPercent(1)),
        VmcaPolicy::TwoLevel(StepPercent(2)),
        VmcaPolicy::TwoLevel(StepPercent(4)),
        VmcaPolicy::TwoLevel(StepPercent(6)),
        VmcaPolicy::Spread,
        VmcaPolicy::SpreadWithTargets,
    ];

    /// Those of the paper with two levels.
    pub(super) fn two_level() -> impl Iterator<Item = VmcaPolicy> {
        let is_it = |policy: &VmcaPolicy| matches!(policy, VmcaPolicy::TwoLevel(_));
        VmcaPolicy::ALL.into_iter().filter(is_it)
    }

    /// Our own.
    pub(super) const OURS: [VmcaPolicy; 2] = [VmcaPolicy::Spread, VmcaPolicy::SpreadWithTargets];

    /// The policy inside a node.
    pub(super) fn in_a_node(self, scale: VmcaScale) -> PolicySpec {
        let (name, StepPercent(percent)) = match self {
            VmcaPolicy::TwoLevel(step) => ("two-level", step),
            VmcaPolicy::SpreadWithTargets => ("smart-alloc", TARGET_STEP),
            _ => return PolicySpec::default(),
        };
        let threshold = (THRESHOLD / scale.factor()) as i64;
        let knobs = [("p", i64::from(percent)), ("threshold", threshold)];
        let knob = |(name, value): (&str, i64)| (name.to_owned(), toml::Value::Integer(value));
        PolicySpec {
            name: name.to_owned(),
            knobs: knobs.into_iter().map(knob).collect::<BTreeMap<_, _>>(),
            ..PolicySpec::default()
        }
    }

    /// The policy between nodes, if memory moves between them.
    pub(super) fn between_nodes(self) -> Option<PlacementChoice> {
        let name = match self {
            VmcaPolicy::GreedyLocal => return None,
            VmcaPolicy::GreedyRemote => "greedy-remote",
            VmcaPolicy::TwoLevel(_) => "two-level",
            VmcaPolicy::Spread | VmcaPolicy::SpreadWithTargets => "spread",
        };
        let choice = PlacementChoice::new(name, []);
        Some(choice.expect("it is of the catalogue"))
    }

    /// How a node knows what it wants of others.
    pub(super) fn wish(self) -> NodeWish {
        match self {
            VmcaPolicy::GreedyLocal => NodeWish::Nothing,
            VmcaPolicy::GreedyRemote => NodeWish::Request { refused_before: 0 },
            VmcaPolicy::TwoLevel(_) => NodeWish::Targets,
            VmcaPolicy::Spread | VmcaPolicy::SpreadWithTargets => {
                NodeWish::Overflow(WantedMeter::default())
            }
        }
    }
}

/// `greedy-local`, `tlp-2`, `spread`: the paper's names where it has one.
impl fmt::Display for VmcaPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VmcaPolicy::GreedyLocal => f.pad("greedy-local"),
            VmcaPolicy::GreedyRemote => f.pad("greedy-remote"),
            VmcaPolicy::TwoLevel(StepPercent(percent)) => f.pad(&format!("tlp-{percent}")),
            VmcaPolicy::Spread => f.pad("spread"),
            VmcaPolicy::SpreadWithTargets => f.pad("spread+targets"),
        }
    }
}

impl Serialize for VmcaPolicy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_of_the_catalogues() {
        for policy in VmcaPolicy::ALL {
            let scale = VmcaScale::default();
            let in_a_node = policy.in_a_node(scale);
            assert!(in_a_node.choice().is_ok(), "{policy}");
            let moves = policy.between_nodes().is_some();
            assert_eq!(moves, policy != VmcaPolicy::GreedyLocal);
        }
        assert_eq!(VmcaPolicy::two_level().count(), 4);
        assert_eq!(VmcaPolicy::ALL[3].to_string(), "tlp-2");
        let label = VmcaPolicy::ALL[3].in_a_node(VmcaScale::default()).label();
        assert_eq!(label, "two-level p=2 threshold=64");
    }
}
