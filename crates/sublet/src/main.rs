//! Sublet: a host's idle memory, put to work until its owner asks for it back.
//!
//! One file a subcommand: `Args`, which clap fills in, and `run`, which says how it ended.

#![deny(unsafe_code)]

mod bench;
mod config;
mod doctor;
mod exit;
mod generate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A host's idle memory, put to work until its owner asks for it back.
#[derive(Parser)]
#[command(
    name = "sublet",
    version,
    max_term_width = 100,
    subcommand_required = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check a config file, or print one with every default
    Config(config::Args),
    /// Say what on this host would make Sublet slow or unsafe
    Doctor(doctor::Args),
    /// Measure Sublet on this machine, beside a peer where there is one
    Bench(bench::Args),
    #[command(flatten)]
    BenchChore(bench::Chore),
    /// Write the man page or a shell's completions
    #[command(hide = true)]
    Generate(generate::Args),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Config(args) => config::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::BenchChore(chore) => chore.run(),
        Command::Generate(args) => generate::run(&args),
    }
    .into()
}
