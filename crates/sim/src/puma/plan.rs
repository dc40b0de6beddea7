//! Which runs the figures and tables need. A run that several of them show is run once.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::benchmarks::PumaBenchmark;
use super::bursts::{BurstCount, BurstOutcome};
use super::run::BenchmarkOutcome;
use super::setting::{PumaScale, SettingName};
use super::variants::{BenchmarkRun, CachingStrategy, FarAmount, GuardChoice, SequentialFilter};
use crate::machine::tier_store::StoreTierError;
use crate::virtual_time::VirtualDuration;

/// Far memory of figures 4 and 5, in MiB. TPC-C has the last one, too.
pub(super) const FAR: [FarAmount; 7] = [
    FarAmount(512),
    FarAmount(1024),
    FarAmount(2048),
    FarAmount(3072),
    FarAmount(4096),
    FarAmount(5120),
    FarAmount(6144),
];

/// Far memory of figure 7 and table 2, in MiB.
pub(super) const FAR_OF_FIGURE_7: FarAmount = FarAmount(5120);

/// By how much each round trip of figure 7 is longer.
pub(super) const INJECTED: [VirtualDuration; 6] = [
    VirtualDuration::micros(0),
    VirtualDuration::micros(500),
    VirtualDuration::micros(1_000),
    VirtualDuration::micros(1_500),
    VirtualDuration::micros(2_000),
    VirtualDuration::micros(5_000),
];

/// The settings of figures 4 and 5.
pub(super) const SETTINGS_OF_FIGURE_5: [SettingName; 2] = [SettingName::Paper, SettingName::Quick];

/// The settings of figure 7.
pub(super) const SETTINGS_OF_FIGURE_7: [SettingName; 2] = [SettingName::Paper, SettingName::Nvme];

/// Who protects the guest in figure 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protection {
    pub(super) guard: GuardChoice,
    pub(super) filter: SequentialFilter,
}

impl Protection {
    /// Figure 7a.
    pub(super) const NONE: Protection = Protection::of(GuardChoice::None, SequentialFilter::Off);
    /// Figure 7b.
    pub(super) const PUMA: Protection = Protection::of(GuardChoice::Puma, SequentialFilter::Off);
    /// The daemon's defaults.
    pub(super) const OURS: Protection = Protection::of(GuardChoice::Relative, SequentialFilter::On);
    /// Our guard, without the filter.
    pub(super) const GUARD_ALONE: Protection =
        Protection::of(GuardChoice::Relative, SequentialFilter::Off);
    /// All of them.
    pub(super) const ALL: [Protection; 4] = [
        Protection::NONE,
        Protection::PUMA,
        Protection::OURS,
        Protection::GUARD_ALONE,
    ];

    const fn of(guard: GuardChoice, filter: SequentialFilter) -> Protection {
        Protection { guard, filter }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Protection::NONE => "no guard (7a)",
            Protection::PUMA => "PUMA's guard (7b)",
            Protection::OURS => "our guard and filter",
            _ => "our guard alone",
        }
    }

    /// A run of figure 7 or table 2.
    pub(super) fn run(
        self,
        benchmark: PumaBenchmark,
        setting: SettingName,
        injected: VirtualDuration,
    ) -> BenchmarkRun {
        BenchmarkRun {
            benchmark,
            setting,
            far: FAR_OF_FIGURE_7,
            strategy: CachingStrategy::NonInclusive,
            filter: self.filter,
            guard: self.guard,
            injected,
        }
    }
}

/// The benchmarks of table 2.
pub(super) const OF_TABLE_2: [PumaBenchmark; 4] = [
    PumaBenchmark::RandomReads,
    PumaBenchmark::Postmark,
    PumaBenchmark::Blast,
    PumaBenchmark::TpcH,
];

/// A curve of figure 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CurveOfFigure5 {
    pub(super) strategy: CachingStrategy,
    pub(super) filter: SequentialFilter,
}

impl CurveOfFigure5 {
    const ALL: [CurveOfFigure5; 4] = [
        CurveOfFigure5::of(CachingStrategy::Exclusive, SequentialFilter::Off),
        CurveOfFigure5::of(CachingStrategy::NonInclusive, SequentialFilter::Off),
        CurveOfFigure5::of(CachingStrategy::Exclusive, SequentialFilter::On),
        CurveOfFigure5::of(CachingStrategy::NonInclusive, SequentialFilter::On),
    ];

    const fn of(strategy: CachingStrategy, filter: SequentialFilter) -> CurveOfFigure5 {
        CurveOfFigure5 { strategy, filter }
    }

    /// The curves of a benchmark. Where nothing is read in long runs, the filter has nothing to do.
    pub(super) fn of_benchmark(benchmark: PumaBenchmark) -> &'static [CurveOfFigure5] {
        match benchmark {
            PumaBenchmark::RandomReads | PumaBenchmark::Postmark => &CurveOfFigure5::ALL[..2],
            _ => &CurveOfFigure5::ALL,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match (self.strategy, self.filter) {
            (CachingStrategy::Exclusive, SequentialFilter::Off) => "exclusive",
            (CachingStrategy::NonInclusive, SequentialFilter::Off) => "non-inclusive",
            (CachingStrategy::Exclusive, SequentialFilter::On) => "exclusive, filter",
            (CachingStrategy::NonInclusive, SequentialFilter::On) => "non-inclusive, filter",
        }
    }

