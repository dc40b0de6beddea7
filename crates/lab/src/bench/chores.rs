//! What benches have other processes do: this program again.

use super::keeper::{self, KeepArgs};
use super::pressure::daemon::{self, TetherArgs};
use super::pressure::eater::{self, EaterArgs};
use crate::exit::Exit;

/// What the bench has other processes do: this program again.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Chore {
    /// The program that takes memory
    #[command(hide = true, name = "bench-eat")]
    Eat(EaterArgs),
    /// Changes the host for as long as a bench needs it
    #[command(hide = true, name = "bench-keep")]
    Keep(KeepArgs),
    /// A command that ends when the bench does
    #[command(hide = true, name = "bench-tether")]
    Tether(TetherArgs),
}

impl Chore {
    /// Does it.
    pub(crate) fn run(&self) -> Exit {
        match self {
            Chore::Eat(args) => eater::eat(args),
            Chore::Keep(args) => keeper::keep(args),
            Chore::Tether(args) => daemon::tether(args),
        }
    }
}
