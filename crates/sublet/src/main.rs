//! Sublet: it puts a host's idle memory to work until the owner asks for it back.
//!
//! There is one file per subcommand: `Args`, which clap fills in, and `run`, which returns how it ended.

#![deny(unsafe_code)]

mod admin_options;
mod cluster;
mod config;
mod disk;
mod doctor;
mod events;
mod evicted_tables;
mod exit;
mod formatting;
mod generate;
mod grants;
mod keeper;
mod lend;
mod memcached;
mod moved_commands;
mod notice_period;
mod policy;
mod release;
mod saves;
mod serve;
mod signals;
mod status;
mod tenants;
mod timestamp;
mod watch;
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
    command: SubletCommand,
}

#[derive(Subcommand)]
enum SubletCommand {
    /// Run the daemon: serve this host's idle memory until its owner wants it back
    Serve(serve::Args),
    /// Show what the daemon holds, for whom, and why not more
    Status(status::Args),
    /// Show the tenants, and change what each is granted
    Tenants(tenants::Args),
    /// Serve disks and swap to virtual machines: add, show, resize, flush and remove them
    Disk(disk::Args),
    /// Show and change how much each tenant may hold, and ask why
    Policy(policy::Args),
    /// Show and drain what hosts lend each other, and make the certificates by which they know each other
    Lend(lend::Args),
    /// Show who leads the cluster, who takes part and who should borrow of whom, and leave or join it
    Cluster(cluster::Args),
    /// Show events, and follow new ones
    Events(events::Args),
    /// Give memory back to the host by hand
    Release(release::Args),
    /// Take memcached's place: its own command line, its protocols
    Memcached(memcached::Args),
    /// Check a config file, or print one with every default
    Config(config::Args),
    /// Say what on this host would make Sublet slow or unsafe
    Doctor(doctor::Args),
    /// Say which program has the benches
    #[command(hide = true)]
    Bench(moved_commands::Args),
    /// Say which program has the simulations
    #[command(hide = true)]
    Sim(moved_commands::Args),
    /// Write the man page or a shell's completions
    #[command(hide = true)]
    Generate(generate::Args),
    /// Keep pages of swap while no daemon runs; the daemon starts this itself
    #[command(hide = true)]
    Keep(keeper::Args),
}

fn main() -> ExitCode {
    if let Err(error) = signals::survive_large_files() {
        return Exit::failed(format_args!("cannot handle signals: {error}")).into();
    }
    match Cli::parse().command {
        SubletCommand::Serve(args) => serve::run(&args),
        SubletCommand::Status(args) => status::run(&args),
        SubletCommand::Tenants(args) => tenants::run(&args),
        SubletCommand::Disk(args) => disk::run(&args),
        SubletCommand::Policy(args) => policy::run(&args),
        SubletCommand::Lend(args) => lend::run(&args),
        SubletCommand::Cluster(args) => cluster::run(&args),
        SubletCommand::Events(args) => events::run(&args),
        SubletCommand::Release(args) => release::run(&args),
        SubletCommand::Memcached(args) => return memcached::run(args),
        SubletCommand::Config(args) => config::run(&args),
        SubletCommand::Doctor(args) => doctor::run(&args),
        SubletCommand::Bench(args) => moved_commands::run("bench", &args),
        SubletCommand::Sim(args) => moved_commands::run("sim", &args),
        SubletCommand::Generate(args) => generate::run(&args, Cli::command()),
        SubletCommand::Keep(args) => keeper::run(&args),
    }
    .into()
}
