//! Running times by policy, what each policy gains, and what it moved, beside what the paper found.

use std::collections::BTreeMap;

use serde_json::Value;

use super::acceptance;
use super::cluster::VmcaRun;
use super::model::VmcaModel;
use super::outcome::{NodeOutcome, RunningTime, VmcaOutcome};
use super::paper::PaperFigures;
use super::policies::{StepPercent, VmcaPolicy};
use super::scenarios::{BUSY, VmcaScenario};
use crate::figures::{self, Acceptance, FigureRow, FigureTable};

/// The form of the JSON.
const VERSION: u32 = 1;

/// A seed, beside the scenario and the policy that it was played with.
type RunKey = (VmcaScenario, VmcaPolicy, u64);

/// What all runs came to.
#[derive(Clone, Debug, Default)]
pub struct VmcaReport {
    model: VmcaModel,
    seeds: Vec<u64>,
    scenarios: Vec<VmcaScenario>,
    outcomes: BTreeMap<RunKey, VmcaOutcome>,
}

/// How much less time a policy takes than another, in percent: over all programs of a node, or of both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    pub(super) scenario: VmcaScenario,
    pub(super) of: VmcaPolicy,
    pub(super) over: VmcaPolicy,
}

impl VmcaReport {
    /// The report of these runs and their outcomes, in the same order.
    pub fn of(runs: &[VmcaRun], outcomes: Vec<VmcaOutcome>) -> VmcaReport {
        let mut report = VmcaReport::default();
        for (run, outcome) in runs.iter().zip(outcomes) {
            report.model = run.model;
            report.seeds.push(run.seed);
            report.scenarios.push(run.scenario);
            let key = (run.scenario, run.policy, run.seed);
            report.outcomes.insert(key, outcome);
        }
        report.seeds.sort_unstable();
        report.seeds.dedup();
        report.scenarios.sort_unstable();
        report.scenarios.dedup();
        report
    }

    /// Returns whether no judge found anything.
    pub fn holds(&self) -> bool {
        self.outcomes.values().all(|outcome| outcome.wrongs == 0)
    }

    /// The scenarios that were played.
    pub(super) fn scenarios(&self) -> &[VmcaScenario] {
        &self.scenarios
    }

    /// The running times with one seed. There are none if it was not played.
    fn played(&self, scenario: VmcaScenario, policy: VmcaPolicy, seed: u64) -> &[RunningTime] {
        let outcome = self.outcomes.get(&(scenario, policy, seed));
        let times = outcome.map(|outcome| outcome.times.as_slice());
        times.unwrap_or_default()
    }

    /// A gain with each seed. `node` is the paper's number; without it both nodes count.
    fn gains(&self, gain: Gain, node: Option<usize>) -> Vec<f64> {
        let is_of = |time: &&RunningTime| node.is_none_or(|node| time.node == node);
        let of_seed = |seed: &u64| {
            let of = self.played(gain.scenario, gain.of, *seed);
            let over = self.played(gain.scenario, gain.over, *seed);
            let of = of.iter().filter(is_of);
            let over = over.iter().filter(is_of);
            let parts: Vec<f64> = of
                .zip(over)
                .map(|(of, over)| 100.0 * (1.0 - of.secs / over.secs))
                .collect();
            mean(&parts)
        };
        self.seeds.iter().filter_map(of_seed).collect()
    }

    /// A gain over all programs of both nodes and all seeds.
    pub(super) fn gain(&self, gain: Gain) -> Option<f64> {
        mean(&self.gains(gain, None))
    }

    /// Of some policies the one that gains most over greedy-remote.
    pub(super) fn best_of(
        &self,
        scenario: VmcaScenario,
        policies: impl Iterator<Item = VmcaPolicy>,
    ) -> Option<VmcaPolicy> {
        let gained = |of: VmcaPolicy| {
            let over = VmcaPolicy::GreedyRemote;
            let gain = Gain { scenario, of, over };
            Some((of, self.gain(gain)?))
        };
        let best = policies
            .filter_map(gained)
            .max_by(|(_, one), (_, other)| one.total_cmp(other));
        best.map(|(policy, _)| policy)
    }

    /// All tables, scenario by scenario.
    pub fn tables(&self) -> Vec<FigureTable> {
        let tables = |scenario: &VmcaScenario| {
            [
                self.times(*scenario),
                self.less_time(*scenario),
                self.moved(*scenario),
            ]
        };
        self.scenarios.iter().flat_map(tables).collect()
    }

