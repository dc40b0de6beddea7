//! `sublet-lab sim placement`: whom a leader advises to borrow of whom, policy by policy.

use std::io::{self, Write};

use sublet_sim::placement::PlacementReport;

use super::error::SimError;
use super::run_options::RunOptions;
use crate::exit::Exit;

/// Runs the comparison.
pub(super) fn run(how: &RunOptions) -> Result<Exit, SimError> {
    let report = PlacementReport::of_all(how.seed());
    let mut out = io::stdout().lock();
    let written = match how.json {
        true => writeln!(out, "{:#}", report.json()),
        false => write!(out, "{}", report.text()),
    };
    Ok(Exit::written(written))
}
