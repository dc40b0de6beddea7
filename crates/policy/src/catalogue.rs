//! The only table of all policies and their knobs. The command line, the config, the docs and the simulator are made
//! from it.
//!
//! To add a policy, add a file beside the others and a row here.

mod reference;

use std::fmt;

use sublet_types::Pages;

pub use self::reference::reference;
use crate::decide::Policy;
use crate::greedy::GreedyPolicy;
use crate::mrc::MrcPolicy;
use crate::pooled::PooledPolicy;
use crate::reconf_static::ReconfStaticPolicy;
use crate::smart_alloc::SmartAllocPolicy;
use crate::static_alloc::StaticAllocPolicy;
use crate::two_level::TwoLevelPolicy;
use crate::utility::UtilityPolicy;
use crate::weights::WeightsPolicy;

/// A policy: its name, its effect, its origin and its knobs.
#[derive(Debug)]
pub struct PolicyEntry {
    /// Its name as it is written.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// Its knobs.
    pub knobs: &'static [PolicyKnobSpec],
    make: fn(&PolicyChoice) -> Box<dyn Policy>,
}

/// A knob of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyKnobSpec {
    /// Its name as it is written. Case does not matter.
    pub name: &'static str,
    /// The unit of its value.
    pub unit: KnobUnit,
    /// The value if nothing is said.
    pub default: f64,
    /// The least value allowed.
    pub least: f64,
    /// The largest value allowed.
    pub most: f64,
    /// The reason for that default.
    pub why: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// The unit of a knob's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobUnit {
    /// Hundredths of a whole.
    Percent,
    /// Whole pages of 4 KiB.
    Pages,
    /// Whole blocks of 2 MiB.
    Blocks,
    /// Whole seconds.
    Seconds,
    /// A number that counts relative to others.
    Parts,
}

impl KnobUnit {
    /// Returns whether only whole numbers make sense.
    pub fn is_whole(self) -> bool {
        matches!(self, KnobUnit::Pages | KnobUnit::Blocks | KnobUnit::Seconds)
    }
}

/// `%`, `pages`, `blocks`, `s`, `parts`.
impl fmt::Display for KnobUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            KnobUnit::Percent => "%",
            KnobUnit::Pages => "pages",
            KnobUnit::Blocks => "blocks",
            KnobUnit::Seconds => "s",
            KnobUnit::Parts => "parts",
        })
    }
}

const P: PolicyKnobSpec = PolicyKnobSpec {
    name: "p",
    unit: KnobUnit::Percent,
    default: 2.0,
    least: 0.01,
    most: 100.0,
    why: "it is between the 0.75, 4 and 6 % that were best in SmarTmem's scenarios; fifty steps take all memory",
    help: "P: a failed put raises a target by this part of the total; unused memory lowers a target by this part of itself",
};

const THRESHOLD: PolicyKnobSpec = PolicyKnobSpec {
    name: "threshold",
    unit: KnobUnit::Pages,
    default: 512.0,
    least: 0.0,
    most: PAGES_MOST,
    why: "one block, because memory moves in no smaller unit; the papers give no value",
    help: "A tenant may leave this much of its target unused before the policy lowers the target",
};

/// 2^40 pages are 4 PiB.
const PAGES_MOST: f64 = (1u64 << 40) as f64;

const WEIGHT: PolicyKnobSpec = PolicyKnobSpec {
    name: "weight",
    help: "How much the tenants' weights count (first of the utility tuple)",
    ..PART
};

const USEFULNESS: PolicyKnobSpec = PolicyKnobSpec {
    name: "usefulness",
    help: "How much the part of accesses that are reads counts (second of the utility tuple)",
    ..PART
};

const SHARING: PolicyKnobSpec = PolicyKnobSpec {
    name: "sharing",
    help: "How much the part of pages that are shared counts (third of the utility tuple)",
    ..PART
};

const PART: PolicyKnobSpec = PolicyKnobSpec {
    name: "",
    unit: KnobUnit::Parts,
    default: 1.0,
    least: 0.0,
    most: 1000.0,
    why: "Synergy's worked example has (1, 1, 1)",
    help: "",
};

