//! One row of the table of knobs.

use crate::config::raw_value::{RawValue, ValueError};

/// One setting of the owner, in a `W`.
pub struct Knob<W: 'static> {
    /// The table of the file that has it.
    pub table: &'static str,
    /// Its key in the table.
    pub name: &'static str,
    /// What a value looks like.
    pub unit: &'static str,
    /// The value if nothing is set, as TOML. `None` if an absent value has its own meaning.
    pub default: Option<&'static str>,
    /// A sample value as TOML, if there is no default.
    pub sample: &'static str,
    /// Why that default.
    pub why: &'static str,
    /// What it does.
    pub help: &'static str,
    /// The option of `sublet serve` that overrides it. For a disk's knob, the option of `sublet disk add`.
    pub flag: Option<&'static str>,
    /// What it takes.
    pub takes: KnobArgument,
    /// Reads a value and sets it.
    pub set: fn(&mut W, &RawValue) -> Result<(), ValueError>,
}

/// What a knob takes, for a program that offers it as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobArgument {
    /// True or false. An option that is there means true.
    Bool,
    /// One value.
    Value,
    /// The path of a file, or of a folder.
    Path,
    /// Any number of values.
    Values,
}
