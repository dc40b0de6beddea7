//! Options of `sublet-lab sim compare`.

use std::path::PathBuf;
use std::str::FromStr;

use sublet_sim::compare::ScenarioVariants;
use sublet_sim::eviction::AnyEviction;
use sublet_sim::scenario::{PolicySpec, ShardCount};
use sublet_types::ShrinkMode;

use super::scenario;

/// Options of the comparison.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run this scenario: a file, or a name that `sublet-lab sim list` shows
    #[arg(default_value = "mixed", conflicts_with = "traces")]
    pub(super) scenario: String,
    /// Compare these policies, the yard-stick first; knobs follow a colon, as in smart-alloc:p=0.75
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    policies: Vec<PolicySpec>,
    /// Compare these evictions, the yard-stick first: the orders in which ephemeral pages leave
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    evictions: Vec<AnyEviction>,
    /// Say what happens to a tenant that holds more than its target
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = scenario::shrinking)]
    shrink: Vec<ShrinkMode>,
    /// Divide a machine's pages into this many shards; the daemon has 128
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = shards)]
    shards: Vec<ShardCount>,
    /// Replay this trace instead of a scenario; repeat it for several. A synthetic one is made:NAME, or
    /// made:NAME:FOLDER with the folder of CacheLib's popularities
    #[arg(long = "trace", value_name = "FILE")]
    pub(super) traces: Vec<PathBuf>,
    /// Read the traces in this format; without it, their names tell the format
    #[arg(
        long,
        value_name = "NAME",
        requires = "traces",
        conflicts_with = "scenario"
    )]
    pub(super) format: Option<String>,
    /// Give the client this memory, in percent of a trace's footprint; each is tried
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "2,10",
        value_name = "PERCENT",
        requires = "traces",
        conflicts_with = "scenario"
    )]
    pub(super) client: Vec<Percent>,
    /// Give the tier this memory, in percent of a trace's footprint; each is tried
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10",
        value_name = "PERCENT",
        requires = "traces",
        conflicts_with = "scenario"
    )]
    pub(super) tier: Vec<Percent>,
    /// Also run it without any tier, last
    #[arg(long)]
    without_tier: bool,
}

/// A share as it is typed: above 0, and at most 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Percent(f64);

/// A text that is no share.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0:?} is no share of a footprint; write a number above 0 and up to 100, as in 2 or 0.5")]
pub(super) struct PercentError(String);

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Percent, PercentError> {
        let number: Option<f64> = text.trim_end_matches('%').parse().ok();
        let sensible = number.filter(|number| *number > 0.0 && *number <= 100.0);
        sensible
            .map(Percent)
            .ok_or_else(|| PercentError(text.to_owned()))
    }
}

/// The most shards of a tenant.
const SHARDS_MAX: usize = 256;

/// A number of shards that no tenant can have.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0:?} is no number of shards; write one from 1 to {SHARDS_MAX}")]
struct ShardCountError(String);

fn shards(text: &str) -> Result<ShardCount, ShardCountError> {
    let number = text.parse().ok().filter(|n| (1..=SHARDS_MAX).contains(n));
    number
        .map(ShardCount)
        .ok_or_else(|| ShardCountError(text.to_owned()))
}

impl Percent {
    /// The share as a part of one.
    pub(super) fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl Args {
    pub(super) fn variants(&self) -> ScenarioVariants {
        ScenarioVariants {
            policies: self.policies.clone(),
            evictions: self.evictions.clone(),
            shards: self.shards.clone(),
            shrinks: self.shrink.clone(),
            sizings: Vec::new(),
            without_tier: self.without_tier,
        }
    }
}