const FLOOR: PolicyKnobSpec = PolicyKnobSpec {
    name: "floor",
    unit: KnobUnit::Percent,
    default: 50.0,
    least: 0.0,
    most: 100.0,
    why: "half: no tenant falls far behind its share, and the other half can go where the hits are",
    help: "An active tenant keeps this part of its weighted share, whatever the curves say",
};

const GAIN: PolicyKnobSpec = PolicyKnobSpec {
    name: "gain",
    unit: KnobUnit::Percent,
    default: 3.0,
    least: 0.0,
    most: 100.0,
    why: "with 1 % twice as much memory moved for as many misses; the curves are no more exact than that; memory that moves loses what was in it",
    help: "Targets stay as they are unless other targets bring more than this many more hits",
};

const COOL: PolicyKnobSpec = PolicyKnobSpec {
    name: "cool",
    unit: KnobUnit::Seconds,
    default: 60.0,
    least: 0.0,
    most: 86_400.0,
    why: "the half-life of a curve: after that time half of what it says is new",
    help: "For this long a tenant that gave memory gets none back, and a tenant that got memory gives none, unless floors ask for it",
};

const FLAT: PolicyKnobSpec = PolicyKnobSpec {
    name: "flat",
    unit: KnobUnit::Percent,
    default: 10.0,
    least: 0.0,
    most: 100.0,
    why: "a scan or a loop that does not fit brings next to nothing; no other tenant was seen below a fifth",
    help: "A tenant gives way first, down to its floor, if its hits per page above the floor are less than this part of the average",
};

const KEPT: PolicyKnobSpec = PolicyKnobSpec {
    name: "kept",
    unit: KnobUnit::Percent,
    default: 100.0,
    least: 0.0,
    most: 100.0,
    why: "with 80 %, pages missed up to 1 % more, and up to 45 % more where a loop would fit; items missed 1 % less",
    help: "The tenants to which the curves promise the most hits keep this part of all memory; the rest goes by age",
};

const KEPT_GAIN: PolicyKnobSpec = PolicyKnobSpec {
    name: "gain",
    unit: KnobUnit::Percent,
    default: 3.0,
    least: 0.0,
    most: 100.0,
    why: "as under `mrc`; with 1 and 2 % the misses were 0.2 % more, those of items 0.2 % fewer; without it memory moves to and fro with the sample",
    help: "The memory kept by curves stays divided as it is, unless another division brings more than this many more hits",
};

const IDLE: PolicyKnobSpec = PolicyKnobSpec {
    name: "idle",
    unit: KnobUnit::Seconds,
    default: 60.0,
    least: 1.0,
    most: 86_400.0,
    why: "the half-life of a curve",
    help: "A tenant that neither put nor got for longer than this has no floor",
};

