//! Freed memory stays with a virtual machine for the time of the bench.
//!
//! Where a guest reports free pages to its hypervisor, memory is taken from it within seconds, and its
//! next touch is ten times as slow as any other. That would drown what the bench measures.

use std::fs;
use std::io;

use super::super::child::Keeper;

/// Free pages are reported from this order on.
const ORDER: &str = "/sys/module/page_reporting/parameters/page_reporting_order";

/// One more than the largest order of free pages there is.
const NONE: &str = "11";

/// Has nothing reported while `work` runs.
pub(in crate::bench) fn on_while(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let before = fs::read_to_string(ORDER)?;
    fs::write(ORDER, NONE)?;
    let worked = work();
    worked.and(fs::write(ORDER, before))
}

/// Stops the reports where there are any and root asks; says what came of it.
pub(super) fn on() -> (Option<Keeper>, Option<String>) {
    if !fs::exists(ORDER).unwrap_or(false) {
        return (None, None);
    }
    match Keeper::start(&["warmth"]) {
        Ok(keeper) => {
            let note = "free pages were not reported to the hypervisor meanwhile";
            (Some(keeper), Some(note.into()))
        }
        Err(_) => {
            let note = "free pages may be reported to the hypervisor (only root can stop that): \
                        first touches of memory that was taken are slow, with and without Sublet";
            (None, Some(note.into()))
        }
    }
}
