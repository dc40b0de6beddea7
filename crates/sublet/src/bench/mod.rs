//! `sublet bench`: what Sublet claims about speed and memory, measured on this machine beside a peer.

mod machine;
mod plot;
mod progress;
mod report;

use std::io::{self, Write};
use std::path::PathBuf;

use crate::exit::Exit;
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
    #[arg(long, global = true, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// End with exit code 1 if a goal does not hold.
    #[arg(long, global = true)]
    strict: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {}

/// Why a bench could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The plot could not be written.
    #[error(transparent)]
    Plot(#[from] plot::PlotError),
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
    match *bench {}
}
