//! What `sublet-lab sim compare` is told.

use std::path::PathBuf;
use std::str::FromStr;

use sublet_sim::compare::Variants;
use sublet_sim::eviction::AnyEviction;
use sublet_sim::scenario::{PolicySpec, Shards};
use sublet_types::Shrinking;

use super::scenario;

/// What to compare.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The scenario: a file, or a name that `sublet-lab sim list` shows
    #[arg(default_value = "mixed", conflicts_with = "traces")]
    pub(super) scenario: String,
    /// Policies, the yard-stick first; knobs follow a colon, as in smart-alloc:p=0.75
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    policies: Vec<PolicySpec>,
    /// Evictions, the yard-stick first: the orders in which ephemeral pages leave
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    evictions: Vec<AnyEviction>,
    /// What becomes of who holds more than its target
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = scenario::shrinking)]
    shrink: Vec<Shrinking>,
    /// Into how many shards a machine's pages are divided; the daemon's are 128
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = shards)]
    shards: Vec<Shards>,
    /// Replay this trace instead of a scenario; may be given several times. A made one is made:NAME, or made:NAME:FOLDER with
    /// the folder of CacheLib's popularities
    #[arg(long = "trace", value_name = "FILE")]
    pub(super) traces: Vec<PathBuf>,
    /// The traces' format; their names tell it where it is not given
    #[arg(
        long,
        value_name = "NAME",
        requires = "traces",
        conflicts_with = "scenario"
    )]
    pub(super) format: Option<String>,
    /// The client's own memory, in percent of a trace's footprint; each is tried
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "2,10",
        value_name = "PERCENT",
        requires = "traces",
        conflicts_with = "scenario"
    )]
    pub(super) client: Vec<Percent>,
    /// The tier, in percent of a trace's footprint; each is tried
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

/// A share, as it is typed: above 0, at most 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Percent(f64);

/// A share that is none.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0:?} is no share of a footprint; write a number above 0 and up to 100, as in 2 or 0.5")]
pub(super) struct NoPercent(String);

impl FromStr for Percent {
    type Err = NoPercent;

    fn from_str(text: &str) -> Result<Percent, NoPercent> {
        let number: Option<f64> = text.trim_end_matches('%').parse().ok();
        let sensible = number.filter(|number| *number > 0.0 && *number <= 100.0);
        sensible
            .map(Percent)
            .ok_or_else(|| NoPercent(text.to_owned()))
    }
}

/// The most shards that a tenant has.
const SHARDS_MAX: usize = 256;

/// A number of shards that no tenant has.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0:?} is no number of shards; write one from 1 to {SHARDS_MAX}")]
struct NoShards(String);

fn shards(text: &str) -> Result<Shards, NoShards> {
    let number = text.parse().ok().filter(|n| (1..=SHARDS_MAX).contains(n));
    number.map(Shards).ok_or_else(|| NoShards(text.to_owned()))
}

impl Percent {
    /// As a share of one.
    pub(super) fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl Args {
    pub(super) fn variants(&self) -> Variants {
        Variants {
            policies: self.policies.clone(),
            evictions: self.evictions.clone(),
            shards: self.shards.clone(),
            shrinks: self.shrink.clone(),
            sizings: Vec::new(),
            without_tier: self.without_tier,
        }
    }
}
