//! `sublet sim`: hosts and their virtual machines in virtual time, over the daemon's own store and policies.

mod compare;
mod disk;
mod list;
mod made;
mod mortar;
mod play;
mod progress;
mod run;
mod scenario;
mod sharing;
mod smartmem;
mod synergy;
mod traces;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sublet_sim::cached_disk::PlayError;
use sublet_sim::machine::tier_store::StoreTierError;
use sublet_sim::outcome::Outcome;
use sublet_sim::papers::{Experiment, Plan};
use sublet_sim::plot::PlotError;
use sublet_sim::report::Report;
use sublet_sim::run::{RunError, Watch};
use sublet_sim::scenario::{Scenario, ScenarioError};
use sublet_sim::sharing::{SetError, SharingError};
use sublet_sim::traces::{FormatError, TraceError};
use sublet_types::Shrinking;

use crate::exit::Exit;
use crate::plot_file::plot_file;
use progress::Progress;

/// Runs virtual machines in virtual time over the real store and policies (docs/simulator.md).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    how: How,
}

/// How every simulation is run and shown.
#[derive(Debug, clap::Args)]
struct How {
    /// All luck comes from this number; the scenario's own where it is not given, 1 where tenants share, else 0.
    #[arg(long, global = true, value_name = "N")]
    seed: Option<u64>,
    /// Print the outcome as JSON (docs/simulator.md).
    #[arg(long, global = true)]
    json: bool,
    /// Draw the outcome into this file.
    #[arg(long, global = true, value_name = "FILE.svg", value_parser = plot_file)]
    plot: Option<PathBuf>,
    /// Let no judge watch the store: faster, and with less memory. None watches where tenants share, and guests' disks.
    #[arg(long, global = true)]
    unwatched: bool,
    /// Have the judges count all frames and figures after every event, not only now and then: slow.
    #[arg(long, global = true, conflicts_with = "unwatched")]
    closely: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Run a scenario: a file, or one that is shipped
    Run(run::Args),
    /// List the scenarios that are shipped
    List,
    /// Run a scenario, or traces, with several policies and evictions, the first as the yard-stick
    Compare(compare::Args),
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
            Verb::Sharing(_) | Verb::Disk(_) => judges.into(),
            Verb::Run(_) | Verb::Compare(_) | Verb::Smartmem(_) | Verb::Mortar | Verb::Synergy => {
                Vec::new()
            }
        };
        let given = unheard.into_iter().find(|(is_given, _)| *is_given);
        given.map(|(_, flag)| flag)
    }
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimError {
    /// Neither a file nor a shipped scenario.
    #[error(
        "there is no file {0:?}, and no scenario of that name is shipped; `sublet sim list` names those that are"
    )]
    NoScenario(String),
    /// A scenario that cannot be read.
    #[error("cannot read {file}: {cause}; give a scenario's file or name")]
    Unreadable {
        /// The file.
        file: String,
        /// Why not.
        cause: io::Error,
    },
    /// A flag that would change nothing.
    #[error("{0} changes nothing in what was asked for; leave it out")]
    Unheard(&'static str),
    /// A scenario that makes no sense.
    #[error(transparent)]
    Scenario(Box<ScenarioError>),
    /// A trace whose name tells no format.
    #[error("{file}: {cause} (--format)")]
    Format {
        /// The file.
        file: String,
        /// What is wrong.
        cause: FormatError,
    },
    /// A trace cannot be opened.
    #[error("cannot open {file}: {cause}")]
    NoTrace {
        /// The file.
        file: String,
        /// Why not.
        cause: io::Error,
    },
    /// A trace without an access.
    #[error(
        "{0} holds no access, so there is nothing to replay; fetch the file again, or say its format (--format)"
    )]
    EmptyTrace(String),
    /// A trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A scenario did not run to its end.
    #[error("{scenario} ({label}): {cause}")]
    Run {
        /// Which.
        scenario: String,
        /// With what.
        label: String,
        /// Why not.
        cause: Box<RunError>,
    },
    /// This machine has no memory for a simulated store.
    #[error(transparent)]
    Store(#[from] StoreTierError),
    /// A trace could not be done to its end.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// A set's trace cannot be read.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A set could not be played.
    #[error(transparent)]
    Sharing(#[from] SharingError),
    /// The plot could not be made.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The plot could not be written.
    #[error("cannot write {file}: {cause}; --plot wants a file in a folder that is there")]
    Unwritable {
        /// The file.
        file: String,
        /// Why not.
        cause: io::Error,
    },
}

impl From<ScenarioError> for SimError {
    fn from(error: ScenarioError) -> SimError {
        SimError::Scenario(Box::new(error))
    }
}

impl SimError {
    fn exit(&self) -> Exit {
        match self {
            SimError::NoScenario(_)
            | SimError::Unreadable { .. }
            | SimError::Scenario(_)
            | SimError::Unheard(_)
            | SimError::Format { .. } => Exit::usage(self),
            SimError::NoTrace { .. }
            | SimError::EmptyTrace(_)
            | SimError::Trace(_)
            | SimError::Run { .. }
            | SimError::Store(_)
            | SimError::Play(_)
            | SimError::Set(_)
            | SimError::Sharing(_)
            | SimError::Plot(_)
            | SimError::Unwritable { .. } => Exit::failed(self),
        }
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
    };
    ended.unwrap_or_else(|error| error.exit())
}

impl How {
    /// The seed of what has none of its own.
    fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    fn watch(&self) -> Watch {
        match (self.unwatched, self.closely) {
            (true, _) => Watch::Nobody,
            (false, true) => Watch::Closely,
            (false, false) => Watch::Full,
        }
    }

    /// Runs each of `scenarios`, whose files lie in `folder`.
    fn play(
        &self,
        scenarios: Vec<Scenario>,
        folder: &Path,
        progress: &Progress,
    ) -> Result<Vec<Outcome>, SimError> {
        let seeded = scenarios.into_iter().map(|scenario| Scenario {
            seed: self.seed.unwrap_or(scenario.seed),
            ..scenario
        });
        let seeded: Vec<Scenario> = seeded.collect();
        play::all(&seeded, folder, self.watch(), progress)
    }

    /// Plays a paper's experiments, a report each, with what the paper found.
    fn play_paper(&self, paper: &str, shrinks: &[Shrinking]) -> Result<Vec<Report>, SimError> {
        let experiments: Vec<&Experiment> = Experiment::of_paper(paper).collect();
        self.play_experiments(&experiments, shrinks)
    }

    fn play_experiments(
        &self,
        experiments: &[&Experiment],
        shrinks: &[Shrinking],
    ) -> Result<Vec<Report>, SimError> {
        let plan = Plan::of(experiments, shrinks)?;
        let progress = Progress::new();
        let outcomes = self.play(plan.scenarios.clone(), Path::new(""), &progress)?;
        progress.finish();
        Ok(plan.reports(&outcomes))
    }

    /// Shows reports, and draws them: several into files that are numbered.
    fn show(&self, reports: &[Report]) -> Result<Exit, SimError> {
        self.draw(reports)?;
        let written = Exit::written(self.write(reports));
        Ok(self.judged(reports, written))
    }

    fn draw(&self, reports: &[Report]) -> Result<(), SimError> {
        for (number, report) in reports.iter().enumerate() {
            if let Some(plot) = self.plot_file(number, reports.len()) {
                write_plot(&plot, &sublet_sim::plot::draw(report)?)?;
            }
        }
        Ok(())
    }

    /// How it ended, or that judges found something.
    fn judged(&self, reports: &[Report], written: Exit) -> Exit {
        match reports.iter().all(Report::holds) {
            true => written,
            false => Exit::failed("the judges found wrongs; please report them with the seed"),
        }
    }

    fn plot_file(&self, number: usize, reports: usize) -> Option<PathBuf> {
        let plot = self.plot.as_ref()?;
        if reports == 1 {
            return Some(plot.clone());
        }
        let stem = plot.file_stem().unwrap_or_default().to_string_lossy();
        Some(plot.with_file_name(format!("{stem}-{}.svg", number + 1)))
    }

    fn write(&self, reports: &[Report]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match (self.json, reports) {
            (true, [report]) => writeln!(out, "{:#}", report.json()),
            (true, reports) => {
                let reports: Vec<_> = reports.iter().map(Report::json).collect();
                writeln!(out, "{:#}", serde_json::Value::from(reports))
            }
            (false, reports) => reports
                .iter()
                .try_for_each(|report| writeln!(out, "{}", report.text())),
        }
    }
}

fn write_plot(file: &Path, svg: &str) -> Result<(), SimError> {
    fs::write(file, svg).map_err(|cause| SimError::Unwritable {
        file: file.display().to_string(),
        cause,
    })
}
