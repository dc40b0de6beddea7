//! Commands for child processes of a bench. Each child is this program again.

use super::host_change::{self, HostChangeArgs};
use super::lend::bare_responder::{self, BareResponderArgs};
use super::lend::busy_borrower::{self, BusyBorrowerArgs};
use super::lend::lender_process::{self, LenderArgs};
use super::pressure::daemon::{self, TetherArgs};
use super::pressure::memory_hog::{self, MemoryHogArgs};
use crate::exit::Exit;

/// A command for a child process of a bench.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ChildCommand {
    /// Take memory
    #[command(hide = true, name = "bench-eat")]
    Eat(MemoryHogArgs),
    /// Change the host for as long as a bench needs it
    #[command(hide = true, name = "bench-keep")]
    Keep(HostChangeArgs),
    /// Run a command that ends when the bench does
    #[command(hide = true, name = "bench-tether")]
    Tether(TetherArgs),
    /// Lend memory to a bench
    #[command(hide = true, name = "bench-lender")]
    Lend(LenderArgs),
    /// Borrow memory of a bench, and use it
    #[command(hide = true, name = "bench-borrower")]
    Borrow(BusyBorrowerArgs),
    /// Hold pages in memory, and answer requests for them
    #[command(hide = true, name = "bench-bare")]
    Respond(BareResponderArgs),
}

impl ChildCommand {
    /// Runs the command.
    pub(crate) fn run(&self) -> Exit {
        match self {
            ChildCommand::Eat(args) => memory_hog::run_memory_hog(args),
            ChildCommand::Keep(args) => host_change::hold_change(args),
            ChildCommand::Tether(args) => daemon::tether(args),
            ChildCommand::Lend(args) => lender_process::lend(args),
            ChildCommand::Borrow(args) => busy_borrower::borrow(args),
            ChildCommand::Respond(args) => bare_responder::respond(args),
        }
    }
}
