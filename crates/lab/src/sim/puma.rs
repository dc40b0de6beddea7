//! `sublet-lab sim puma`: PUMA's figures and tables, beside what the paper found.

use std::io::{self, Write};

use sublet_sim::puma::{PumaOutcome, PumaPlan, PumaReport, PumaScale, plots};

use super::error::SimError;
use super::progress::SimProgress;
use super::run_all::side_by_side;
use super::run_options::{RunOptions, write_plot};
use crate::exit::Exit;

/// Options of the experiments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Make all memory and data so many times smaller than the paper's: a power of two, 64 at most
    #[arg(long, default_value_t, value_name = "N")]
    scale: PumaScale,
}

/// Runs the experiments.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    let plan = PumaPlan::full();
    let progress = SimProgress::new();
    progress.expect(plan.tasks.len());
    let outcomes = side_by_side(plan.tasks.len(), |number| {
        let task = &plan.tasks[number];
        progress.show_message(task.words());
        let outcome = task.play(args.scale, how.seed());
        progress.end();
        outcome
    });
    progress.finish();
    let outcomes: Result<Vec<PumaOutcome>, _> = outcomes.into_iter().collect();
    let report = PumaReport::of(&plan, &outcomes?, args.scale, how.seed());
    let plots = plots(&report.tables());
    for (number, plot) in plots.iter().enumerate() {
        if let Some(file) = how.plot_file(number, plots.len()) {
            write_plot(&file, &plot.draw()?)?;
        }
    }
    let mut out = io::stdout().lock();
    let written = match how.json {
        true => writeln!(out, "{:#}", report.json()),
        false => write!(out, "{}", report.text()),
    };
    Ok(match report.holds() {
        true => Exit::written(written),
        false => Exit::failed("pages came back that were not those put last; please report it"),
    })
}
