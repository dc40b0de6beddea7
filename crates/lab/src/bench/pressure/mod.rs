//! `sublet-lab bench pressure`: a program takes memory as fast as it can. The host must not notice that Sublet had that
//! memory.

mod args;
mod borrowing_peer;
mod container;
pub(super) mod daemon;
pub(super) mod error;
mod files;
mod limit;
pub(super) mod memory_hog;
pub(super) mod page_reporting;
mod scale;
pub(super) mod swap;
mod touch;
mod vitals;

use super::progress::BenchProgress;
use super::report::BenchReport;
pub(super) use args::Args;
use args::PressurePart;
use error::PressureError;
use scale::TestScale;

/// Runs the chosen parts.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, PressureError> {
    if let Some(amount) = args.take {
        return touch::take_once(amount, args.pages, args.keep, progress);
    }
    let scale = TestScale::of(args)?;
    let tries = |part| args.only.is_empty() || args.only.contains(&part);
    let mut report = BenchReport::default();
    let (_swap, note) = swap::on();
    report.notes.push(note);
    let (_warmth, note) = page_reporting::on();
    report.notes.extend(note);
    if tries(PressurePart::Touch) {
        touch::run(&scale, progress, &mut report)?;
    }
    if tries(PressurePart::Files) {
        files::run(&scale, progress, &mut report)?;
    }
    if tries(PressurePart::Cgroup) {
        limit::run(&scale, progress, &mut report)?;
    }
    if tries(PressurePart::Container) && !args.small {
        container::run(&scale, progress, &mut report)?;
    }
    Ok(report)
}
