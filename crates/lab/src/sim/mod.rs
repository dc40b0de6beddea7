//! `sublet-lab sim`: hosts and their virtual machines in virtual time, over the daemon's own store and policies.

mod compare;
mod compare_args;
mod disk;
mod error;
mod how;
mod list;
mod made;
mod mortar;
mod play;
mod progress;
mod results;
mod run;
mod scenario;
mod sharing;
mod smartmem;
mod synergy;
mod traces;

use crate::exit::Exit;
use error::SimError;
use how::How;

/// Runs virtual machines in virtual time over the real store and policies (docs/simulator/README.md).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Run a scenario: a file, or one that is shipped
    Run(run::Args),
    /// List the scenarios that are shipped
    List,
    /// Run a scenario, or traces, with several policies and evictions, the first as the yard-stick
    Compare(compare_args::Args),
    /// Six tenants in one arena: what each policy costs them together
    Sharing(sharing::Args),
    /// Ways of caching a guest's disk that does not hear what the guest evicts
    Disk(disk::Args),
    /// SmarTmem's scenarios of Table II, every policy, beside what the paper found
    Smartmem(smartmem::Args),
    /// Mortar's figure 10: an elastic store beside a fixed one
    Mortar,
    /// Synergy's table 8: eviction by file beside block LRU
    Synergy,
    /// Run the experiments of docs/simulator/results.md, keep what they come to, and render the page
    Results(results::Args),
}

impl Verb {
    /// A flag that was given and would change nothing.
    fn unheard(&self, how: &How) -> Option<&'static str> {
        let judges = [(how.unwatched, "--unwatched"), (how.closely, "--closely")];
        let outcome = [
            (how.seed.is_some(), "--seed"),
            (how.plot.is_some(), "--plot"),
        ];
        let unheard = match self {
            Verb::List => [judges, outcome].concat(),
            Verb::Results(_) => [&judges[..], &outcome, &[(how.json, "--json")]].concat(),
            Verb::Sharing(_) | Verb::Disk(_) => judges.into(),
            Verb::Run(_) | Verb::Compare(_) | Verb::Smartmem(_) | Verb::Mortar | Verb::Synergy => {
                Vec::new()
            }
        };
        let given = unheard.into_iter().find(|(is_given, _)| *is_given);
        given.map(|(_, flag)| flag)
    }
}

/// Runs a simulation and shows what it came to on stdout.
pub(crate) fn run(args: &Args) -> Exit {
    let how = &args.how;
    if let Some(flag) = args.verb.unheard(how) {
        return SimError::Unheard(flag).exit();
    }
    let ended = match &args.verb {
        Verb::List => Ok(list::run(how)),
        Verb::Run(args) => run::run(args, how),
        Verb::Compare(args) => compare::run(args, how),
        Verb::Sharing(args) => sharing::run(args, how),
        Verb::Disk(args) => disk::run(args, how),
        Verb::Smartmem(args) => smartmem::run(args, how),
        Verb::Mortar => mortar::run(how),
        Verb::Synergy => synergy::run(how),
        Verb::Results(args) => Ok(results::run(args)),
    };
    ended.unwrap_or_else(|error| error.exit())
}
