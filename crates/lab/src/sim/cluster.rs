//! `sublet-lab sim cluster`: nodes that lend to each other, under faults, in virtual time.

use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use sublet_policy::placement::PlacementPolicy;
use sublet_policy::placement::catalogue::{self, PlacementChoiceError};
use sublet_sim::cluster::{
    ClusterOutcome, ClusterPlan, ClusterReport, ClusterRun, Leadership, MESH_NODES_MAX, Mutation,
    MutationReport, MutationRow, NODES_MAX, TraceLength, UnknownMutation,
};

use super::error::SimError;
use super::progress::SimProgress;
use super::results::peak_of;
use super::run_all::side_by_side;
use super::run_options::RunOptions;
use crate::exit::Exit;

/// Runs with a rule left out that are tried until a judge finds it.
const MUTATION_RUNS: u64 = 200;

/// Options of the cluster.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Simulate so many nodes
    #[arg(long, default_value_t = 5, value_name = "N",
        value_parser = clap::value_parser!(u16).range(2..=i64::from(NODES_MAX)))]
    nodes: u16,
    /// Run so many seeds from --seed on [default: 1 with --seed, else 100; with --mutate at most 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Who leads: `mesh` (each node has a connection with each), `none`, `static` (settings name one) or `etcd` (an
    /// election) [default: the seed draws it]
    #[arg(long, value_name = "HOW")]
    leader: Option<Leadership>,
    /// How a leader chooses lenders: a policy of `sublet-lab sim placement` [default: the seed draws it]
    #[arg(long, value_name = "POLICY", value_parser = placement)]
    placement: Option<PlacementPolicy>,
    /// Leave a rule out until a judge finds it; `all` leaves out each in turn
    #[arg(long, value_name = "RULE")]
    mutate: Option<LeftOut>,
    /// Print everything that happened
    #[arg(long, conflicts_with = "mutate")]
    trace: bool,
}

/// What runs leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftOut {
    One(Mutation),
    Each,
}

impl FromStr for LeftOut {
    type Err = UnknownMutation;

    fn from_str(word: &str) -> Result<LeftOut, UnknownMutation> {
        match word {
            "all" => Ok(LeftOut::Each),
            word => word.parse().map(LeftOut::One),
        }
    }
}

fn placement(name: &str) -> Result<PlacementPolicy, PlacementChoiceError> {
    catalogue::find(name).map(|entry| entry.policy)
}

impl Args {
    fn plan(&self) -> ClusterPlan {
        ClusterPlan {
            leadership: self.leader,
            placement: self.placement,
            ..ClusterPlan::of(self.nodes)
        }
    }

    fn run_of(&self, seed: u64, mutation: Option<Mutation>) -> ClusterRun {
        ClusterRun {
            plan: self.plan(),
            seed,
            mutation,
            trace: match self.trace {
                true => TraceLength::Whole,
                false => TraceLength::End,
            },
        }
    }
}

/// Runs clusters.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    if args.leader == Some(Leadership::Mesh) && args.nodes > MESH_NODES_MAX {
        return Err(SimError::MeshTooLarge {
            nodes: args.nodes,
            most: MESH_NODES_MAX,
        });
    }
    match args.mutate {
        None => run_seeds(args, how),
        Some(LeftOut::One(mutation)) => run_mutations(args, how, &[mutation]),
        Some(LeftOut::Each) => run_mutations(args, how, &Mutation::ALL),
    }
}

fn run_seeds(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    let seeds = args.seeds.unwrap_or(match how.seed {
        Some(_) => 1,
        None => 100,
    });
    let progress = SimProgress::new();
    progress.expect(seeds as usize);
    progress.show_message(format!("{} nodes", args.nodes));
    let outcomes = side_by_side(seeds as usize, |number| {
        let run = args.run_of(how.seed() + number as u64, None);
        let outcome = run.play_telling(&mut |at| {
            if seeds == 1 {
                progress.show_message(format!("{} nodes, {:.0} s", args.nodes, at.secs()));
            }
        });
        progress.end();
        outcome
    });
    progress.finish();
    let outcomes: Result<Vec<ClusterOutcome>, _> = outcomes.into_iter().collect();
    let report = ClusterReport {
        plan: args.plan(),
        mutation: None,
        outcomes: outcomes?,
    };
    let written = write(how, || report.text(), || report.json());
    if seeds == 1 {
        let peak = peak_of(Path::new("/proc/self/status"));
        eprintln!("peak of memory: {} MiB", peak / 1024);
    }
    Ok(match report.holds() {
        true => written,
        false => Exit::failed("the judges found wrongs; please report them with the seed"),
    })
}

/// Leaves rules out, each until a judge finds it.
fn run_mutations(args: &Args, how: &RunOptions, rules: &[Mutation]) -> Result<Exit, SimError> {
    if let (Some(seed), None, [mutation]) = (how.seed, args.seeds, rules) {
        return replay(args, how, args.run_of(seed, Some(*mutation)));
    }
    let progress = SimProgress::new();
    progress.expect(rules.len());
    let rows = side_by_side(rules.len(), |number| {
        progress.show_message(rules[number].name().to_owned());
        let row = find(args, how, rules[number]);
        progress.end();
        row
    });
    progress.finish();
    let rows: Result<Vec<MutationRow>, SimError> = rows.into_iter().collect();
    let report = MutationReport {
        nodes: args.nodes,
        rows: rows?,
    };
    let written = write(how, || report.text(), || report.json());
    Ok(match report.holds() {
        true => written,
        false => Exit::failed("a rule was left out, and the judge that is to find it did not"),
    })
}

fn find(args: &Args, how: &RunOptions, mutation: Mutation) -> Result<MutationRow, SimError> {
    let seeds = args.seeds.unwrap_or(MUTATION_RUNS);
    for number in 0..seeds {
        let outcome = args.run_of(how.seed() + number, Some(mutation)).play()?;
        if outcome.verdict.is_some() {
            return Ok(MutationRow {
                mutation,
                runs: number as usize + 1,
                found: Some(outcome),
            });
        }
    }
    Ok(MutationRow {
        mutation,
        runs: seeds as usize,
        found: None,
    })
}

/// Plays one seed with a rule left out, and shows what happened.
fn replay(args: &Args, how: &RunOptions, run: ClusterRun) -> Result<Exit, SimError> {
    let report = ClusterReport {
        plan: args.plan(),
        mutation: run.mutation,
        outcomes: vec![run.play()?],
    };
    let written = write(how, || report.text(), || report.json());
    Ok(match report.holds() {
        false => written,
        true => Exit::failed("a rule was left out, and no judge found it with this seed"),
    })
}

fn write(
    how: &RunOptions,
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> serde_json::Value,
) -> Exit {
    let mut out = io::stdout().lock();
    Exit::written(match how.json {
        true => writeln!(out, "{:#}", json()),
        false => write!(out, "{}", text()),
    })
}
