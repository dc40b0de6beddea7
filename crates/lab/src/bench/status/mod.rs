//! `sublet-lab bench status`: what a look at a large daemon costs, and what it costs those who get meanwhile.

mod args;
pub(super) mod error;
mod snapshot;

use super::progress::Progress;
use super::report::Report;
pub(super) use args::Args;
use error::StatusError;

/// Looks at a large store.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, StatusError> {
    progress.expect(snapshot::STEPS);
    let mut report = Report::default();
    snapshot::run(args, progress, &mut report)?;
    Ok(report)
}
