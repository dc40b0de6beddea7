//! Sublet: a host's idle memory, put to work until its owner asks for it back.
//!
//! One file a subcommand: `Args`, which clap fills in, and `run`, which says how it ended.

#![deny(unsafe_code)]

mod config;
mod disk;
mod doctor;
mod events;
mod exit;
mod generate;
mod grants;
mod keep;
mod leavers;
mod memcached;
mod moment;
mod moved;
mod policy;
mod print;
mod reach;
mod release;
mod saves;
mod serve;
mod signals;
mod status;
mod tenants;
mod what_if;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::Exit;

/// A host's idle memory, put to work until its owner asks for it back.
#[derive(Parser)]
#[command(
    name = "sublet",
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
    /// Run the daemon: serve this host's idle memory until its owner wants it back
    Serve(serve::Args),
    /// Show what the daemon holds, for whom, and why not more
    Status(status::Args),
    /// Show who is served, and change what each is granted
    Tenants(tenants::Args),
    /// Serve disks and swap to virtual machines: add, show, resize, flush and remove them
    Disk(disk::Args),
    /// Show and change who may hold how much, and ask why
    Policy(policy::Args),
    /// Show what happened, and go on with what comes
    Events(events::Args),
    /// Give memory back to the host by hand
    Release(release::Args),
    /// Take memcached's place: its own command line, its protocols
    Memcached(memcached::Args),
    /// Check a config file, or print one with every default
    Config(config::Args),
    /// Say what on this host would make Sublet slow or unsafe
    Doctor(doctor::Args),
    /// Say where benches are
    #[command(hide = true)]
    Bench(moved::Args),
    /// Say where simulations are
    #[command(hide = true)]
    Sim(moved::Args),
    /// Write the man page or a shell's completions
    #[command(hide = true)]
    Generate(generate::Args),
    /// Keep pages of swap while no daemon runs; the daemon starts this itself
    #[command(hide = true)]
    Keep(keep::Args),
}

fn main() -> ExitCode {
    if let Err(error) = signals::survive_large_files() {
        return Exit::failed(format_args!("cannot hear signals: {error}")).into();
    }
    match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Tenants(args) => tenants::run(&args),
        Command::Disk(args) => disk::run(&args),
        Command::Policy(args) => policy::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Release(args) => release::run(&args),
        Command::Memcached(args) => return memcached::run(args),
        Command::Config(args) => config::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => moved::run("bench", &args),
        Command::Sim(args) => moved::run("sim", &args),
        Command::Generate(args) => generate::run(&args, Cli::command()),
        Command::Keep(args) => keep::run(&args),
    }
    .into()
}
