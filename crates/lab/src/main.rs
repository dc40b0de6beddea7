//! Sublet's laboratory. It measures the claims about speed and memory on this machine, and simulates hosts in virtual
//! time.
//!
//! Benches start the daemon as a process: the `sublet` beside this program, or the one that `--sublet` names.
//! Simulations run the daemon's own store and policies in this process.

#![deny(unsafe_code)]

mod bench;
mod exit;
mod generate;
mod plot_file;
mod sim;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Measures Sublet, and simulates it.
#[derive(Parser)]
#[command(
    name = "sublet-lab",
    version,
    max_term_width = 100,
    subcommand_required = true
)]
struct Cli {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Measure Sublet on this machine, beside a peer if there is one
    Bench(bench::Args),
    /// Simulate virtual machines and traces over the real store and policies
    Sim(sim::Args),
    #[command(flatten)]
    Chore(bench::ChildCommand),
    /// Write the man page or a shell's completions
    #[command(hide = true)]
    Generate(generate::Args),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        LabCommand::Bench(args) => bench::run(&args),
        LabCommand::Sim(args) => sim::run(&args),
        LabCommand::Chore(chore) => chore.run(),
        LabCommand::Generate(args) => generate::run(&args, Cli::command()),
    }
    .into()
}
