//! What is measured of disks, and for how long.

use sublet_types::Bytes;

use super::super::ours::Ours;
use super::slow::options::Options;

/// What is measured, with commas between.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench) struct Args {
    /// Seconds of a round.
    #[arg(long, default_value_t = 2.0)]
    pub(super) seconds: f64,
    /// Rounds of each side.
    #[arg(long, default_value_t = 5)]
    pub(super) rounds: usize,
    /// The disk's size; all of it is cached.
    #[arg(long, default_value = "256MiB")]
    pub(super) size: Bytes,
    /// What is measured, with commas between.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [What::Nbd, What::Holes, What::VhostUser, What::Slow])]
    pub(super) what: Vec<What>,
    #[command(flatten)]
    pub(super) slow: Options,
    #[command(flatten)]
    pub(super) ours: Ours,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum What {
    /// Reads of cached pages over NBD.
    Nbd,
    /// `qemu-img` over NBD, of a disk with many holes.
    Holes,
    /// Reads of cached pages over vhost-user-blk.
    VhostUser,
    /// What memory before a slow disk is worth.
    Slow,
}