    /// Running times, the mean of all seeds.
    fn times(&self, scenario: VmcaScenario) -> FigureTable {
        let Some(seed) = self.seeds.first() else {
            return table(scenario, "running times in seconds", Vec::new());
        };
        let bars = self.played(scenario, VmcaPolicy::GreedyLocal, *seed);
        let secs = |place: usize, policy: VmcaPolicy| {
            let of_seed = |seed: &u64| Some(self.played(scenario, policy, *seed).get(place)?.secs);
            mean(&self.seeds.iter().filter_map(of_seed).collect::<Vec<f64>>())
        };
        let row = |(place, bar): (usize, &RunningTime)| FigureRow {
            name: [
                format!("node {}", bar.node),
                format!("{} {}", bar.vm, bar.run),
            ],
            values: VmcaPolicy::ALL.map(|policy| secs(place, policy)).to_vec(),
        };
        FigureTable {
            rows: bars.iter().enumerate().map(row).collect(),
            ..table(scenario, "running times in seconds", policy_names())
        }
    }

    /// How much less time policies take, node by node, and the spread of it over the seeds.
    fn less_time(&self, scenario: VmcaScenario) -> FigureTable {
        let paper = scenario.paper();
        let mut columns = vec![
            format!("{} over {}", VmcaPolicy::ALL[1], VmcaPolicy::ALL[0]),
            "the paper's".to_owned(),
        ];
        let over_remote = &VmcaPolicy::ALL[2..];
        let name = |policy: &VmcaPolicy| format!("{policy} over greedy-remote");
        columns.extend(over_remote.iter().map(name));
        columns.extend(["the paper's best", "its P"].map(str::to_owned));
        let mut rows = Vec::new();
        for (place, node) in BUSY.into_iter().enumerate() {
            let node_gains = |gain: Gain| self.gains(gain, Some(node + 1));
            let figures = SEED_FIGURES.iter().map(|(words, figure)| FigureRow {
                name: [format!("node {}", node + 1), (*words).to_owned()],
                values: gain_row(scenario, |gain| figure(&node_gains(gain))),
            });
            let mut figures: Vec<FigureRow> = figures.collect();
            if let Some(mean) = figures.first_mut() {
                beside_paper(&mut mean.values, &paper, place);
            }
            rows.extend(figures);
        }
        FigureTable {
            rows,
            paper: paper.words,
            departures: on_scenario(scenario),
            ..table(scenario, "how much less time, in %", columns)
        }
    }

    /// What moved between nodes, and what came from disks: the mean of both nodes and all seeds.
    fn moved(&self, scenario: VmcaScenario) -> FigureTable {
        type OfNode = fn(&NodeOutcome) -> Option<f64>;
        let figures: [(&str, OfNode); 6] = [
            ("MiB borrowed at most", |node| {
                Some(2.0 * f64::from(node.borrowed_most))
            }),
            ("seconds until 512 MiB were borrowed", |node| {
                node.borrowed_half_secs.map(|secs| secs as f64)
            }),
            ("far accesses, thousand", |node| {
                Some(node.far_accesses as f64 / 1e3)
            }),
            ("pages read from disk, thousand", |node| {
                Some(node.disk_pages_read as f64 / 1e3)
            }),
            ("pages written to disk, thousand", |node| {
                Some(node.disk_pages_written as f64 / 1e3)
            }),
            ("seeks of the disk, thousand", |node| {
                Some(node.disk_seeks as f64 / 1e3)
            }),
        ];
        let value = |policy: VmcaPolicy, figure: OfNode| {
            let of_seed = |seed: &u64| self.outcomes.get(&(scenario, policy, *seed));
            let nodes = self.seeds.iter().filter_map(of_seed);
            let nodes = nodes.flat_map(|outcome| &outcome.nodes);
            mean(&nodes.filter_map(figure).collect::<Vec<f64>>())
        };
        let row = |(words, figure): (&str, OfNode)| FigureRow {
            name: ["a node".to_owned(), words.to_owned()],
            values: VmcaPolicy::ALL.map(|policy| value(policy, figure)).to_vec(),
        };
        FigureTable {
            rows: figures.into_iter().map(row).collect(),
            ..table(scenario, "what moved", policy_names())
        }
    }

    /// What is expected of the figures, and whether they meet it.
    pub fn acceptance(&self) -> Vec<Acceptance> {
        acceptance::all(self)
    }

