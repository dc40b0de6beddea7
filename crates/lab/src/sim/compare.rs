//! `sublet-lab sim compare`: a scenario, or traces, with one thing changed at a time.

use sublet_sim::report::RunReport;

use super::compare_args::Args;
use super::error::SimError;
use super::progress::SimProgress;
use super::run_options::RunOptions;
use super::{scenario, traces};
use crate::exit::Exit;

/// Runs the comparison.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    if !args.traces.is_empty() {
        return traces::run(args, how);
    }
    let found = scenario::find(&args.scenario)?;
    let progress = SimProgress::new();
    let variants = args.variants().of(&found.scenario);
    let outcomes = how.play(variants, &found.folder, &progress)?;
    progress.finish();
    how.show(&[RunReport::of(outcomes)])
}
