//! What is varied from run to run.

use serde::Serialize;

use super::benchmarks::PumaBenchmark;
use super::setting::SettingName;
use crate::virtual_time::VirtualDuration;

/// What becomes of a lender's page that is read (section 3.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CachingStrategy {
    /// It leaves the lender. This is an exclusive pool.
    Exclusive,
    /// It stays, and comes home when it is read a second time. This is a keeping pool.
    NonInclusive,
}

/// Whether pages of long runs are kept from the lender (section 3.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SequentialFilter {
    /// They are.
    On,
    /// They are not.
    Off,
}

/// Who decides whether the lender is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardChoice {
    /// Nobody: it is always asked.
    None,
    /// PUMA's two averages of pings, with constant thresholds.
    Puma,
    /// Our guard, which compares the lender with the disk.
    Relative,
}

/// Far memory, in MiB of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FarAmount(pub u64);

/// A benchmark's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct BenchmarkRun {
    /// What runs.
    pub benchmark: PumaBenchmark,
    /// Where it runs.
    pub setting: SettingName,
    /// How much far memory there is.
    pub far: FarAmount,
    /// What becomes of pages that are read.
    pub strategy: CachingStrategy,
    /// Whether long runs are kept back.
    pub filter: SequentialFilter,
    /// Who decides whether the lender is asked.
    pub guard: GuardChoice,
    /// By how much each round trip is longer.
    #[serde(serialize_with = "micros")]
    pub injected: VirtualDuration,
}

fn micros<S: serde::Serializer>(span: &VirtualDuration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(span.0 / 1_000)
}

impl BenchmarkRun {
    /// A run without far memory.
    pub(super) fn baseline(self) -> BenchmarkRun {
        BenchmarkRun {
            far: FarAmount(0),
            strategy: CachingStrategy::NonInclusive,
            filter: SequentialFilter::Off,
            guard: GuardChoice::None,
            injected: VirtualDuration::default(),
            ..self
        }
    }
}
