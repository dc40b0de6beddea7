//! `sublet-lab sim smartmem`: the paper's four scenarios with every policy, beside greedy and no tmem.

use clap::builder::PossibleValuesParser;
use sublet_sim::papers::Experiment;
use sublet_types::ShrinkMode;

use super::error::SimError;
use super::run_options::RunOptions;
use super::scenario::shrinking;
use crate::exit::Exit;

const SCENARIOS: [&str; 4] = ["smartmem-1", "smartmem-2", "smartmem-3", "smartmem-usemem"];

/// Options of the run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run only these scenarios, with commas between
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(SCENARIOS))]
    scenarios: Vec<String>,
    /// Say what happens to a tenant that holds more than its target: `never` is as in the paper
    #[arg(long, value_delimiter = ',', default_value = "active,never", value_name = "NAMES", value_parser = shrinking)]
    shrink: Vec<ShrinkMode>,
}

/// Runs one report per scenario and way of shrinking, so that each has its own greedy.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
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
