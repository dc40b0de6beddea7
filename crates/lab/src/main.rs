//! Sublet's laboratory: what is claimed of speed and memory, measured on this machine; and hosts in virtual time.
//!
//! Benches start the daemon as a process: the `sublet` beside this program, or the one that `--sublet` names. Simulations
//! run the daemon's own store and policies in this process.

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
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure Sublet on this machine, beside a peer where there is one
    Bench(bench::Args),
    /// Simulate virtual machines and traces over the real store and policies
    Sim(sim::Args),
    #[command(flatten)]
    Chore(bench::Chore),
    /// Write the man page or a shell's completions
    #[command(hide = true)]
    Generate(generate::Args),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Chore(chore) => chore.run(),
        Command::Generate(args) => generate::run(&args, Cli::command()),
    }
    .into()
}
