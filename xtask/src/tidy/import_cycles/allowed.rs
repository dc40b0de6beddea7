//! The import cycles that are allowed. The list can only shrink: a cycle that became smaller or vanished must be
//! corrected here.

/// The path of this list.
pub(super) const PATH: &str = "xtask/src/tidy/import_cycles/allowed.rs";

/// The files of each cycle, in order.
pub(super) const ALLOWED: &[&[&str]] = &[];
