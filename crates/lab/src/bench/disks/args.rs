//! Options of the disk bench.

use sublet_types::Bytes;

use super::super::sublet_option::SubletOption;
use super::slow::options::SlowDiskOptions;

/// Options of the disk bench.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench) struct Args {
    /// Measure for this many seconds per round.
    #[arg(long, default_value_t = 2.0)]
    pub(super) seconds: f64,
    /// Measure this many rounds of each side.
    #[arg(long, default_value_t = 5)]
    pub(super) rounds: usize,
    /// Give the disk this size; all of it is cached.
    #[arg(long, default_value = "256MiB")]
    pub(super) size: Bytes,
    /// Measure these, with commas between.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [BlockBenchKind::Nbd, BlockBenchKind::Holes, BlockBenchKind::VhostUser, BlockBenchKind::Slow])]
    pub(super) what: Vec<BlockBenchKind>,
    #[command(flatten)]
    pub(super) slow: SlowDiskOptions,
    #[command(flatten)]
    pub(super) ours: SubletOption,
}

/// What the bench can measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum BlockBenchKind {
    /// Reads of cached pages over NBD.
    Nbd,
    /// `qemu-img` over NBD, on a disk with many holes.
    Holes,
    /// Reads of cached pages over vhost-user-blk.
    VhostUser,
    /// The gain from memory before a slow disk.
    Slow,
}
