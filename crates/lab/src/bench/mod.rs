//! `sublet-lab bench`: Sublet's claims about speed and memory, measured on this machine beside a peer.

mod amount;
mod baseline;
mod bench_store;
mod block_orders;
mod cgroup;
mod chart;
mod child_commands;
mod cores;
mod disks;
mod error;
mod folder;
mod follow;
mod host_change;
mod host_change_guard;
mod idle;
mod keyspace;
mod latency;
mod lend;
mod load_generator;
mod machine;
mod memcached;
mod memory;
mod page_content;
mod pair;
mod paired_rounds;
mod plot;
mod pressure;
mod progress;
mod recovery;
mod release;
mod replay;
mod report;
mod request_stream;
mod server_fleet;
mod shuffle;
mod sizes;
mod status;
mod store;
mod store_lease;
mod sublet_option;
mod tested_server;
mod traces;

use std::io::{self, Write};
use std::path::PathBuf;

use crate::exit::Exit;
use crate::plot_file::plot_file;
pub(crate) use child_commands::ChildCommand;
use error::BenchError;
use machine::MachineFacts;
use progress::BenchProgress;
use report::BenchReport;

/// Measures Sublet on this machine, beside a peer if there is one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: BenchCommand,
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
enum BenchCommand {
    /// Measure throughput, round trips, CPU and memory beside memcached
    Memcached(memcached::Args),
    /// Count how many items the same memory keeps
    Memory(memory::Args),
    /// Measure one client with one request at a time (Mortar's figure 7)
    Latency(latency::Args),
    /// Count misses on public and synthetic traces at equal memory
    Traces(traces::Args),
    /// Measure how fast memory is given back, and how soon the hit rate recovers (Mortar's figure 14)
    Release(release::Args),
    /// Compare a put and a get of a page with the bare copy of it
    Store(store::Args),
    /// Measure reads of disks' pages beside nbdkit and qemu-storage-daemon, and the gain from memory before a slow disk
    Block(disks::Args),
    /// Measure pages at a lender beside other servers of pages, and how soon a lender has its memory back
    Lend(lend::Args),
    /// Measure the costs of a daemon that gets no requests
    Idle(idle::Args),
    /// Let a program take memory as fast as it can
    Pressure(pressure::Args),
    /// Let the arena follow the idle memory of a recorded host
    Follow(follow::Args),
    /// Measure what a scrape of a large daemon costs, and what it costs concurrent gets
    Status(status::Args),
}

/// Runs one bench and writes its results to stdout.
pub(crate) fn run(args: &Args) -> Exit {
    let machine = MachineFacts::this();
    match measure_and_draw(args, &machine) {
        Err(error) => Exit::failed(error),
        Ok(report) => {
            let written = Exit::written(show(args, &machine, &report));
            match report.failures.first() {
                Some(failure) => Exit::failed(failure),
                None if args.strict && !report.holds() => Exit::failed("a goal does not hold"),
                None => written,
            }
        }
    }
}

fn measure_and_draw(args: &Args, machine: &MachineFacts) -> Result<BenchReport, BenchError> {
    let progress = BenchProgress::new();
    let (title, report) = measure(&args.bench, &progress)?;
    progress.finish();
    if let Some(path) = &args.plot {
        plot::draw(path, title, machine, &report)?;
    }
    Ok(report)
}

fn show(args: &Args, machine: &MachineFacts, report: &BenchReport) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", report.json(machine))
    } else {
        write!(out, "{}", report.text(machine))
    }
}

fn measure(
    bench: &BenchCommand,
    progress: &BenchProgress,
) -> Result<(&'static str, BenchReport), BenchError> {
    Ok(match bench {
        BenchCommand::Memcached(args) => ("memcached", memcached::run(args, progress)?),
        BenchCommand::Memory(args) => ("memory", memory::run(args, progress)?),
        BenchCommand::Latency(args) => ("latency", latency::run(args, progress)?),
        BenchCommand::Traces(args) => ("traces", traces::run(args, progress)?),
        BenchCommand::Release(args) => ("release", release::run(args, progress)?),
        BenchCommand::Store(args) => ("store", store::run(args, progress)?),
        BenchCommand::Block(args) => ("block", disks::run(args, progress)?),
        BenchCommand::Lend(args) => ("lend", lend::run(args, progress)?),
        BenchCommand::Idle(args) => ("idle", idle::run(args, progress)?),
        BenchCommand::Pressure(args) => ("pressure", pressure::run(args, progress)?),
        BenchCommand::Follow(args) => ("follow", follow::run(args, progress)?),
        BenchCommand::Status(args) => ("status", status::run(args, progress)?),
    })
}
