//! `sublet-lab sim compare`: a scenario, or traces, with one thing changed at a time.

use sublet_sim::report::Report;

use super::compare_args::Args;
use super::error::SimError;
use super::how::How;
use super::progress::Progress;
use super::{scenario, traces};
use crate::exit::Exit;

/// Compares.
pub(super) fn run(args: &Args, how: &How) -> Result<Exit, SimError> {
    if !args.traces.is_empty() {
        return traces::run(args, how);
    }
    let found = scenario::find(&args.scenario)?;
    let progress = Progress::new();
    let variants = args.variants().of(&found.scenario);
    let outcomes = how.play(variants, &found.folder, &progress)?;
    progress.finish();
    how.show(&[Report::of(outcomes)])
}
