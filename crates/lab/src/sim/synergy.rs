//! `sublet-lab sim synergy`: eviction by file beside block LRU and the default.

use super::error::SimError;
use super::how::How;
use crate::exit::Exit;

/// Runs it.
pub(super) fn run(how: &How) -> Result<Exit, SimError> {
    let reports = how.play_paper("synergy", &[])?;
    how.show(&reports)
}
