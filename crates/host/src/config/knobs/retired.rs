//! Knobs that earlier releases had.

/// A knob that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetiredKnob {
    /// The table of the file that had it.
    pub table: &'static str,
    /// Its key there.
    pub name: &'static str,
    /// The option that set it.
    pub flag: &'static str,
    /// What holds without it.
    pub instead: &'static str,
}

/// Knobs that are gone.
pub const RETIRED_KNOBS: &[RetiredKnob] = &[RetiredKnob {
    table: "disks.NAME",
    name: "splice",
    flag: "splice",
    instead: "large replies over NBD are always copied",
}];
