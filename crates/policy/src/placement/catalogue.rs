//! The only table of all placement policies and their knobs. Settings, docs and the simulator are made from it.
//!
//! To add a policy, add a file beside the others, its variant here, and a row.

use std::fmt;

use super::spread::SpreadLimits;
use crate::catalogue::{KnobUnit, PolicyChoiceError, PolicyKnobSpec, nearest, read_pairs};

/// How a leader chooses lenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacementPolicy {
    /// Two blocks a request, of the node that can lend most.
    GreedyRemote,
    /// vMCA's Algorithm 3.
    TwoLevel,
    /// Algorithm 3's order, a part from each.
    Spread,
    /// The freer of two that are drawn.
    TwoChoices,
}

/// A placement policy: its name, its effect, its origin and its knobs.
#[derive(Debug)]
pub struct PlacementEntry {
    /// Which it is.
    pub policy: PlacementPolicy,
    /// Its name as it is written.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// Its knobs.
    pub knobs: &'static [PolicyKnobSpec],
}

/// The policy if nothing is said.
pub const DEFAULT_PLACEMENT: &str = "spread";

const BLOCKS_MOST: f64 = (1u32 << 20) as f64;

const RESERVE: PolicyKnobSpec = PolicyKnobSpec {
    name: "reserve",
    unit: KnobUnit::Blocks,
    default: 0.0,
    least: 0.0,
    most: BLOCKS_MOST,
    why: "what a node reports as lendable leaves out its own reserve already",
    help: "R: a lender keeps this much of what it can lend",
};

const REQUEST: PolicyKnobSpec = PolicyKnobSpec {
    name: "request",
    unit: KnobUnit::Blocks,
    default: 2.0,
    least: 1.0,
    most: BLOCKS_MOST,
    why: "vMCA's 1000 pages are two blocks",
    help: "A borrower gets this much a second at most",
};

const FROM_ONE: PolicyKnobSpec = PolicyKnobSpec {
    name: "from-one",
    unit: KnobUnit::Blocks,
    default: 20.0,
    least: 1.0,
    most: BLOCKS_MOST,
    why: "40 MiB: less is not worth a connection of its own",
    help: "This much may come from one lender, however little is wanted in all",
};

const PART: PolicyKnobSpec = PolicyKnobSpec {
    name: "part",
    unit: KnobUnit::Percent,
    default: 25.0,
    least: 1.0,
    most: 100.0,
    why: "in the model 31 % of a borrower's far memory are then at one lender, not 70 %, and no more blocks are recalled",
    help: "This part of what a borrower has and wants may come from one lender, while others can lend",
};

/// All placement policies, the simplest first.
pub static PLACEMENTS: [PlacementEntry; 4] = [
    PlacementEntry {
        policy: PlacementPolicy::GreedyRemote,
        name: "greedy-remote",
        summary: "two blocks a second for each borrower, of the node that can lend most",
        paper: "vMCA §III-D",
        knobs: &[RESERVE, REQUEST],
    },
    PlacementEntry {
        policy: PlacementPolicy::TwoLevel,
        name: "two-level",
        summary: "all that is wanted, of the node that can lend most",
        paper: "vMCA, Algorithm 3 as printed",
        knobs: &[RESERVE],
    },
    PlacementEntry {
        policy: PlacementPolicy::Spread,
        name: "spread",
        summary: "of a lender a quarter of what is had and wanted, near ones first; when it is scarce, each gets up to a level",
        paper: "Sublet's own, after vMCA's Algorithm 3",
        knobs: &[RESERVE, FROM_ONE, PART],
    },
    PlacementEntry {
        policy: PlacementPolicy::TwoChoices,
        name: "two-choices",
        summary: "of two lenders that are drawn, the freer one",
        paper: "Mitzenmacher, The Power of Two Choices (TPDS 2001)",
        knobs: &[RESERVE],
    },
];

/// A placement policy of the catalogue with its knobs set.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementChoice {
    policy: PlacementPolicy,
    /// The knobs that were set, by name. All values are finite.
    values: Vec<(&'static str, f64)>,
}

impl Eq for PlacementChoice {}

/// Why a choice was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlacementChoiceError {
    /// No policy has this name.
    #[error("no placement policy is called {name:?}{}", suggestion(nearest))]
    UnknownPolicy {
        /// What was written.
        name: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// A knob is wrong.
    #[error(transparent)]
    Knob(#[from] PolicyChoiceError),
}

/// The policy with this name.
pub fn find(name: &str) -> Result<&'static PlacementEntry, PlacementChoiceError> {
    let unknown = || PlacementChoiceError::UnknownPolicy {
        name: name.to_owned(),
        nearest: nearest(name, PLACEMENTS.iter().map(|entry| entry.name)),
    };
    PLACEMENTS
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(unknown)
}