    /// The form for people.
    pub fn text(&self) -> String {
        let VmcaModel {
            scale,
            disk_latency_us,
        } = self.model;
        let seeds = &self.seeds;
        let disk = disk_latency_us.map(|us| format!(" A disk takes {us} µs to the first byte."));
        let disk = disk.unwrap_or_default();
        let head = format!(
            "vMCA (2017), seeds {seeds:?}. A page stands for {scale} of the paper's.{disk}\n\n"
        );
        head + &figures::text(&self.tables(), &self.acceptance())
    }

    /// The machine-readable form.
    pub fn json(&self) -> Value {
        let run = |((scenario, policy, seed), outcome): (&RunKey, &VmcaOutcome)| {
            serde_json::json!({
                "scenario": scenario.to_string(),
                "policy": policy,
                "seed": seed,
                "outcome": outcome,
            })
        };
        serde_json::json!({
            "version": VERSION,
            "scale": self.model.scale,
            "disk_latency_us": self.model.disk_latency_us,
            "seeds": self.seeds,
            "tables": self.tables(),
            "acceptance": self.acceptance(),
            "runs": self.outcomes.iter().map(run).collect::<Vec<Value>>(),
        })
    }
}

/// A figure over all seeds, and its name.
type SeedFigure = (&'static str, fn(&[f64]) -> Option<f64>);

const SEED_FIGURES: [SeedFigure; 3] = [
    ("mean", mean),
    ("least", |gains| gains.iter().copied().reduce(f64::min)),
    ("most", |gains| gains.iter().copied().reduce(f64::max)),
];

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn policy_names() -> Vec<String> {
    VmcaPolicy::ALL.map(|policy| policy.to_string()).to_vec()
}

/// A table without rows.
fn table(scenario: VmcaScenario, what: &str, columns: Vec<String>) -> FigureTable {
    FigureTable {
        title: format!("Scenario {scenario}: {what}"),
        columns,
        rows: Vec::new(),
        paper: "",
        departures: &[],
    }
}

/// The gains of a row, with places for the paper's.
fn gain_row(scenario: VmcaScenario, value: impl Fn(Gain) -> Option<f64>) -> Vec<Option<f64>> {
    let gain = |of, over| value(Gain { scenario, of, over });
    let first = gain(VmcaPolicy::GreedyRemote, VmcaPolicy::GreedyLocal);
    let others = VmcaPolicy::ALL[2..]
        .iter()
        .map(|of| gain(*of, VmcaPolicy::GreedyRemote));
    [first, None]
        .into_iter()
        .chain(others)
        .chain([None, None])
        .collect()
}

/// Enters what the paper found for a node.
fn beside_paper(values: &mut [Option<f64>], paper: &PaperFigures, node: usize) {
    if let [_, greedy_remote, .., two_level, percent] = values {
        *greedy_remote = Some(paper.greedy_remote[node]);
        *two_level = Some(paper.two_level[node]);
        *percent = Some(paper.percent[node]);
    }
}

/// P of a policy, if it has one.
pub(super) fn percent_of(policy: VmcaPolicy) -> Option<f64> {
    match policy {
        VmcaPolicy::TwoLevel(StepPercent(percent)) => Some(percent.into()),
        _ => None,
    }
}

/// Where a scenario departs from the paper, and why.
fn on_scenario(scenario: VmcaScenario) -> &'static [&'static str] {
    match scenario {
        VmcaScenario::One => &[
            "Greedy-remote gains more than the paper's. A page that is read back keeps its copy in tmem until it is \
             written, so each machine wants tmem for nearly all of its memory.",
            "TLP gains nothing over greedy-remote. The three machines want the same at the same time, so greedy divides \
             equally by itself, while targets refuse puts although tmem is free.",
        ],
        VmcaScenario::Two => &[
            "The best P is the largest. The disk is busy all the time, and what is refused for longer is written in longer \
             runs, with fewer seeks.",
            "Spread is behind TLP with P 6 %, although it moves fewer pages to and from the disk. Without targets, \
             refusals alternate with puts that found room, so its writes need more seeks.",
        ],
        VmcaScenario::Three => &[
            "TLP is behind greedy-remote, as in scenario 1: targets refuse puts although tmem is free.",
            "Programs free their tmem when they end. In the paper they keep it, so that second runs find less.",
        ],
        VmcaScenario::Four => {
            &["The client and the server do not wait for each other: each is a load of its own."]
        }
    }
}
