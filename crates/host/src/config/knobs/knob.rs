//! One row of the table of knobs.

use crate::config::said::{Said, Unfit};

/// One thing that the owner may set, in a `W`.
pub struct Knob<W: 'static> {
    /// The table of the file that it stands in.
    pub room: &'static str,
    /// Its key there.
    pub name: &'static str,
    /// What a value looks like.
    pub unit: &'static str,
    /// The value when nothing is said, as TOML; `None` where nothing is then what it means.
    pub default: Option<&'static str>,
    /// A value to show where there is no default, as TOML.
    pub sample: &'static str,
    /// Why that default.
    pub why: &'static str,
    /// What it does.
    pub help: &'static str,
    /// The option of `sublet serve` that overrides it; for a disk's knob, that of `sublet disk add`.
    pub flag: Option<&'static str>,
    /// What it takes.
    pub takes: Takes,
    /// Takes a value.
    pub set: fn(&mut W, &Said) -> Result<(), Unfit>,
}

/// What a knob takes, for whoever offers it as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// True or false: an option that is there says true.
    Truth,
    /// One value.
    Value,
    /// The path of a file, or of a folder.
    Path,
    /// As many values as it is given.
    Values,
}