impl Default for PlacementChoice {
    fn default() -> PlacementChoice {
        PlacementChoice {
            policy: PlacementPolicy::Spread,
            values: Vec::new(),
        }
    }
}

/// `spread part=50`: the policy with those of its knobs that are not as the catalogue has them.
impl fmt::Display for PlacementChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().name)?;
        let set = self.values().filter(|(knob, value)| knob.default != *value);
        for (knob, value) in set {
            write!(f, " {}={value}", knob.name)?;
        }
        Ok(())
    }
}

impl PlacementChoice {
    /// Chooses the policy with this name, and sets these knobs. The error says which is wrong.
    pub fn new<'a>(
        name: &str,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<PlacementChoice, PlacementChoiceError> {
        let entry = find(name)?;
        Ok(PlacementChoice {
            policy: entry.policy,
            values: read_pairs(entry.name, entry.knobs, pairs)?,
        })
    }

    /// The chosen policy.
    pub fn policy(&self) -> PlacementPolicy {
        self.policy
    }

    /// The chosen policy's row of the catalogue.
    pub fn entry(&self) -> &'static PlacementEntry {
        let is_it = |entry: &&PlacementEntry| entry.policy == self.policy;
        PLACEMENTS
            .iter()
            .find(is_it)
            .expect("each policy has a row")
    }

    /// Every knob with its value, whether it was set or not.
    pub fn values(&self) -> impl Iterator<Item = (&'static PolicyKnobSpec, f64)> + '_ {
        let knobs = self.entry().knobs.iter();
        knobs.map(|knob| (knob, self.value(knob)))
    }

    fn value(&self, knob: &PolicyKnobSpec) -> f64 {
        let set = self.values.iter().find(|(name, _)| *name == knob.name);
        set.map_or(knob.default, |(_, value)| *value)
    }

    pub(super) fn reserve(&self) -> u32 {
        self.value(&RESERVE) as u32
    }

    pub(super) fn request(&self) -> u32 {
        self.value(&REQUEST) as u32
    }

    pub(super) fn spread_limits(&self) -> SpreadLimits {
        SpreadLimits {
            blocks: self.value(&FROM_ONE) as u32,
            percent: self.value(&PART),
        }
    }
}

/// The policy that was probably meant, or all of them.
fn suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean {nearest}?"),
        None => {
            let names: Vec<&str> = PLACEMENTS.iter().map(|entry| entry.name).collect();
            format!(": there are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str, pairs: &[(&str, &str)]) -> String {
        let choice = PlacementChoice::new(name, pairs.iter().copied());
        choice.expect_err("it is wrong").to_string()
    }

    #[test]
    fn names_and_policies_differ_and_defaults_are_allowed_and_explained() {
        for (n, entry) in PLACEMENTS.iter().enumerate() {
            let before = &PLACEMENTS[..n];
            assert!(before.iter().all(|other| other.name != entry.name));
            assert!(before.iter().all(|other| other.policy != entry.policy));
            assert!(!entry.summary.is_empty() && !entry.paper.is_empty());
            for knob in entry.knobs {
                let default = knob.default.to_string();
                let choice = PlacementChoice::new(entry.name, [(knob.name, &*default)]);
                assert_eq!(choice.expect("the default").value(knob), knob.default);
                assert!(!knob.why.is_empty() && !knob.help.is_empty());
            }
        }
        assert_eq!(PlacementChoice::default().entry().name, DEFAULT_PLACEMENT);
    }

    #[test]
    fn set_knobs_count_and_errors_name_the_remedy() {
        let choice = PlacementChoice::new("spread", [("part", "50"), ("FROM-ONE", "4")])
            .expect("it is right");
        let values: Vec<(&str, f64)> = choice
            .values()
            .map(|(knob, value)| (knob.name, value))
            .collect();
        assert_eq!(
            values,
            [("reserve", 0.0), ("from-one", 4.0), ("part", 50.0)]
        );
        assert_eq!(
            error("spred", &[]),
            "no placement policy is called \"spred\"; did you mean spread?"
        );
        assert_eq!(
            error("bananas", &[]),
            "no placement policy is called \"bananas\": there are greedy-remote, two-level, spread, two-choices"
        );
        assert!(error("spread", &[("prat", "1")]).contains("did you mean part?"));
        assert!(error("spread", &[("part", "0")]).contains("goes from 1 to 100"));
        assert!(error("spread", &[("from-one", "2.5")]).contains("whole number"));
        assert!(error("two-level", &[("reserve", "1"), ("reserve", "2")]).contains("set twice"));
    }
}
