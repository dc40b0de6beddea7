//! `sublet lend`: lending of memory between hosts.

mod authority_folder;
mod ca;
mod ca_error;
mod certificates;
mod draft_file;
mod drain;
mod leases;
pub(crate) mod peer_tables;
mod status;

pub(crate) use self::status::summary_lines;

use std::io::{self, Write};

use sublet_client::messages::ResumeLending;

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::grants::TemporaryFlag;

/// What to do about lending.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    topic: LendCommand,
}

#[derive(clap::Subcommand)]
enum LendCommand {
    /// Show how much is lent to whom and borrowed of whom, and how each peer is
    Status(status::StatusArgs),
    /// Show every lease: which peer has how much of this host, or this host of it
    List(leases::ListArgs),
    /// Stop lending, and take back what is lent; it lasts until `sublet lend resume`, over restarts too
    Drain(drain::DrainArgs),
    /// Lend again after a drain
    Resume {
        #[command(flatten)]
        lifetime: TemporaryFlag,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Take everything back that is lent; the host lends again half a minute later
    Recall {
        /// Take it at once, without notice
        #[arg(long, required = true)]
        now: bool,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Make the certificates of a cluster's nodes, without a PKI
    Ca(ca::CaArgs),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Exit {
    let text = match &args.topic {
        LendCommand::Status(args) => return args.run(),
        LendCommand::Drain(args) => return args.run(),
        LendCommand::List(args) => args.text(),
        LendCommand::Resume { lifetime, daemon } => {
            let resume = ResumeLending {
                lasts: lifetime.lasts(),
            };
            let status = daemon.call(|admin| admin.resume_lending(&resume));
            status.map(|status| status::page(&status))
        }
        LendCommand::Recall { daemon, .. } => {
            let status = daemon.call(|admin| admin.recall_lent());
            status.map(|status| status::page(&status))
        }
        LendCommand::Ca(ca) => ca.run().map_err(Exit::failed),
    };
    match text {
        Ok(text) => Exit::written(io::stdout().write_all(text.as_bytes())),
        Err(exit) => exit,
    }
}
