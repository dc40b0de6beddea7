//! Options for the loads on a slow disk and the amounts of memory before it.

use super::load::DiskLoad;

/// Options for the loads on a slow disk.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench::disks) struct SlowDiskOptions {
    /// Run these loads on the slow disk, with commas between.
    #[arg(long = "load", value_name = "LOAD", value_enum, value_delimiter = ',', default_values_t = DiskLoad::SKEWED)]
    pub(super) loads: Vec<DiskLoad>,
    /// Let memory hold these parts of the slow disk, in per cent, with commas between.
    #[arg(long = "memory", value_name = "PERCENT", value_delimiter = ',', default_values_t = [5, 10, 25, 50], value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(super) shares: Vec<u64>,
}

impl SlowDiskOptions {
    /// Steps of the progress bar.
    pub(in crate::bench::disks) fn steps(&self) -> usize {
        self.loads.len() * self.shares.len()
    }
}
