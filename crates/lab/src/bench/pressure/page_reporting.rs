//! Keeps freed memory with a virtual machine for the time of the bench.
//!
//! If a guest reports free pages to its hypervisor, the hypervisor takes that memory within seconds. The guest's next
//! touch is ten times as slow as any other. That would drown what the bench measures.

use std::fs;
use std::io;

use super::super::host_change_guard::HostChangeGuard;

/// The kernel reports free pages of this order and above.
const ORDER: &str = "/sys/module/page_reporting/parameters/page_reporting_order";

/// One more than the largest order of free pages.
const NONE: &str = "11";

/// Stops all reports while `work` runs.
pub(in crate::bench) fn on_while(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let before = fs::read_to_string(ORDER)?;
    fs::write(ORDER, NONE)?;
    let worked = work();
    worked.and(fs::write(ORDER, before))
}

/// Stops the reports if there are any and root runs the bench. Returns a note on the result.
pub(super) fn on() -> (Option<HostChangeGuard>, Option<String>) {
    if !fs::exists(ORDER).unwrap_or(false) {
        return (None, None);
    }
    match HostChangeGuard::start(&["warmth"]) {
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
