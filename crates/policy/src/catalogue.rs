//! The one table of all policies and their knobs: the command line, the config, the docs and the simulator are made
//! from it.
//!
//! To add a policy: a file beside the others, and a row here.

mod page;

use std::fmt;

use sublet_types::Pages;

pub use self::page::reference;
use crate::decide::Policy;
use crate::greedy::Greedy;
use crate::mrc::Mrc;
use crate::pooled::Pooled;
use crate::reconf_static::ReconfStatic;
use crate::smart_alloc::SmartAlloc;
use crate::static_alloc::StaticAlloc;
use crate::two_level::TwoLevel;
use crate::utility::Utility;
use crate::weights::Weights;

/// A policy: what it is called, what it does, whose it is, what can be set.
#[derive(Debug)]
pub struct Entry {
    /// Its name, as it is written.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// What can be set.
    pub knobs: &'static [Knob],
    make: fn(&Choice) -> Box<dyn Policy>,
}

/// Something that can be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// Its name, as it is written; case does not matter.
    pub name: &'static str,
    /// In what its value is counted.
    pub unit: Unit,
    /// The value where nothing is said.
    pub default: f64,
    /// The least value allowed.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// Why that default.
    pub why: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// In what a knob's value is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Hundredths.
    Percent,
    /// Pages of 4 KiB, whole.
    Pages,
    /// Seconds, whole.
    Seconds,
    /// A number that counts relative to others.
    Parts,
}

impl Unit {
    /// Whether only whole numbers make sense.
    pub fn is_whole(self) -> bool {
        matches!(self, Unit::Pages | Unit::Seconds)
    }
}

/// `%`, `pages`, `s`, `parts`.
impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Unit::Percent => "%",
            Unit::Pages => "pages",
            Unit::Seconds => "s",
            Unit::Parts => "parts",
        })
    }
}

const P: Knob = Knob {
    name: "p",
    unit: Unit::Percent,
    default: 2.0,
    least: 0.01,
    most: 100.0,
    why: "between the 0.75, 4 and 6 % that were best in SmarTmem's scenarios; fifty steps take all there is",
    help: "P: a failed put raises a target by this much of the total, unused memory lowers it by this much of itself",
};

const THRESHOLD: Knob = Knob {
    name: "threshold",
    unit: Unit::Pages,
    default: 512.0,
    least: 0.0,
    most: PAGES_MOST,
    why: "a block: memory moves in no smaller unit; the papers give no value",
    help: "So much of its target a tenant may leave unused before it is lowered",
};

/// 2^40 pages are 4 PiB.
const PAGES_MOST: f64 = (1u64 << 40) as f64;

const WEIGHT: Knob = Knob {
    name: "weight",
    help: "How much the tenants' weights count (first of the utility tuple)",
    ..PART
};

const USEFULNESS: Knob = Knob {
    name: "usefulness",
    help: "How much it counts how many accesses are reads (second of the utility tuple)",
    ..PART
};

const SHARING: Knob = Knob {
    name: "sharing",
    help: "How much it counts how many pages are shared (third of the utility tuple)",
    ..PART
};

const PART: Knob = Knob {
    name: "",
    unit: Unit::Parts,
    default: 1.0,
    least: 0.0,
    most: 1000.0,
    why: "Synergy's worked example has (1, 1, 1)",
    help: "",
};

const FLOOR: Knob = Knob {
    name: "floor",
    unit: Unit::Percent,
    default: 50.0,
    least: 0.0,
    most: 100.0,
    why: "half: nobody falls far behind its share, and as much is left to go where the hits are",
    help: "An active tenant keeps this much of its weighted share whatever the curves say",
};

const GAIN: Knob = Knob {
    name: "gain",
    unit: Unit::Percent,
    default: 3.0,
    least: 0.0,
    most: 100.0,
    why: "with 1 % twice as much memory moved for as many misses; the curves are no more exact than that, and memory that moves loses what was in it",
    help: "Targets stay as they are unless others bring more than this many more hits",
};

const COOL: Knob = Knob {
    name: "cool",
    unit: Unit::Seconds,
    default: 60.0,
    least: 0.0,
    most: 86_400.0,
    why: "the half-life of a curve: by then half of what it tells is new",
    help: "A tenant that just gave does not get back for so long, and one that just got does not give, unless floors ask for it",
};

const FLAT: Knob = Knob {
    name: "flat",
    unit: Unit::Percent,
    default: 10.0,
    least: 0.0,
    most: 100.0,
    why: "a scan or a loop that does not fit brings next to nothing; nobody else was seen below a fifth",
    help: "A tenant whose hits a page above its floor are less than this much of the average gives way first, down to its floor",
};