/// All policies, the simplest first.
pub static CATALOGUE: [PolicyEntry; 9] = [
    PolicyEntry {
        name: "greedy",
        summary: "no targets: the tenant that puts first takes what is free",
        paper: "Xen's tmem; SmarTmem §III-E, vMCA §III-D (greedy-local)",
        knobs: &[],
        make: |_| Box::new(GreedyPolicy),
    },
    PolicyEntry {
        name: "weights",
        summary: "no targets: when nothing is free, the tenant that is most above its weighted share gives way",
        paper: "Mortar §5.2",
        knobs: &[],
        make: |_| Box::new(WeightsPolicy),
    },
    PolicyEntry {
        name: "static-alloc",
        summary: "an equal share for each tenant",
        paper: "SmarTmem, Algorithm 2",
        knobs: &[],
        make: |_| Box::new(StaticAllocPolicy),
    },
    PolicyEntry {
        name: "reconf-static",
        summary: "an equal share for each tenant that has ever put",
        paper: "SmarTmem, Algorithm 3",
        knobs: &[],
        make: |_| Box::new(ReconfStaticPolicy),
    },
    PolicyEntry {
        name: "smart-alloc",
        summary: "failed puts raise a target; unused memory lowers it",
        paper: "SmarTmem, Algorithm 4, equations 1 and 2",
        knobs: &[P, THRESHOLD],
        make: |choice| {
            Box::new(SmartAllocPolicy::new(
                choice.value(&P),
                choice.pages(&THRESHOLD),
            ))
        },
    },
    PolicyEntry {
        name: "two-level",
        summary: "as smart-alloc; it asks other nodes for the memory that is lacking",
        paper: "vMCA, Algorithm 2",
        knobs: &[P, THRESHOLD],
        make: |choice| {
            Box::new(TwoLevelPolicy::new(
                choice.value(&P),
                choice.pages(&THRESHOLD),
            ))
        },
    },
    PolicyEntry {
        name: "utility",
        summary: "shares by weight, by the part of accesses that are reads and by the part of pages that are shared",
        paper: "Synergy, Algorithms 1 and 2",
        knobs: &[WEIGHT, USEFULNESS, SHARING],
        make: |choice| {
            Box::new(UtilityPolicy::new(
                choice.value(&WEIGHT),
                choice.value(&USEFULNESS),
                choice.value(&SHARING),
            ))
        },
    },
    PolicyEntry {
        name: "mrc",
        summary: "memory goes where measured miss-ratio curves promise the most hits; half of each share is safe",
        paper: "Sublet's own, after SHARDS (FAST '15) and UCP (MICRO '06)",
        knobs: &[FLOOR, GAIN, COOL, IDLE],
        make: |choice| {
            Box::new(MrcPolicy::new(
                choice.value(&FLOOR),
                choice.value(&GAIN),
                choice.value(&COOL) as u32,
                choice.value(&IDLE) as u32,
            ))
        },
    },
    PolicyEntry {
        name: "pooled",
        summary: "all memory is one pool: the oldest goes first, of whatever tenant; half of each share is safe; a tenant that gains nothing from more gives way first",
        paper: "Sublet's own, after one queue for all (global LRU) and MQ's levels (USENIX ATC '01)",
        knobs: &[FLOOR, FLAT, KEPT, KEPT_GAIN, IDLE],
        make: |choice| {
            Box::new(PooledPolicy::new(
                choice.value(&FLOOR),
                choice.value(&FLAT),
                choice.value(&KEPT),
                choice.value(&KEPT_GAIN),
                choice.value(&IDLE) as u32,
            ))
        },
    },
];

/// A policy of the catalogue with its knobs set.
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    entry: &'static PolicyEntry,
    values: Vec<(&'static str, f64)>,
}

/// Why a choice was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyChoiceError {
    /// No policy has this name.
    #[error("no policy is called {name:?}{}", policy_suggestion(nearest))]
    UnknownPolicy {
        /// What was written.
        name: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// The policy has no such knob.
    #[error("{policy} has no knob {knob:?}{}", suggestion(nearest))]
    UnknownKnob {
        /// The policy.
        policy: &'static str,
        /// What was written.
        knob: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// A knob was set more than once.
    #[error("{knob} is set twice")]
    SetTwice {
        /// The knob.
        knob: &'static str,
    },
    /// A value is no number, or no whole number although the knob needs one.
    #[error("{knob} is a {} of {unit}, not {value:?}", kind(unit))]
    NotANumber {
        /// The knob.
        knob: &'static str,
        /// The unit of its value.
        unit: KnobUnit,
        /// What was written.
        value: String,
    },
    /// A value is out of its knob's range.
    #[error("{knob} goes from {least} to {most} {unit}, and {value} is not in that")]
    OutOfRange {
        /// The knob.
        knob: &'static str,
        /// The unit of its value.
        unit: KnobUnit,
        /// The least value allowed.
        least: f64,
        /// The largest.
        most: f64,
        /// What was written.
        value: f64,
    },
}

/// A word that should be `knob=value`, but is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} sets nothing; write knob=value")]
pub struct NotKnobValuePair(pub String);

/// Splits `knob=value` into the knob and the value.
pub fn pair(written: &str) -> Result<(&str, &str), NotKnobValuePair> {
    let (knob, value) = written
        .split_once('=')
        .ok_or_else(|| NotKnobValuePair(written.to_owned()))?;
    Ok((knob.trim(), value.trim()))
}

/// The policy with this name.
pub fn find(name: &str) -> Result<&'static PolicyEntry, PolicyChoiceError> {
    let unknown = || PolicyChoiceError::UnknownPolicy {
        name: name.to_owned(),
        nearest: nearest(name, CATALOGUE.iter().map(|entry| entry.name)),
    };
    CATALOGUE
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(unknown)
}

