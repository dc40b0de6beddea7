//! Which loads a slow disk gets, and before how much memory.

use super::load::Load;

/// What is loaded, and how much memory is tried.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench::block) struct Options {
    /// Loads on the slow disk, with commas between.
    #[arg(long = "load", value_name = "LOAD", value_enum, value_delimiter = ',', default_values_t = Load::ALL)]
    pub(super) loads: Vec<Load>,
    /// Parts of the slow disk that memory may hold, in per cent, with commas between.
    #[arg(long = "memory", value_name = "PERCENT", value_delimiter = ',', default_values_t = [5, 10, 25, 50], value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(super) shares: Vec<u64>,
}

impl Options {
    /// Steps of the progress bar.
    pub(in crate::bench::block) fn steps(&self) -> usize {
        self.loads.len() * self.shares.len()
    }
}
