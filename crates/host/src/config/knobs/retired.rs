//! Knobs that releases before this one had.

/// A knob that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// The table of the file that it stood in.
    pub room: &'static str,
    /// Its key there.
    pub name: &'static str,
    /// The option that set it.
    pub flag: &'static str,
    /// What holds without it.
    pub instead: &'static str,
}

/// Knobs that are gone.
pub const RETIRED_KNOBS: &[Retired] = &[Retired {
    room: "disks.NAME",
    name: "splice",
    flag: "splice",
    instead: "large replies over NBD are always copied",
}];