    pub(super) fn run(
        self,
        benchmark: PumaBenchmark,
        setting: SettingName,
        far: FarAmount,
    ) -> BenchmarkRun {
        BenchmarkRun {
            benchmark,
            setting,
            far,
            strategy: self.strategy,
            filter: self.filter,
            guard: GuardChoice::None,
            injected: VirtualDuration::default(),
        }
    }
}

/// The far memory of a benchmark's panel in figure 5.
pub(super) fn far_of(benchmark: PumaBenchmark) -> &'static [FarAmount] {
    match benchmark {
        PumaBenchmark::TpcC => &FAR,
        _ => &FAR[..FAR.len() - 1],
    }
}

/// One piece of work of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum PumaTask {
    /// A benchmark.
    Benchmark(BenchmarkRun),
    /// A borrower whose lender has bursts.
    Bursts(BurstCount),
}

/// What a piece of work came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum PumaOutcome {
    /// A benchmark.
    Benchmark(BenchmarkOutcome),
    /// A borrower whose lender has bursts.
    Bursts(BurstOutcome),
}

impl PumaTask {
    /// Does it.
    ///
    /// # Errors
    ///
    /// This machine has no memory for a store.
    pub fn play(&self, scale: PumaScale, seed: u64) -> Result<PumaOutcome, StoreTierError> {
        match self {
            PumaTask::Benchmark(run) => run.play(scale, seed).map(PumaOutcome::Benchmark),
            PumaTask::Bursts(bursts) => bursts.play(scale, seed).map(PumaOutcome::Bursts),
        }
    }

    /// What a progress bar shows of it.
    pub fn words(&self) -> String {
        match self {
            PumaTask::Benchmark(run) => {
                format!("{}, {} MiB far", run.benchmark.words(), run.far.0)
            }
            PumaTask::Bursts(bursts) => format!("bursts: {}", bursts.words()),
        }
    }
}

/// The work for all figures and tables.
#[derive(Clone, Debug, Default)]
pub struct PumaPlan {
    /// The pieces of work. None depends on another.
    pub tasks: Vec<PumaTask>,
}

impl PumaPlan {
    /// All of it.
    pub fn full() -> PumaPlan {
        let runs = figure_5().chain(figure_7()).chain(table_2());
        let with_baselines: BTreeSet<BenchmarkRun> =
            runs.flat_map(|run| [run, run.baseline()]).collect();
        let benchmarks = with_baselines.into_iter().map(PumaTask::Benchmark);
        let bursts = [BurstCount::One, BurstCount::Three].map(PumaTask::Bursts);
        PumaPlan {
            tasks: bursts.into_iter().chain(benchmarks).collect(),
        }
    }
}

fn figure_5() -> impl Iterator<Item = BenchmarkRun> {
    SETTINGS_OF_FIGURE_5.into_iter().flat_map(|setting| {
        PumaBenchmark::OF_FIGURE_5
            .into_iter()
            .flat_map(move |benchmark| {
                let curves = CurveOfFigure5::of_benchmark(benchmark).iter();
                curves.flat_map(move |curve| {
                    far_of(benchmark)
                        .iter()
                        .map(move |far| curve.run(benchmark, setting, *far))
                })
            })
    })
}

fn figure_7() -> impl Iterator<Item = BenchmarkRun> {
    SETTINGS_OF_FIGURE_7.into_iter().flat_map(|setting| {
        PumaBenchmark::OF_FIGURE_5
            .into_iter()
            .flat_map(move |benchmark| {
                Protection::ALL.into_iter().flat_map(move |protection| {
                    let injected = INJECTED.into_iter();
                    injected.map(move |injected| protection.run(benchmark, setting, injected))
                })
            })
    })
}

fn table_2() -> impl Iterator<Item = BenchmarkRun> {
    let runs = |benchmark| {
        let far = [SettingName::Paper, SettingName::Quick];
        let far = far.map(|setting| far_of_table_2(benchmark, setting));
        far.into_iter().chain([ssd_of_table_2(benchmark)])
    };
    OF_TABLE_2.into_iter().flat_map(runs)
}

/// The run of table 2 with far memory.
pub(super) fn far_of_table_2(benchmark: PumaBenchmark, setting: SettingName) -> BenchmarkRun {
    Protection::NONE.run(benchmark, setting, VirtualDuration::default())
}

/// The run of table 2 with an SSD that has everything.
pub(super) fn ssd_of_table_2(benchmark: PumaBenchmark) -> BenchmarkRun {
    far_of_table_2(benchmark, SettingName::PaperSsd).baseline()
}

/// The outcomes of benchmarks, by run.
pub(super) type BenchmarkOutcomes = BTreeMap<BenchmarkRun, BenchmarkOutcome>;
