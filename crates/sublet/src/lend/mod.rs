//! `sublet lend`: lending of memory between hosts.

mod authority_folder;
mod ca;
mod ca_error;
mod certificates;
mod draft_file;

use std::io::{self, Write};

use crate::exit::Exit;

/// What to do about lending.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    topic: LendCommand,
}

#[derive(clap::Subcommand)]
enum LendCommand {
    /// Make the certificates of a cluster's nodes, without a PKI
    Ca(ca::CaArgs),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Exit {
    let LendCommand::Ca(ca) = &args.topic;
    match ca.run() {
        Ok(text) => Exit::written(io::stdout().write_all(text.as_bytes())),
        Err(error) => Exit::failed(error),
    }
}
