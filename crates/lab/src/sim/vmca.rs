//! `sublet-lab sim vmca`: vMCA's scenarios under its policies and ours, beside what the paper found.

use std::io::{self, Write};

use sublet_sim::vmca::{
    VmcaModel, VmcaOutcome, VmcaReport, VmcaRun, VmcaScale, VmcaScenario, plots,
};

use super::error::SimError;
use super::progress::SimProgress;
use super::run_all::side_by_side;
use super::run_options::{RunOptions, write_plot};
use crate::exit::Exit;

/// Options of the scenarios.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run only these scenarios, with commas between
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,2,3,4",
        value_name = "NUMBERS"
    )]
    scenarios: Vec<VmcaScenario>,
    /// Run each with so many seeds from --seed on, and show how far they are apart
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Let a page stand for so many of the paper's: a power of two, 32 at most
    #[arg(long, default_value_t, value_name = "N")]
    scale: VmcaScale,
    /// Let each disk take so many microseconds to the first byte, instead of the scenarios' 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    disk_latency_us: Option<u64>,
}

/// Runs the scenarios.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    let model = VmcaModel {
        scale: args.scale,
        disk_latency_us: args.disk_latency_us,
    };
    let runs = VmcaRun::all(&args.scenarios, how.seed(), args.seeds, model);
    let progress = SimProgress::new();
    progress.expect(runs.len());
    let outcomes = side_by_side(runs.len(), |number| {
        let run = runs[number];
        progress.show_message(format!("scenario {}: {}", run.scenario, run.policy));
        let outcome = run.play(how.judge_mode());
        progress.end();
        outcome.map_err(|cause| SimError::Run {
            scenario: format!("vmca-{}", run.scenario),
            label: run.policy.to_string(),
            cause: Box::new(cause),
        })
    });
    progress.finish();
    let outcomes: Result<Vec<VmcaOutcome>, SimError> = outcomes.into_iter().collect();
    let report = VmcaReport::of(&runs, outcomes?);
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
        false => Exit::failed("the judges found wrongs; please report them with the seed"),
    })
}
