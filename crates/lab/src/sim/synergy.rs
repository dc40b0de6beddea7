//! `sublet-lab sim synergy`: eviction by file beside block LRU and the default.

use super::error::SimError;
use super::run_options::RunOptions;
use crate::exit::Exit;

/// Runs the simulation.
pub(super) fn run(how: &RunOptions) -> Result<Exit, SimError> {
    let reports = how.play_paper("synergy", &[])?;
    how.show(&reports)
}
