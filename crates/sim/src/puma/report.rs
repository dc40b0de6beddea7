//! All figures and tables of the paper beside what the simulation comes to.

use std::collections::BTreeMap;

use serde_json::Value;

use super::acceptance;
use super::benchmarks::PumaBenchmark;
use super::bursts::{BurstCount, BurstOutcome};
use super::paper;
use super::plan::{
    BenchmarkOutcomes, CurveOfFigure5, FAR, INJECTED, OF_TABLE_2, Protection, PumaOutcome,
    PumaPlan, PumaTask, SETTINGS_OF_FIGURE_5, SETTINGS_OF_FIGURE_7, far_of, far_of_table_2,
    ssd_of_table_2,
};
use super::run::BenchmarkOutcome;
use super::setting::{PumaScale, SettingName};
use super::variants::{BenchmarkRun, FarAmount};
use crate::figures::{self, Acceptance, FigureRow, FigureTable};
use crate::virtual_time::VirtualDuration;

/// The form of the JSON.
const VERSION: u32 = 1;

/// What all runs came to.
#[derive(Clone, Debug, Default)]
pub struct PumaReport {
    scale: PumaScale,
    seed: u64,
    benchmarks: BenchmarkOutcomes,
    pub(super) bursts: BTreeMap<BurstCount, BurstOutcome>,
}

impl PumaReport {
    /// The report of a plan's outcomes, in the order of its tasks.
    pub fn of(
        plan: &PumaPlan,
        outcomes: &[PumaOutcome],
        scale: PumaScale,
        seed: u64,
    ) -> PumaReport {
        let mut report = PumaReport {
            scale,
            seed,
            ..PumaReport::default()
        };
        for (task, outcome) in plan.tasks.iter().zip(outcomes) {
            match (task, outcome) {
                (PumaTask::Benchmark(run), PumaOutcome::Benchmark(outcome)) => {
                    report.benchmarks.insert(*run, *outcome);
                }
                (PumaTask::Bursts(bursts), PumaOutcome::Bursts(outcome)) => {
                    report.bursts.insert(*bursts, *outcome);
                }
                _ => {}
            }
        }
        report
    }

    /// Returns whether every page that came back was the one that was put last.
    pub fn holds(&self) -> bool {
        let benchmarks = self
            .benchmarks
            .values()
            .map(|outcome| outcome.far.pages_wrong);
        let bursts = self.bursts.values().map(|outcome| outcome.pages_wrong);
        benchmarks.chain(bursts).all(|wrong| wrong == 0)
    }

    /// What a run came to, if it is part of the report.
    pub(super) fn outcome(&self, run: &BenchmarkRun) -> Option<&BenchmarkOutcome> {
        self.benchmarks.get(run)
    }

    /// A run's performance divided by that without far memory.
    pub(super) fn speed_up(&self, run: &BenchmarkRun) -> Option<f64> {
        let baseline = self.outcome(&run.baseline())?.performance;
        Some(self.outcome(run)?.performance / baseline)
    }

    /// The speed-up of a curve of figure 5.
    pub(super) fn speed_up_of(
        &self,
        curve: CurveOfFigure5,
        benchmark: PumaBenchmark,
        setting: SettingName,
        far: FarAmount,
    ) -> Option<f64> {
        self.speed_up(&curve.run(benchmark, setting, far))
    }

    /// All figures and tables.
    pub fn tables(&self) -> Vec<FigureTable> {
        let figure_5 = PumaBenchmark::OF_FIGURE_5.into_iter().zip('a'..);
        let figure_5 = figure_5.map(|(benchmark, letter)| self.figure_5(benchmark, letter));
        self.figure_4()
            .into_iter()
            .chain(figure_5)
            .chain(SETTINGS_OF_FIGURE_7.map(|setting| self.figure_7(setting)))
            .chain([self.table_1(), self.table_2()])
            .collect()
    }

    fn figure_4(&self) -> [FigureTable; 2] {
        let per_read = |pages: u64, outcome: &BenchmarkOutcome| {
            pages as f64 / outcome.transactions.max(1) as f64
        };
        let gets = |outcome: &BenchmarkOutcome| per_read(outcome.far.fetched, outcome);
        let puts = |outcome: &BenchmarkOutcome| per_read(outcome.far.sent, outcome);
        let table =
            |title: &str, departures, value: &dyn Fn(&BenchmarkOutcome) -> f64| FigureTable {
                title: title.to_owned(),
                columns: gigabytes(far_of(PumaBenchmark::RandomReads)),
                rows: self.curves(PumaBenchmark::RandomReads, |run| {
                    Some(value(self.outcome(run)?))
                }),
                paper: paper::FIGURE_4,
                departures,
            };
        [
            table(
                "Figure 4a: pages fetched for each random read",
                ON_GETS,
                &gets,
            ),
            table("Figure 4b: pages sent for each random read", ON_PUTS, &puts),
        ]
    }

