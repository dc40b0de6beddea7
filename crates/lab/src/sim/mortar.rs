//! `sublet-lab sim mortar`: a store that follows the host's free memory beside one of the least that is free.

use super::error::SimError;
use super::how::How;
use crate::exit::Exit;

/// Runs it.
pub(super) fn run(how: &How) -> Result<Exit, SimError> {
    let reports = how.play_paper("mortar", &[])?;
    how.show(&reports)
}
