//! `sublet-lab sim`: hosts and their virtual machines in virtual time, over the daemon's own store and policies.

mod cluster;
mod compare;
mod compare_args;
mod disk;
mod error;
mod judge;
mod list;
mod mortar;
mod placement;
mod progress;
mod puma;
mod results;
mod run;
mod run_all;
mod run_options;
mod scenario;
mod sharing;
mod smartmem;
mod synergy;
mod synthetic;
mod traces;
mod vmca;

use crate::exit::Exit;
use error::SimError;
use run_options::RunOptions;

/// Runs virtual machines in virtual time over the real store and policies (docs/simulator/README.md).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: SimCommand,
    #[command(flatten)]
    how: RunOptions,
}

#[derive(Debug, clap::Subcommand)]
enum SimCommand {
    /// Run a scenario: a file, or a built-in one
    Run(run::Args),
    /// List the built-in scenarios
    List,
    /// Run a scenario, or traces, with several policies and evictions, the first as the yard-stick
    Compare(compare_args::Args),
    /// Run six tenants in one arena, and count what each policy costs them together
    Sharing(sharing::Args),
    /// Compare ways of caching a guest's disk that does not see what the guest evicts
    Disk(disk::Args),
    /// Run SmarTmem's scenarios of Table II with every policy, beside what the paper found
    Smartmem(smartmem::Args),
    /// Run Mortar's figure 10: an elastic store beside a fixed one
    Mortar,
    /// Run Synergy's table 8: eviction by file beside block LRU
    Synergy,
    /// Run PUMA's figures 4, 5 and 7 and its tables 1 and 2: a guest whose evicted pages go to another host
    Puma(puma::Args),
    /// Run vMCA's four scenarios: nodes that borrow of idle ones, with its policies and ours, beside what the paper found
    Vmca(vmca::Args),
    /// Compare whom a leader advises to borrow of whom: 300 nodes with peaks, policy by policy
    Placement,
    /// Run nodes that lend to each other under faults, and let judges watch what becomes of pages and blocks
    Cluster(cluster::Args),
    /// Judge what clients of a live cluster asked for and got, as the simulated cluster's judges do
    Judge(judge::Args),
    /// Run the experiments of docs/simulator/results.md, keep what they come to, and render the page
    Results(results::Args),
}

impl SimCommand {
    /// A flag that was given but would change nothing.
    fn useless_flag(&self, how: &RunOptions) -> Option<&'static str> {
        let judges = [(how.unwatched, "--unwatched"), (how.closely, "--closely")];
        let outcome = [
            (how.seed.is_some(), "--seed"),
            (how.plot.is_some(), "--plot"),
        ];
        let unheard = match self {
            SimCommand::List | SimCommand::Judge(_) => [judges, outcome].concat(),
            SimCommand::Results(_) => [&judges[..], &outcome, &[(how.json, "--json")]].concat(),
            SimCommand::Sharing(_) | SimCommand::Disk(_) | SimCommand::Puma(_) => judges.into(),
            SimCommand::Placement => [&judges[..], &outcome[1..]].concat(),
            SimCommand::Cluster(_) => [&judges[..], &[(how.plot.is_some(), "--plot")]].concat(),
            SimCommand::Run(_)
            | SimCommand::Compare(_)
            | SimCommand::Smartmem(_)
            | SimCommand::Mortar
            | SimCommand::Synergy
            | SimCommand::Vmca(_) => Vec::new(),
        };
        let given = unheard.into_iter().find(|(is_given, _)| *is_given);
        given.map(|(_, flag)| flag)
    }
}

/// Runs a simulation and writes its outcome to stdout.
pub(crate) fn run(args: &Args) -> Exit {
    let how = &args.how;
    if let Some(flag) = args.verb.useless_flag(how) {
        return SimError::UselessFlag(flag).exit();
    }
    let ended = match &args.verb {
        SimCommand::List => Ok(list::run(how)),
        SimCommand::Run(args) => run::run(args, how),
        SimCommand::Compare(args) => compare::run(args, how),
        SimCommand::Sharing(args) => sharing::run(args, how),
        SimCommand::Disk(args) => disk::run(args, how),
        SimCommand::Smartmem(args) => smartmem::run(args, how),
        SimCommand::Mortar => mortar::run(how),
        SimCommand::Synergy => synergy::run(how),
        SimCommand::Puma(args) => puma::run(args, how),
        SimCommand::Vmca(args) => vmca::run(args, how),
        SimCommand::Placement => placement::run(how),
        SimCommand::Cluster(args) => cluster::run(args, how),
        SimCommand::Judge(args) => judge::run(args, how),
        SimCommand::Results(args) => Ok(results::run(args)),
    };
    ended.unwrap_or_else(|error| error.exit())
}
