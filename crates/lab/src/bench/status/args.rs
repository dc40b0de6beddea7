//! How large what is looked at is.

use sublet_types::Bytes;

/// How large what is looked at is.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench) struct Args {
    /// The simulated arena, full of pages: 16 bytes are there for each page of 4 KiB.
    #[arg(long, default_value = "256GiB")]
    pub(super) simulated: Bytes,
    /// Tenants of the simulated arena.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) simulated_tenants: u32,
    /// Looks at the simulated arena.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) looks: u32,
}
