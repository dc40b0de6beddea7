//! `sublet-lab sim smartmem`: the paper's four scenarios with every policy, beside greedy and no tmem.

use clap::builder::PossibleValuesParser;
use sublet_sim::papers::Experiment;
use sublet_types::Shrinking;

use super::error::SimError;
use super::how::How;
use super::scenario::shrinking;
use crate::exit::Exit;

const SCENARIOS: [&str; 4] = ["smartmem-1", "smartmem-2", "smartmem-3", "smartmem-usemem"];

/// What of it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only these scenarios, with commas between
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(SCENARIOS))]
    scenarios: Vec<String>,
    /// What becomes of who holds more than its target: `never` is as in the paper
    #[arg(long, value_delimiter = ',', default_value = "active,never", value_name = "NAMES", value_parser = shrinking)]
    shrink: Vec<Shrinking>,
}

/// Runs it: a report for each scenario and each way of shrinking, so that each has its own greedy.
pub(super) fn run(args: &Args, how: &How) -> Result<Exit, SimError> {
    let is_wanted = |experiment: &&Experiment| {
        args.scenarios.is_empty()
            || args
                .scenarios
                .iter()
                .any(|name| name == experiment.scenario)
    };
    let experiments: Vec<&Experiment> =
        Experiment::of_paper("smartmem").filter(is_wanted).collect();
    let reports = how.play_experiments(&experiments, &args.shrink)?;
    how.show(&reports)
}
