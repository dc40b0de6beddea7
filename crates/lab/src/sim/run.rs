//! `sublet-lab sim run`: one scenario, as it stands.

use sublet_sim::report::Report;

use super::error::SimError;
use super::how::How;
use super::progress::Progress;
use super::scenario;
use crate::exit::Exit;

/// What to run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The scenario: a file, or a name that `sublet-lab sim list` shows
    scenario: String,
}

/// Runs it.
pub(super) fn run(args: &Args, how: &How) -> Result<Exit, SimError> {
    let found = scenario::find(&args.scenario)?;
    let progress = Progress::new();
    let outcomes = how.play(vec![found.scenario], &found.folder, &progress)?;
    progress.finish();
    let mut report = Report::of(outcomes);
    report.note_scale();
    how.show(&[report])
}
