//! `sublet config`: a file to start from, and what is wrong with one.

use std::io::{self, Write};
use std::path::PathBuf;

use sublet_host::config;

use crate::exit::Exit;
use crate::status::counted;

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Say what is wrong with a config file
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print a commented config file with every default
    Default,
}

/// Does it.
pub(crate) fn run(args: &Args) -> Exit {
    match &args.verb {
        Verb::Default => Exit::written(io::stdout().write_all(config::default_file().as_bytes())),
        Verb::Check { file } => match config::check(file) {
            Ok(config) => Exit::written(writeln!(
                io::stdout(),
                "{} is right: {}{}",
                file.display(),
                counted(config.tenants.len() as u64, "tenant"),
                match config.disks.len() as u64 {
                    0 => String::new(),
                    disks => format!(", {}", counted(disks, "disk")),
                }
            )),
            Err(faults) => Exit::usage(faults),
        },
    }
}
