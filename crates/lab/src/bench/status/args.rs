//! How large what is looked at is.

use std::num::NonZeroUsize;

use sublet_types::{Bytes, PAGE_BYTES};

use super::super::amount::worth_timing;
use super::super::ours::Ours;
use super::daemon::DISKS;

/// How large what is looked at is.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench) struct Args {
    /// The daemon's arena, full of pages of eight disks. As much must be idle.
    #[arg(long, default_value = "16GiB", value_parser = worth_timing)]
    pub(super) arena: Bytes,
    /// Tenants of the daemon.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(9..=1000))]
    pub(super) tenants: u32,
    /// Scrapes that are timed, one a second.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) scrapes: u32,
    /// Rounds of gets without scrapes, and of gets beside them.
    #[arg(long, default_value = "7")]
    pub(super) rounds: NonZeroUsize,
    /// Seconds of a round.
    #[arg(long, default_value_t = 5.0)]
    pub(super) seconds: f64,
    /// The simulated arena, full of pages: 16 bytes are there for each page of 4 KiB.
    #[arg(long, default_value = "256GiB", value_parser = worth_timing)]
    pub(super) simulated: Bytes,
    /// Tenants of the simulated arena.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) simulated_tenants: u32,
    /// Looks at the simulated arena.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) looks: u32,
    #[command(flatten)]
    pub(super) ours: Ours,
}

impl Args {
    /// Each disk's size: all of them together have the arena's.
    pub(super) fn disk_size(&self) -> Bytes {
        Bytes((self.arena.0 / DISKS as u64).next_multiple_of(16 * PAGE_BYTES))
    }
}
