//! `sublet-lab bench pressure`: a program takes memory as fast as it can, and the host must not feel that
//! Sublet had it.

mod args;
mod container;
pub(super) mod daemon;
pub(super) mod eater;
pub(super) mod error;
mod files;
mod limit;
mod scale;
pub(super) mod swap;
mod touch;
mod vitals;
pub(super) mod warmth;

use super::progress::Progress;
use super::report::Report;
pub(super) use args::Args;
use args::Part;
use error::PressureError;
use scale::Scale;

/// Tries what was asked for.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, PressureError> {
    if let Some(amount) = args.take {
        return touch::take(amount, args.pages, args.keep, progress);
    }
    let scale = Scale::of(args)?;
    let tries = |part| args.only.is_empty() || args.only.contains(&part);
    let mut report = Report::default();
    let (_swap, note) = swap::on();
    report.notes.push(note);
    let (_warmth, note) = warmth::on();
    report.notes.extend(note);
    if tries(Part::Touch) {
        touch::run(&scale, progress, &mut report)?;
    }
    if tries(Part::Files) {
        files::run(&scale, progress, &mut report)?;
    }
    if tries(Part::Cgroup) {
        limit::run(&scale, progress, &mut report)?;
    }
    if tries(Part::Container) && !args.small {
        container::run(&scale, progress, &mut report)?;
    }
    Ok(report)
}
