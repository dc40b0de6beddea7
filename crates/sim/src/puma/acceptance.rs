//! What is expected of each figure, and whether the simulation meets it.

use std::ops::RangeInclusive;

use super::benchmarks::PumaBenchmark;
use super::bursts::BurstCount;
use super::plan::{
    CurveOfFigure5, FAR, INJECTED, Protection, SETTINGS_OF_FIGURE_5, SETTINGS_OF_FIGURE_7,
    far_of_table_2, ssd_of_table_2,
};
use super::report::PumaReport;
use super::run::BenchmarkOutcome;
use super::setting::SettingName;
use super::variants::{CachingStrategy, FarAmount, SequentialFilter};
use crate::figures::Acceptance;

/// The factor within which the paper's speed-ups are met.
const WITHIN: f64 = 1.5;

/// A paper's figure, met within this factor.
fn near(figure: f64) -> RangeInclusive<f64> {
    figure / WITHIN..=figure * WITHIN
}

fn at_least(bound: f64) -> RangeInclusive<f64> {
    bound..=f64::INFINITY
}

fn at_most(bound: f64) -> RangeInclusive<f64> {
    f64::NEG_INFINITY..=bound
}

/// Everything that is expected of a report. Figures that are not there are left out.
pub(super) fn all(report: &PumaReport) -> Vec<Acceptance> {
    let of = AcceptedFigures(report);
    let parts = [
        of.random(),
        of.filter(),
        of.applications(),
        of.guards(),
        of.tables(),
    ];
    parts.into_iter().flatten().flatten().collect()
}

const EXCLUSIVE: CurveOfFigure5 = CurveOfFigure5 {
    strategy: CachingStrategy::Exclusive,
    filter: SequentialFilter::Off,
};

const NON_INCLUSIVE: CurveOfFigure5 = CurveOfFigure5 {
    strategy: CachingStrategy::NonInclusive,
    filter: SequentialFilter::Off,
};

const EXCLUSIVE_FILTER: CurveOfFigure5 = CurveOfFigure5 {
    filter: SequentialFilter::On,
    ..EXCLUSIVE
};

const NON_INCLUSIVE_FILTER: CurveOfFigure5 = CurveOfFigure5 {
    filter: SequentialFilter::On,
    ..NON_INCLUSIVE
};

/// Amounts of far memory by name.
const HALF: FarAmount = FAR[0];
const TWO: FarAmount = FAR[2];
const THREE: FarAmount = FAR[3];
const FOUR: FarAmount = FAR[4];
const FIVE: FarAmount = FAR[5];
const SIX: FarAmount = FAR[6];

/// Those with which 4 GB do not fit.
const TOO_LITTLE: &[FarAmount] = FAR.split_at(4).0;

/// The figures that are judged, in the paper's setting unless they say otherwise.
struct AcceptedFigures<'a>(&'a PumaReport);

type Judged = Vec<Option<Acceptance>>;