    fn figure_5(&self, benchmark: PumaBenchmark, letter: char) -> FigureTable {
        FigureTable {
            title: format!("Figure 5{letter}: speed-up of {}", benchmark.words()),
            columns: gigabytes(far_of(benchmark)),
            rows: self.curves(benchmark, |run| self.speed_up(run)),
            paper: paper::figure_5(benchmark),
            departures: on_figure_5(benchmark),
        }
    }

    /// A row for each setting and curve of figure 5.
    fn curves(
        &self,
        benchmark: PumaBenchmark,
        value: impl Fn(&BenchmarkRun) -> Option<f64>,
    ) -> Vec<FigureRow> {
        let rows = SETTINGS_OF_FIGURE_5.into_iter().flat_map(|setting| {
            let curves = CurveOfFigure5::of_benchmark(benchmark).iter();
            curves.map(move |curve| (setting, *curve))
        });
        let row = |(setting, curve): (SettingName, CurveOfFigure5)| FigureRow {
            name: [setting.words().to_owned(), curve.words().to_owned()],
            values: far_of(benchmark)
                .iter()
                .map(|far| value(&curve.run(benchmark, setting, *far)))
                .collect(),
        };
        rows.map(row).collect()
    }

    fn figure_7(&self, setting: SettingName) -> FigureTable {
        let rows = PumaBenchmark::OF_FIGURE_5
            .into_iter()
            .flat_map(|benchmark| {
                let protections = Protection::ALL.into_iter();
                protections.map(move |protection| (benchmark, protection))
            });
        let row = |(benchmark, protection): (PumaBenchmark, Protection)| FigureRow {
            name: [benchmark.words().to_owned(), protection.words().to_owned()],
            values: INJECTED
                .iter()
                .map(|injected| self.speed_up(&protection.run(benchmark, setting, *injected)))
                .collect(),
        };
        FigureTable {
            title: format!(
                "Figure 7: speed-up with latency injected; {}",
                setting.words()
            ),
            columns: INJECTED
                .iter()
                .map(|injected| milliseconds(*injected))
                .collect(),
            rows: rows.map(row).collect(),
            paper: paper::FIGURE_7,
            departures: ON_FIGURE_7,
        }
    }

    fn table_1(&self) -> FigureTable {
        let [alone, with_puma] = paper::TPC_C_RESPONSE;
        let row = |bursts: BurstCount| {
            let of = self.bursts.get(&bursts).copied();
            let gain = |response: fn(BurstOutcome) -> f64| {
                of.map(|of| of.baseline_response / response(of).max(f64::MIN_POSITIVE))
            };
            let words = bursts.words().to_owned();
            let here = FigureRow {
                name: [words.clone(), "here".to_owned()],
                values: vec![
                    of.map(|of| of.clone_secs / of.baseline_secs),
                    gain(|of| of.idle_response),
                    gain(|of| of.clone_response),
                    gain(|of| of.response),
                ],
            };
            let there = FigureRow {
                name: [words, "the paper".to_owned()],
                values: vec![
                    Some(paper::clone_secs(bursts) / bursts.baseline_secs()),
                    None,
                    None,
                    Some(alone / with_puma),
                ],
            };
            [here, there]
        };
        let columns = [
            "clones' time ÷ that without lending",
            "TPC-C's gain while the lender is idle",
            "while it clones",
            "in all",
        ];
        FigureTable {
            title: "Table 1: a lender that clones repositories beside TPC-C".to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: [BurstCount::One, BurstCount::Three]
                .into_iter()
                .flat_map(row)
                .collect(),
            paper: paper::TABLE_1,
            departures: ON_TABLE_1,
        }
    }

    fn table_2(&self) -> FigureTable {
        let row = |benchmark: PumaBenchmark| {
            let baseline = far_of_table_2(benchmark, SettingName::Paper).baseline();
            let baseline = self.outcome(&baseline).map(|outcome| outcome.performance);
            let ssd = self.outcome(&ssd_of_table_2(benchmark));
            let here = FigureRow {
                name: [benchmark.words().to_owned(), "here".to_owned()],
                values: vec![
                    self.speed_up(&far_of_table_2(benchmark, SettingName::Paper)),
                    ssd.zip(baseline)
                        .map(|(ssd, baseline)| ssd.performance / baseline),
                    self.speed_up(&far_of_table_2(benchmark, SettingName::Quick)),
                ],
            };
            let there = paper::table_2(benchmark).map(|[baseline, far, ssd]| FigureRow {
                name: [benchmark.words().to_owned(), "the paper".to_owned()],
                values: vec![Some(far / baseline), Some(ssd / baseline), None],
            });
            [Some(here), there].into_iter().flatten()
        };
        let columns = ["5 GB far", "SSD cache of 200 µs", "5 GB far in 25 µs"];
        FigureTable {
            title: "Table 2: speed-up by far memory and by an SSD".to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: OF_TABLE_2.into_iter().flat_map(row).collect(),
            paper: paper::TABLE_2,
            departures: ON_TABLE_2,
        }
    }

