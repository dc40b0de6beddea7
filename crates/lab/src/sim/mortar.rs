//! `sublet-lab sim mortar`: a store that follows the host's free memory, beside one that has the least that is ever
//! free.

use super::error::SimError;
use super::run_options::RunOptions;
use crate::exit::Exit;

/// Runs the simulation.
pub(super) fn run(how: &RunOptions) -> Result<Exit, SimError> {
    let reports = how.play_paper("mortar", &[])?;
    how.show(&reports)
}
