//! Options of the lending bench.

use sublet_types::Bytes;

use super::super::amount::worth_timing;
use super::super::disks::slow::load::DiskLoad;
use super::super::sublet_option::SubletOption;
use super::guard_cell::{GuardRule, LenderDelay};

/// Options of the lending bench.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench) struct Args {
    /// Measure these.
    #[arg(value_enum, default_values_t = [LendBenchKind::Raw, LendBenchKind::Recall])]
    pub(super) what: Vec<LendBenchKind>,
    /// Measure each server for this many seconds per round (raw).
    #[arg(long, default_value_t = 0.1)]
    pub(super) seconds: f64,
    /// Measure this many rounds of each server (raw).
    #[arg(long, default_value_t = 15)]
    pub(super) rounds: usize,
    /// Keep pages of this amount at the lender and in its peers (raw).
    #[arg(long, default_value = "256MiB", value_parser = worth_timing)]
    pub(super) size: Bytes,
    /// Read this many pages with one message; several numbers with commas between (raw). Goals are for 1, 8 and 32.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32], value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) pages: Vec<u16>,
    /// Lend this amount, and take it back (recall).
    #[arg(long, default_value = "4GiB", value_parser = worth_timing)]
    pub(super) lent: Bytes,
    /// Take it back this many times while the borrower does one thing (recall).
    #[arg(long, default_value_t = 3)]
    pub(super) recalls: usize,
    #[command(flatten)]
    pub(super) disks: FarDiskOptions,
    #[command(flatten)]
    pub(super) guard: SlowLenderOptions,
    #[command(flatten)]
    pub(super) ours: SubletOption,
}

/// Options for loads on disks with far memory.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct FarDiskOptions {
    /// Run these loads, with commas between (disks).
    #[arg(long = "load", value_name = "LOAD", value_enum, value_delimiter = ',', default_values_t = [DiskLoad::Uniform, DiskLoad::Fio, DiskLoad::Tree, DiskLoad::Pgbench])]
    pub(super) loads: Vec<DiskLoad>,
    /// Use disks that answer after these times, with commas between (disks).
    #[arg(long, value_delimiter = ',', default_values_t = ["4ms".to_owned(), "1ms".to_owned(), "100us".to_owned()])]
    pub(super) slow: Vec<String>,
    /// Have room here for these parts of the disk, in per cent, with commas between (disks).
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_values_t = [5, 10], value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(super) here: Vec<u64>,
    /// Borrow memory for these parts of the disk, in per cent, with commas between (disks).
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_values_t = [20, 60], value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(super) far: Vec<u64>,
    /// Give the disk this size (disks).
    #[arg(long = "disk", default_value = "256MiB", value_parser = worth_timing)]
    pub(super) disk_size: Bytes,
    /// Measure for this many seconds per round (disks).
    #[arg(long, default_value_t = 1.0)]
    pub(super) disk_seconds: f64,
    /// Measure this many rounds of each side (disks).
    #[arg(long, default_value_t = 3)]
    pub(super) disk_rounds: usize,
}

/// Options for reads of a lender that answers late.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SlowLenderOptions {
    /// Let the lender answer so late, with commas between (guard).
    #[arg(long = "delay", value_name = "DELAY", value_enum, value_delimiter = ',', default_values_t = [LenderDelay::None, LenderDelay::Micros500, LenderDelay::Millis1, LenderDelay::Millis2, LenderDelay::Stalls, LenderDelay::Spells])]
    pub(super) delays: Vec<LenderDelay>,
    /// Spare disks that answer after these times, with commas between (guard).
    #[arg(long = "backing", value_name = "LATENCY", value_delimiter = ',', default_values_t = ["100us".to_owned(), "1ms".to_owned(), "8ms".to_owned()])]
    pub(super) backings: Vec<String>,
    /// Let the borrower decide by this rule (guard).
    #[arg(long, value_name = "RULE", value_enum, default_value_t = GuardRule::Relative)]
    pub(super) guard_rule: GuardRule,
    /// Give the disk this size (guard).
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = worth_timing)]
    pub(super) guard_disk: Bytes,
    /// Measure for this many seconds per round (guard).
    #[arg(long, default_value_t = 1.5)]
    pub(super) guard_seconds: f64,
    /// Measure this many rounds of each side (guard).
    #[arg(long, default_value_t = 5)]
    pub(super) guard_rounds: usize,
}

/// What the bench can measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LendBenchKind {
    /// Reads and writes of pages at a lender.
    Raw,
    /// The time until a lender has its memory back.
    Recall,
    /// Loads on a slow disk whose evicted pages go to a lender.
    Disks,
    /// Reads of pages of a lender that answers late.
    Guard,
}
