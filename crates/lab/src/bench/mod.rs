//! `sublet-lab bench`: what Sublet claims about speed and memory, measured on this machine beside a peer.

mod amount;
mod baseline;
mod block;
mod block_orders;
mod both;
mod chart;
mod child;
mod chores;
mod cores;
mod error;
mod folder;
mod follow;
mod gang;
mod group;
mod idle;
mod keeper;
mod keyspace;
mod latency;
mod load;
mod machine;
mod memcached;
mod memory;
mod ours;
mod pair;
mod plot;
mod pressure;
mod progress;
mod recovery;
mod release;
mod replay;
mod report;
mod rig;
mod shuffle;
mod sizes;
mod status;
mod store;
mod stream;
mod subject;
mod traces;

use std::io::{self, Write};
use std::path::PathBuf;

use crate::exit::Exit;
use crate::plot_file::plot_file;
pub(crate) use chores::Chore;
use error::BenchError;
use machine::Machine;
use progress::Progress;
use report::Report;

/// Measures Sublet on this machine, beside a peer where there is one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
    /// Print the rows as JSON (docs/benches.md).
    #[arg(long, global = true)]
    json: bool,
    /// Draw the rows and curves into this file.
    #[arg(long, global = true, value_name = "FILE.svg", value_parser = plot_file)]
    plot: Option<PathBuf>,
    /// End with exit code 1 if a goal does not hold.
    #[arg(long, global = true)]
    strict: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// Throughput, round trips, CPU and memory beside memcached's
    Memcached(memcached::Args),
    /// How many items the same memory keeps
    Memory(memory::Args),
    /// One client, one request at a time (Mortar's figure 7)
    Latency(latency::Args),
    /// Misses on public and made traces at equal memory
    Traces(traces::Args),
    /// How fast memory is given back, and how soon the hit rate recovers (Mortar's figure 14)
    Release(release::Args),
    /// What a put and a get of a page cost beside the bare copy of it
    Store(store::Args),
    /// Reads of disks' pages beside nbdkit and qemu-storage-daemon, and what memory before a slow disk is worth
    Block(block::Args),
    /// What the daemon costs while nobody asks anything
    Idle(idle::Args),
    /// A program takes memory as fast as it can
    Pressure(pressure::Args),
    /// The arena follows the idle memory of a host of the past
    Follow(follow::Args),
    /// What a look at a large daemon costs, and what it costs those who get meanwhile
    Status(status::Args),
}

/// Runs one bench and shows what it found on stdout.
pub(crate) fn run(args: &Args) -> Exit {
    let machine = Machine::this();
    match measure_and_draw(args, &machine) {
        Err(error) => Exit::failed(error),
        Ok(report) => {
            let written = Exit::written(show(args, &machine, &report));
            if args.strict && !report.holds() {
                return Exit::failed("a goal does not hold");
            }
            written
        }
    }
}

fn measure_and_draw(args: &Args, machine: &Machine) -> Result<Report, BenchError> {
    let progress = Progress::new();
    let (title, report) = measure(&args.bench, &progress)?;
    progress.finish();
    if let Some(path) = &args.plot {
        plot::draw(path, title, machine, &report)?;
    }
    Ok(report)
}

fn show(args: &Args, machine: &Machine, report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", report.json(machine))
    } else {
        write!(out, "{}", report.text(machine))
    }
}

fn measure(bench: &Bench, progress: &Progress) -> Result<(&'static str, Report), BenchError> {
    Ok(match bench {
        Bench::Memcached(args) => ("memcached", memcached::run(args, progress)?),
        Bench::Memory(args) => ("memory", memory::run(args, progress)?),
        Bench::Latency(args) => ("latency", latency::run(args, progress)?),
        Bench::Traces(args) => ("traces", traces::run(args, progress)?),
        Bench::Release(args) => ("release", release::run(args, progress)?),
        Bench::Store(args) => ("store", store::run(args, progress)?),
        Bench::Block(args) => ("block", block::run(args, progress)?),
        Bench::Idle(args) => ("idle", idle::run(args, progress)?),
        Bench::Pressure(args) => ("pressure", pressure::run(args, progress)?),
        Bench::Follow(args) => ("follow", follow::run(args, progress)?),
        Bench::Status(args) => ("status", status::run(args, progress)?),
    })
}
