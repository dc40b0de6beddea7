//! `sublet cluster`: who leads the cluster, who takes part, and who should borrow of whom.

mod leave;
mod plan;
pub(crate) mod status;
mod tables;

use std::io::{self, Write};

use sublet_client::messages::JoinCluster;

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::grants::TemporaryFlag;

/// What to do about the cluster.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: ClusterCommand,
}

#[derive(clap::Subcommand)]
enum ClusterCommand {
    /// Show who leads, how each node is, and what was advised lately and why
    Status(status::ClusterStatusArgs),
    /// Show who would be advised to borrow of whom now, and why
    Plan(plan::PlanArgs),
    /// Take everything back, give everything back, and stay out until `sublet cluster join`, over restarts too
    Leave(leave::LeaveArgs),
    /// Take part again
    Join {
        #[command(flatten)]
        lifetime: TemporaryFlag,
        #[command(flatten)]
        daemon: AdminOptions,
    },
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Exit {
    let text = match &args.verb {
        ClusterCommand::Status(args) => return args.run(),
        ClusterCommand::Leave(args) => return args.run(),
        ClusterCommand::Plan(args) => args.text(),
        ClusterCommand::Join { lifetime, daemon } => {
            let join = JoinCluster {
                lasts: lifetime.lasts(),
            };
            let status = daemon.call(|admin| admin.join_cluster(&join));
            status.map(|status| status::page(&status))
        }
    };
    match text {
        Ok(text) => Exit::written(io::stdout().write_all(text.as_bytes())),
        Err(exit) => exit,
    }
}