    /// The form for people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "PUMA (SYSTOR 2015), seed {}. Memory and data are {} times smaller than the paper's.\n\n",
            self.seed, self.scale
        );
        text.push_str(&figures::text(&self.tables(), &self.acceptance()));
        text
    }

    /// The machine-readable form.
    pub fn json(&self) -> Value {
        let run = |(run, outcome): (&BenchmarkRun, &BenchmarkOutcome)| {
            serde_json::json!({
                "run": run,
                "outcome": outcome,
                "speed_up": self.speed_up(run),
            })
        };
        let bursts = |(bursts, outcome): (&BurstCount, &BurstOutcome)| serde_json::json!({"bursts": bursts, "outcome": outcome});
        serde_json::json!({
            "version": VERSION,
            "scale": self.scale,
            "seed": self.seed,
            "tables": self.tables(),
            "acceptance": self.acceptance(),
            "runs": self.benchmarks.iter().map(run).collect::<Vec<Value>>(),
            "bursts": self.bursts.iter().map(bursts).collect::<Vec<Value>>(),
        })
    }

    /// What is expected of the figures, and whether they meet it.
    pub fn acceptance(&self) -> Vec<Acceptance> {
        acceptance::all(self)
    }
}

fn gigabytes(far: &[FarAmount]) -> Vec<String> {
    let gigabytes = far.iter().map(|far| far.0 as f64 / FAR[1].0 as f64);
    gigabytes.map(|far| format!("{far} GB")).collect()
}

fn milliseconds(span: VirtualDuration) -> String {
    format!("+{} ms", span.0 as f64 / 1e6)
}

const ON_GETS: &[&str] = &[
    "A read is of one aligned page; theirs are not aligned and touch two.",
    "The lender lacks a few blocks that the store keeps ready for the next evictions.",
];

const ON_PUTS: &[&str] = &[
    "Non-inclusive falls to half instead of to nothing. A page that is read twice at the lender comes home (second-hit \
     promotion), and another one goes there for it.",
];

fn on_figure_5(benchmark: PumaBenchmark) -> &'static [&'static str] {
    match benchmark {
        PumaBenchmark::RandomReads => &[
            "Of 1 GB the page cache has seven eighths, and the store's own memory is a part of that. So 3 GB of far \
             memory do not hold the rest of the file, and 4 GB do.",
        ],
        PumaBenchmark::SequentialReads => &[
            "On the paper's network far memory stays slower than the disks even when the file fits: one window of 32 \
             pages is read ahead at a time, and waits for a round trip. Over 25 µs it is ahead.",
            "Non-inclusive pays for second-hit promotion: half of the pages are sent again.",
        ],
        PumaBenchmark::Blast => &[
            "The paper says neither how much is sequential nor how much BLAST computes. Both are chosen so that the \
             filter's gain comes near theirs: 2 ms of work for a window, and a lookup in an index of 128 MB after one \
             window in twelve.",
            "Half a gigabyte is enough with the filter, because only the index goes to the lender.",
        ],
        PumaBenchmark::Postmark => &[
            "One disk serves reads and writes in turn, and writes stay on it. So the limit lies below the paper's 3.",
        ],
        PumaBenchmark::TpcH => &[
            "The pages are read uniformly. Real tables have popular pages, which a little far memory serves first.",
        ],
        PumaBenchmark::TpcC | PumaBenchmark::LargeTpcC => &[
            "No page is more popular than others, and a commit waits for the disk. So the gain is smaller than theirs \
             with little far memory, and larger with much of it.",
            "Nothing is read in long runs, so the filter changes nothing.",
        ],
    }
}

const ON_FIGURE_7: &[&str] = &[
    "On the paper's disks Postmark gains at +500 µs. A far read of 0.65 ms cannot be slower than one of 7.7 ms, and a \
     put never waits here. What slowed theirs down the paper does not say. With a disk of 100 µs the dip is there.",
    "TPC-C does not collapse: no packet is lost here. (netem drops packets beyond its queue.) Its response is bounded \
     by the commit, so it hardly changes.",
    "Sequential reads are slower than without far memory from +0.5 ms on, not from +1 ms on: a window has 32 pages.",
    "A guest with a shut guard has less memory than one without far memory: the store's own block.",
];

const ON_TABLE_1: &[&str] = &[
    "The clones hardly notice. The lender takes blocks back at once and asks nobody; PUMA's kernel frees page by page. \
     The clones' disk and page cache are not simulated; their time without lending is the paper's.",
    "The paper does not say in which time it measured TPC-C. While three clones run, they have nearly all that was \
     lent.",
    "Sizes are scaled and times are not, so far memory fills again sooner than theirs.",
    "Of the paper's \"roughly 15 GB\", 14.5 GB are read, and all of them alike. That amount is chosen so that the gain comes \
     near theirs.",
];

const ON_TABLE_2: &[&str] = &[
    "The SSD's cache is warm and has everything, writes included, and knows no other costs than 200 µs and 500 MiB/s.",
    "The text of the paper's table 2 has lost its lines. Its figures are arranged so that they agree with section 4.6. \
     BLAST's 2.5 there and +45 % in section 4.4.1 do not agree with each other.",
];