const KEPT: Knob = Knob {
    name: "kept",
    unit: Unit::Percent,
    default: 100.0,
    least: 0.0,
    most: 100.0,
    why: "with 80 % pages missed up to 1 % more, and up to 45 % more where a loop would fit; items missed 1 % less",
    help: "So much of all memory is kept by those to whom their curves promise most hits of it; the rest goes by age",
};

const KEPT_GAIN: Knob = Knob {
    name: "gain",
    unit: Unit::Percent,
    default: 3.0,
    least: 0.0,
    most: 100.0,
    why: "as under `mrc`; with 1 and 2 % the misses were 0.2 % more, of items 0.2 % fewer; without it memory goes to and fro as the sample has it",
    help: "What is kept by curves stays as it is unless another division brings more than this many more hits",
};

const IDLE: Knob = Knob {
    name: "idle",
    unit: Unit::Seconds,
    default: 60.0,
    least: 1.0,
    most: 86_400.0,
    why: "the half-life of a curve",
    help: "A tenant that neither put nor got for longer has no floor",
};

/// All policies, the simplest first.
pub static CATALOGUE: [Entry; 9] = [
    Entry {
        name: "greedy",
        summary: "no targets: whoever puts first takes what is free",
        paper: "Xen's tmem; SmarTmem §III-E, vMCA §III-D (greedy-local)",
        knobs: &[],
        make: |_| Box::new(Greedy),
    },
    Entry {
        name: "weights",
        summary: "no targets: when nothing is free, whoever is most above its weighted share gives way",
        paper: "Mortar §5.2",
        knobs: &[],
        make: |_| Box::new(Weights),
    },
    Entry {
        name: "static-alloc",
        summary: "an equal share for each tenant",
        paper: "SmarTmem, Algorithm 2",
        knobs: &[],
        make: |_| Box::new(StaticAlloc),
    },
    Entry {
        name: "reconf-static",
        summary: "an equal share for each tenant that has ever put",
        paper: "SmarTmem, Algorithm 3",
        knobs: &[],
        make: |_| Box::new(ReconfStatic),
    },
    Entry {
        name: "smart-alloc",
        summary: "failed puts raise a target, unused memory lowers it",
        paper: "SmarTmem, Algorithm 4, equations 1 and 2",
        knobs: &[P, THRESHOLD],
        make: |choice| Box::new(SmartAlloc::new(choice.value(&P), choice.pages(&THRESHOLD))),
    },
    Entry {
        name: "two-level",
        summary: "as smart-alloc, and what is lacking is asked of other nodes",
        paper: "vMCA, Algorithm 2",
        knobs: &[P, THRESHOLD],
        make: |choice| Box::new(TwoLevel::new(choice.value(&P), choice.pages(&THRESHOLD))),
    },
    Entry {
        name: "utility",
        summary: "shares by weight, by how many accesses are reads and by how many pages are shared",
        paper: "Synergy, Algorithms 1 and 2",
        knobs: &[WEIGHT, USEFULNESS, SHARING],
        make: |choice| {
            Box::new(Utility::new(
                choice.value(&WEIGHT),
                choice.value(&USEFULNESS),
                choice.value(&SHARING),
            ))
        },
    },
    Entry {
        name: "mrc",
        summary: "memory goes where measured miss-ratio curves promise most hits; half of each share is safe",
        paper: "Sublet's own, after SHARDS (FAST '15) and UCP (MICRO '06)",
        knobs: &[FLOOR, GAIN, COOL, IDLE],
        make: |choice| {
            Box::new(Mrc::new(
                choice.value(&FLOOR),
                choice.value(&GAIN),
                choice.value(&COOL) as u32,
                choice.value(&IDLE) as u32,
            ))
        },
    },
    Entry {
        name: "pooled",
        summary: "all memory is one pool: the oldest goes first, whoever's it is; half of each share is safe, and who gains nothing from more gives way first",
        paper: "Sublet's own, after one queue for all (global LRU) and MQ's levels (USENIX ATC '01)",
        knobs: &[FLOOR, FLAT, KEPT, KEPT_GAIN, IDLE],
        make: |choice| {
            Box::new(Pooled::new(
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
pub struct Choice {
    entry: &'static Entry,
    values: Vec<(&'static str, f64)>,
}

/// Why a choice was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChoiceError {
    /// No policy has this name.
    #[error("no policy is called {name:?}{}", meant_policy(nearest))]
    UnknownPolicy {
        /// What was written.
        name: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// The policy has no such knob.
    #[error("{policy} has no knob {knob:?}{}", meant(nearest))]
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
    /// A value is no number, or not a whole one where only these make sense.
    #[error("{knob} is a {} of {unit}, not {value:?}", kind(unit))]
    NotANumber {
        /// The knob.
        knob: &'static str,
        /// In what it is counted.
        unit: Unit,
        /// What was written.
        value: String,
    },
    /// A value is out of its knob's range.
    #[error("{knob} goes from {least} to {most} {unit}, and {value} is not in that")]
    OutOfRange {
        /// The knob.
        knob: &'static str,
        /// In what it is counted.
        unit: Unit,
        /// The least value allowed.
        least: f64,
        /// The largest.
        most: f64,
        /// What was written.
        value: f64,
    },
}

/// A word that should be `knob=value` is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} sets nothing; write knob=value")]
pub struct NoPair(pub String);

/// The knob and the value of `knob=value`.
pub fn pair(written: &str) -> Result<(&str, &str), NoPair> {
    let (knob, value) = written
        .split_once('=')
        .ok_or_else(|| NoPair(written.to_owned()))?;
    Ok((knob.trim(), value.trim()))
}

/// The policy with this name.
pub fn find(name: &str) -> Result<&'static Entry, ChoiceError> {
    let unknown = || ChoiceError::UnknownPolicy {
        name: name.to_owned(),
        nearest: nearest(name, CATALOGUE.iter().map(|entry| entry.name)),
    };
    CATALOGUE
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(unknown)
}

impl Choice {
    /// The policy with this name, and these knobs set.
    pub fn new<'a>(
        name: &str,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Choice, ChoiceError> {
        let entry = find(name)?;
        let mut values: Vec<(&'static str, f64)> = Vec::new();
        for (written, value) in pairs {
            let knob = entry.knob(written)?;
            if values.iter().any(|(name, _)| *name == knob.name) {
                return Err(ChoiceError::SetTwice { knob: knob.name });
            }
            values.push((knob.name, knob.read(value)?));
        }
        Ok(Choice { entry, values })
    }

    /// What was chosen.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// Every knob with its value, whether set or not.
    pub fn values(&self) -> impl Iterator<Item = (&'static Knob, f64)> {
        self.entry.knobs.iter().map(|knob| (knob, self.value(knob)))
    }

    /// The policy, without any memory yet.
    pub fn make(&self) -> Box<dyn Policy> {
        (self.entry.make)(self)
    }

    fn value(&self, knob: &Knob) -> f64 {
        let set = self.values.iter().find(|(name, _)| *name == knob.name);
        set.map_or(knob.default, |(_, value)| *value)
    }

    fn pages(&self, knob: &Knob) -> Pages {
        Pages(self.value(knob) as u64)
    }
}

/// Makes the policy with this name and these knobs set.
pub fn make<'a>(
    name: &str,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Box<dyn Policy>, ChoiceError> {
    Ok(Choice::new(name, pairs)?.make())
}

impl Entry {
    fn knob(&self, written: &str) -> Result<&'static Knob, ChoiceError> {
        let unknown = || ChoiceError::UnknownKnob {
            policy: self.name,
            knob: written.to_owned(),
            nearest: nearest(written, self.knobs.iter().map(|knob| knob.name)),
        };
        self.knobs
            .iter()
            .find(|knob| knob.name.eq_ignore_ascii_case(written))
            .ok_or_else(unknown)
    }
}

impl Knob {
    fn read(&self, written: &str) -> Result<f64, ChoiceError> {
        let number: Option<f64> = written.parse().ok();
        let fits =
            |value: &f64| value.is_finite() && (!self.unit.is_whole() || value.fract() == 0.0);
        let Some(value) = number.filter(fits) else {
            return Err(ChoiceError::NotANumber {
                knob: self.name,
                unit: self.unit,
                value: written.to_owned(),
            });
        };
        if !(self.least..=self.most).contains(&value) {
            return Err(ChoiceError::OutOfRange {
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

/// The candidate that somebody who wrote `wrong` most likely meant, if any is near.
fn nearest(wrong: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let edits_max = (wrong.len() / 3).max(2);
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(wrong, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= edits_max && *edits < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

fn meant(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |nearest| {
        format!("; did you mean {nearest}?")
    })
}

/// The one that was probably meant, or all of them.
fn meant_policy(nearest: &Option<&'static str>) -> String {
    let names: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
    match nearest {
        Some(_) => meant(nearest),
        None => format!(": there are {}", names.join(", ")),
    }
}

fn kind(unit: &Unit) -> &'static str {
    if unit.is_whole() {
        "whole number"
    } else {
        "number"
    }
}

#[cfg(test)]
mod tests;
