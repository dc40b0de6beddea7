//! Options of the status bench.

use std::num::NonZeroUsize;

use sublet_types::Bytes;

use super::super::amount::worth_timing;
use super::super::sublet_option::SubletOption;
use super::daemon::DISKS;

/// Options of the status bench.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench) struct Args {
    /// Fill an arena of this size with pages of eight disks; as much must be idle.
    #[arg(long, default_value = "16GiB", value_parser = worth_timing)]
    pub(super) arena: Bytes,
    /// Give the daemon this many tenants.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(9..=1000))]
    pub(super) tenants: u32,
    /// Time this many scrapes, one per second.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) scrapes: u32,
    /// Measure this many rounds of gets without scrapes, and as many beside them.
    #[arg(long, default_value = "7")]
    pub(super) rounds: NonZeroUsize,
    /// Measure for this many seconds per round.
    #[arg(long, default_value_t = 5.0)]
    pub(super) seconds: f64,
    /// Fill a simulated arena of this size; it has 16 bytes for each page of 4 KiB.
    #[arg(long, default_value = "256GiB", value_parser = worth_timing)]
    pub(super) simulated: Bytes,
    /// Give the simulated arena this many tenants.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) simulated_tenants: u32,
    /// Take this many snapshots of the simulated arena.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) looks: u32,
    #[command(flatten)]
    pub(super) ours: SubletOption,
}

impl Args {
    /// Each disk's size. All disks together are as large as the arena.
    pub(super) fn disk_size(&self) -> Bytes {
        Bytes((self.arena.0 / DISKS as u64).next_multiple_of(1 << 20))
    }
}