impl PolicyChoice {
    /// Chooses the policy with this name, and sets these knobs.
    pub fn new<'a>(
        name: &str,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<PolicyChoice, PolicyChoiceError> {
        let entry = find(name)?;
        let values = read_pairs(entry.name, entry.knobs, pairs)?;
        Ok(PolicyChoice { entry, values })
    }

    /// The chosen policy.
    pub fn entry(&self) -> &'static PolicyEntry {
        self.entry
    }

    /// Every knob with its value, whether it was set or not.
    pub fn values(&self) -> impl Iterator<Item = (&'static PolicyKnobSpec, f64)> {
        self.entry.knobs.iter().map(|knob| (knob, self.value(knob)))
    }

    /// Makes the policy, without any memory yet.
    pub fn make(&self) -> Box<dyn Policy> {
        (self.entry.make)(self)
    }

    fn value(&self, knob: &PolicyKnobSpec) -> f64 {
        let set = self.values.iter().find(|(name, _)| *name == knob.name);
        set.map_or(knob.default, |(_, value)| *value)
    }

    fn pages(&self, knob: &PolicyKnobSpec) -> Pages {
        Pages(self.value(knob) as u64)
    }
}

/// Makes the policy with this name, and sets these knobs.
pub fn make<'a>(
    name: &str,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Box<dyn Policy>, PolicyChoiceError> {
    Ok(PolicyChoice::new(name, pairs)?.make())
}

/// Reads the knobs that are set, each once at most. The error names the knob that is wrong.
pub(crate) fn read_pairs<'a>(
    policy: &'static str,
    knobs: &'static [PolicyKnobSpec],
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<(&'static str, f64)>, PolicyChoiceError> {
    let mut values: Vec<(&'static str, f64)> = Vec::new();
    for (written, value) in pairs {
        let unknown = || PolicyChoiceError::UnknownKnob {
            policy,
            knob: written.to_owned(),
            nearest: nearest(written, knobs.iter().map(|knob| knob.name)),
        };
        let is_it = |knob: &&PolicyKnobSpec| knob.name.eq_ignore_ascii_case(written);
        let knob = knobs.iter().find(is_it).ok_or_else(unknown)?;
        if values.iter().any(|(name, _)| *name == knob.name) {
            return Err(PolicyChoiceError::SetTwice { knob: knob.name });
        }
        values.push((knob.name, knob.read(value)?));
    }
    Ok(values)
}

impl PolicyKnobSpec {
    fn read(&self, written: &str) -> Result<f64, PolicyChoiceError> {
        let number: Option<f64> = written.parse().ok();
        let fits =
            |value: &f64| value.is_finite() && (!self.unit.is_whole() || value.fract() == 0.0);
        let Some(value) = number.filter(fits) else {
            return Err(PolicyChoiceError::NotANumber {
                knob: self.name,
                unit: self.unit,
                value: written.to_owned(),
            });
        };
        if !(self.least..=self.most).contains(&value) {
            return Err(PolicyChoiceError::OutOfRange {
                knob: self.name,
                unit: self.unit,
                least: self.least,
                most: self.most,
                value,
            });
        }
        Ok(value)
    }
}

/// The candidate that the author of `wrong` most likely meant, if one is near.
pub(crate) fn nearest(
    wrong: &str,
    candidates: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let edits_max = (wrong.len() / 3).max(2);
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(wrong, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= edits_max && *edits < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |nearest| {
        format!("; did you mean {nearest}?")
    })
}

/// The policy that was probably meant, or all of them.
fn policy_suggestion(nearest: &Option<&'static str>) -> String {
    let names: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
    match nearest {
        Some(_) => suggestion(nearest),
        None => format!(": there are {}", names.join(", ")),
    }
}

fn kind(unit: &KnobUnit) -> &'static str {
    if unit.is_whole() {
        "whole number"
    } else {
        "number"
    }
}

#[cfg(test)]
mod tests;
