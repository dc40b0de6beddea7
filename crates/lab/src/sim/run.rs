//! `sublet-lab sim run`: one scenario as it stands.

use sublet_sim::report::RunReport;

use super::error::SimError;
use super::progress::SimProgress;
use super::run_options::RunOptions;
use super::scenario;
use crate::exit::Exit;

/// Options of the run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run this scenario: a file, or a name that `sublet-lab sim list` shows
    scenario: String,
}

/// Runs the scenario.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    let found = scenario::find(&args.scenario)?;
    let progress = SimProgress::new();
    let outcomes = how.play(vec![found.scenario], &found.folder, &progress)?;
    progress.finish();
    let mut report = RunReport::of(outcomes);
    report.add_scale_note();
    how.show(&[report])
}