impl AcceptedFigures<'_> {
    fn speed_up(
        &self,
        curve: CurveOfFigure5,
        benchmark: PumaBenchmark,
        far: FarAmount,
    ) -> Option<f64> {
        self.0
            .speed_up_of(curve, benchmark, SettingName::Paper, far)
    }

    /// A count of random reads, for each read.
    fn per_read(
        &self,
        curve: CurveOfFigure5,
        far: FarAmount,
        pages: fn(&BenchmarkOutcome) -> u64,
    ) -> Option<f64> {
        let run = curve.run(PumaBenchmark::RandomReads, SettingName::Paper, far);
        let outcome = self.0.outcome(&run)?;
        Some(pages(outcome) as f64 / outcome.transactions as f64)
    }

    fn random(&self) -> Judged {
        let random = PumaBenchmark::RandomReads;
        let gets = |curve, far| self.per_read(curve, far, |outcome| outcome.far.fetched);
        let puts = |curve, far| self.per_read(curve, far, |outcome| outcome.far.sent);
        let by_gigabyte = |far: &FarAmount| Some(gets(EXCLUSIVE, *far)? * 1024.0 / far.0 as f64);
        let lead_in_gets =
            |far: &FarAmount| Some(gets(EXCLUSIVE, *far)? / gets(NON_INCLUSIVE, *far)?);
        let lead = |far: &FarAmount| {
            let behind = self.speed_up(NON_INCLUSIVE, random, *far)?;
            Some(self.speed_up(EXCLUSIVE, random, *far)? / behind)
        };
        let step = |curve| {
            let before = self.speed_up(curve, random, THREE)?;
            Some(self.speed_up(curve, random, FOUR)? / before)
        };
        let until_full = &FAR[..FAR.len() - 1];
        vec![
            Acceptance::of(
                "figure 4a, hits are linear: the most gets per GB ÷ the least, up to 3 GB",
                spread(TOO_LITTLE.iter().map(by_gigabyte)),
                at_most(1.35),
            ),
            Acceptance::of(
                "figure 4a, exclusive is ahead: its gets ÷ non-inclusive's, at the least, up to 3 GB",
                least(TOO_LITTLE.iter().map(lead_in_gets)),
                at_least(1.0),
            ),
            Acceptance::of(
                "figure 4b, exclusive's puts are constant: the most ÷ the least",
                spread(until_full.iter().map(|far| puts(EXCLUSIVE, *far))),
                at_most(1.05),
            ),
            Acceptance::of(
                "figure 4b, non-inclusive's puts fall: those with 5 GB ÷ those with 0.5 GB",
                puts(NON_INCLUSIVE, FIVE)
                    .zip(puts(NON_INCLUSIVE, HALF))
                    .map(ratio),
                at_most(0.75),
            ),
            Acceptance::of(
                "figure 5a, the threshold: speed-up with 4 GB ÷ that with 3 GB, exclusive",
                step(EXCLUSIVE),
                at_least(3.0),
            ),
            Acceptance::of(
                "figure 5a, the threshold: the same, non-inclusive",
                step(NON_INCLUSIVE),
                at_least(3.0),
            ),
            Acceptance::of(
                "figure 5a, exclusive is ahead: its speed-up ÷ non-inclusive's, at the least, up to 3 GB",
                least(TOO_LITTLE.iter().map(lead)),
                at_least(1.0),
            ),
        ]
    }

    fn filter(&self) -> Judged {
        let (sequential, blast) = (PumaBenchmark::SequentialReads, PumaBenchmark::Blast);
        let filtered = SETTINGS_OF_FIGURE_5.into_iter().flat_map(|setting| {
            [EXCLUSIVE_FILTER, NON_INCLUSIVE_FILTER]
                .into_iter()
                .flat_map(move |curve| {
                    [sequential, blast].into_iter().flat_map(move |benchmark| {
                        let far = FAR[..FAR.len() - 1].iter();
                        far.map(move |far| self.0.speed_up_of(curve, benchmark, setting, *far))
                    })
                })
        });
        vec![
            Acceptance::of(
                "figures 5b and 5c, the filter never slows down: the least speed-up, in all settings",
                // Two decimals, as a table shows it.
                least(filtered).map(|least| (least * 100.0).round() / 100.0),
                at_least(1.0),
            ),
            Acceptance::of(
                "figure 5b, without the filter: the most speed-up with up to 3 GB, exclusive",
                most(
                    TOO_LITTLE
                        .iter()
                        .map(|far| self.speed_up(EXCLUSIVE, sequential, *far)),
                ),
                at_most(1.0),
            ),
            Acceptance::of(
                "figure 5c, with the filter: +45 % within 15 points",
                self.speed_up(NON_INCLUSIVE_FILTER, blast, FIVE),
                1.30..=1.60,
            ),
            Acceptance::of(
                "figure 5c, without the filter: the speed-up with 1 GB",
                self.speed_up(NON_INCLUSIVE, blast, FAR[1]),
                at_most(1.0),
            ),
            Acceptance::of(
                "figure 5c, without the filter: +30 % when all fits, within a factor of 1.5",
                self.speed_up(NON_INCLUSIVE, blast, FIVE),
                near(1.30),
            ),
        ]
    }

    fn applications(&self) -> Judged {
        let (postmark, tpc_h) = (PumaBenchmark::Postmark, PumaBenchmark::TpcH);
        let tpc_c = PumaBenchmark::TpcC;
        let limit = |far| self.speed_up(EXCLUSIVE_FILTER, tpc_h, far);
        vec![
            Acceptance::of(
                "figure 5d, Postmark with 0.5 GB: +10 %, within a factor of 1.5",
                self.speed_up(NON_INCLUSIVE, postmark, HALF),
                near(1.10).start().max(1.0)..=*near(1.10).end(),
            ),
            Acceptance::of(
                "figure 5d, Postmark when all fits: 3 times, within a factor of 1.5",
                self.speed_up(NON_INCLUSIVE, postmark, FIVE),
                near(3.0),
            ),
            Acceptance::of(
                "figure 5e, TPC-H with 0.5 GB: at least +5 %",
                self.speed_up(NON_INCLUSIVE, tpc_h, HALF),
                at_least(1.05),
            ),
            Acceptance::of(
                "figure 5e, exclusive with the filter is at its limit soon: speed-up with 5 GB ÷ that with 2 GB",
                limit(FIVE).zip(limit(TWO)).map(ratio),
                at_most(1.05),
            ),
            Acceptance::of(
                "figure 5e, and it is behind: its speed-up with 5 GB ÷ non-inclusive's with the filter",
                limit(FIVE)
                    .zip(self.speed_up(NON_INCLUSIVE_FILTER, tpc_h, FIVE))
                    .map(ratio),
                at_most(1.0),
            ),
            Acceptance::of(
                "figure 5f, TPC-C with 0.5 GB: +12 %, within a factor of 1.5",
                self.speed_up(EXCLUSIVE, tpc_c, HALF),
                near(1.12).start().max(1.0)..=*near(1.12).end(),
            ),
            Acceptance::of(
                "figure 5f, TPC-C with 6 GB: 4 times, within a factor of 1.5",
                self.speed_up(NON_INCLUSIVE, tpc_c, SIX),
                near(4.0),
            ),
        ]
    }

    fn guards(&self) -> Judged {
        let at_500 = |setting| {
            let run = Protection::PUMA.run(PumaBenchmark::Postmark, setting, INJECTED[1]);
            self.0.speed_up(&run)
        };
        let ours = SETTINGS_OF_FIGURE_7.into_iter().flat_map(|setting| {
            PumaBenchmark::OF_FIGURE_5
                .into_iter()
                .flat_map(move |benchmark| {
                    let injected = INJECTED.into_iter();
                    injected.map(move |injected| {
                        self.0
                            .speed_up(&Protection::OURS.run(benchmark, setting, injected))
                    })
                })
        });
        vec![
            Acceptance::of(
                "figure 7b, PUMA's guard lets Postmark down at +500 µs, over the paper's disks",
                at_500(SettingName::Paper),
                at_most(1.0),
            ),
            Acceptance::of(
                "figure 7b, the same over an NVMe disk",
                at_500(SettingName::Nvme),
                at_most(1.0),
            ),
            Acceptance::of(
                "figure 7, our guard and filter never let a benchmark down: the least speed-up",
                least(ours),
                at_least(0.95),
            ),
        ]
    }

    fn tables(&self) -> Judged {
        let random = PumaBenchmark::RandomReads;
        let against_ssd = |setting| {
            let ssd = self.0.outcome(&ssd_of_table_2(random))?.performance;
            Some(
                self.0
                    .outcome(&far_of_table_2(random, setting))?
                    .performance
                    / ssd,
            )
        };
        let bursts = self.0.bursts.get(&BurstCount::Three);
        vec![
            Acceptance::of(
                "table 1, three clones: their time ÷ that without lending",
                bursts.map(|of| of.clone_secs / of.baseline_secs),
                at_most(1.25),
            ),
            Acceptance::of(
                "table 1, TPC-C's gain while the lender is idle",
                bursts.map(|of| of.baseline_response / of.idle_response),
                at_least(2.5),
            ),
            Acceptance::of(
                "table 2, random reads: far memory in 150 µs ÷ an SSD of 200 µs",
                against_ssd(SettingName::Paper),
                at_least(1.0),
            ),
            Acceptance::of(
                "table 2, random reads: far memory in 25 µs ÷ the same SSD",
                against_ssd(SettingName::Quick),
                at_least(1.0),
            ),
        ]
    }
}

fn ratio((of, to): (f64, f64)) -> f64 {
    of / to
}

/// The least of the figures that are there.
fn least(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    figures.flatten().reduce(f64::min)
}

/// The most of the figures that are there.
fn most(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    figures.flatten().reduce(f64::max)
}

/// The most of some figures divided by the least.
fn spread(figures: impl Iterator<Item = Option<f64>> + Clone) -> Option<f64> {
    most(figures.clone()).zip(least(figures)).map(ratio)
}
