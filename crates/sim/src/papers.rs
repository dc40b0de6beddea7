//! The papers' experiments: the built-in scenario, the variants, and what the paper found.

use std::collections::BTreeMap;

use sublet_policy::catalogue::PolicyKnobSpec;
use sublet_types::{EvictionKind, ShrinkMode};

use crate::compare::ScenarioVariants;
use crate::eviction::AnyEviction;
use crate::outcome::RunOutcome;
use crate::report::RunReport;
use crate::scenario::{
    BuiltInScenario, PolicySpec, Scenario, ScenarioError, TierEngine, TierSizing,
};

/// One experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The paper, by its name in `sublet-lab sim`.
    pub paper: &'static str,
    /// The built-in scenario.
    pub scenario: &'static str,
    /// Where in the paper.
    pub place: &'static str,
    /// The policies that are compared, the yard-stick first.
    policies: &'static [&'static str],
    evictions: &'static [EvictionKind],
    sizings: &'static [TierSizing],
    without_tier: bool,
    /// What the paper found.
    pub found: &'static str,
}

/// The policies of SmarTmem's figures, then those of other papers and our own.
const SMARTMEM: &[&str] = &[
    "greedy",
    "static-alloc",
    "reconf-static",
    "smart-alloc:p=0.25",
    "smart-alloc:p=0.75",
    "smart-alloc:p=2",
    "smart-alloc:p=4",
    "smart-alloc:p=6",
    "two-level",
    "weights",
    "utility",
    "mrc",
];

const fn smartmem(scenario: &'static str, place: &'static str, found: &'static str) -> Experiment {
    Experiment {
        paper: "smartmem",
        scenario,
        place,
        policies: SMARTMEM,
        evictions: &[],
        sizings: &[],
        without_tier: true,
        found,
    }
}

/// All of them.
pub(crate) const EXPERIMENTS: [Experiment; 6] = [
    smartmem(
        "smartmem-1",
        "figures 3 and 4",
        "smart-alloc P 0.75 % takes 7.1 to 12.7 % less time than greedy, 28 to 35.7 % less than no tmem; \
         P 0.25 % and reconf-static gain next to nothing",
    ),
    smartmem(
        "smartmem-2",
        "figures 5 and 6",
        "smart-alloc P 6 % takes 4.7 (VM2) to 9.6 % (VM3) less time than greedy, 21 to 28 % less than no \
         tmem; the static policies gain nothing",
    ),
    smartmem(
        "smartmem-usemem",
        "figures 7 and 8",
        "greedy beats the static policies for VM1 and VM2, they beat it for VM3; greedy is worse than no \
         tmem for VM3's last allocation",
    ),
    smartmem(
        "smartmem-3",
        "figures 9 and 10",
        "smart-alloc P 4 % is best for VM1 and VM2 (10.8 % and more over greedy), static-alloc for VM3 \
         (35 % over greedy, 40 % over no tmem)",
    ),
    Experiment {
        paper: "mortar",
        scenario: "mortar",
        place: "figure 10",
        policies: &[],
        evictions: &[],
        sizings: &[TierSizing::Fixed, TierSizing::Elastic],
        without_tier: false,
        found: "the elastic store's mean response is 35 % better than a fixed one's; the fixed one's hit \
                rate stays below 20 %",
    },
    Experiment {
        paper: "synergy",
        scenario: "synergy",
        place: "table 8",
        policies: &[],
        evictions: &[
            EvictionKind::Lru,
            EvictionKind::File,
            EvictionKind::XS3h,
            EvictionKind::AdaptiveMq,
        ],
        sizings: &[],
        without_tier: false,
        found: "eviction by file has 2 to 3.5 times the throughput of block LRU, more hits (4 threads: 92 % \
                against 69 %), and next to no read-ahead fragmentation (329 against 111,780 with 2 threads)",
    },
];

impl Experiment {
    /// The experiments of a paper.
    pub fn of_paper(paper: &str) -> impl Iterator<Item = &'static Experiment> + '_ {
        EXPERIMENTS
            .iter()
            .filter(move |experiment| experiment.paper == paper)
    }

    /// The scenarios to run, the yard-stick first.
    ///
    /// # Errors
    ///
    /// None: the tests check every experiment.
    pub fn runs(&self, shrinks: &[ShrinkMode]) -> Result<Vec<Scenario>, ScenarioError> {
        let parsed = |written: &&str| written.parse::<PolicySpec>().ok();
        let variants = ScenarioVariants {
            policies: self.policies.iter().filter_map(parsed).collect(),
            evictions: self
                .evictions
                .iter()
                .copied()
                .map(AnyEviction::from)
                .collect(),
            shrinks: shrinks.to_vec(),
            shards: Vec::new(),
            sizings: self.sizings.to_vec(),
            without_tier: self.without_tier,
        };
        let Some(shipped) = BuiltInScenario::find(self.scenario) else {
            return Ok(Vec::new());
        };
        Ok(variants.of(&shipped.scenario()?))
    }
}

/// Policies that never set a target, so that the store does the same under each.
const WITHOUT_TARGETS: [&str; 2] = ["greedy", "weights"];

/// A policy, and another that sets the same targets with the same knobs: a lone node has nobody to ask for more.
const ON_A_LONE_NODE: (&str, &str) = ("two-level", "smart-alloc");

/// What to run for some experiments. Variants that come to the same are run once.
#[derive(Clone, Debug, Default)]
pub struct ExperimentPlan {
    /// The scenarios to run.
    pub scenarios: Vec<Scenario>,
    reports: Vec<PlannedReport>,
}

/// A report to make.
#[derive(Clone, Debug)]
struct PlannedReport {
    runs: Vec<PlannedRun>,
    note: String,
}

/// A run of a report.
#[derive(Clone, Debug)]
struct PlannedRun {
    /// Its number among the scenarios that are run.
    number: usize,
    /// The labels of the run and of its policy in this report.
    label: String,
    policy: String,
}

impl ExperimentPlan {
    /// One report per way of shrinking and experiment, so that each has its own yard-stick. If no way is named, there
    /// is one report per experiment, as its scenario says.
    ///
    /// # Errors
    ///
    /// None: the tests check every experiment.
    pub fn of(
        experiments: &[&Experiment],
        shrinks: &[ShrinkMode],
    ) -> Result<ExperimentPlan, ScenarioError> {
        let mut plan = ExperimentPlan::default();
        let as_written: &[ShrinkMode] = &[];
        let ways: Vec<&[ShrinkMode]> = match shrinks.is_empty() {
            true => vec![as_written],
            false => shrinks.chunks(1).collect(),
        };
        for way in ways {
            for experiment in experiments {
                plan.add(experiment, way)?;
            }
        }
        Ok(plan)
    }

    fn add(&mut self, experiment: &Experiment, way: &[ShrinkMode]) -> Result<(), ScenarioError> {
        let mut runs = Vec::new();
        for scenario in experiment.runs(way)? {
            let (label, policy) = (scenario.label(), scenario.policy.name.clone());
            let number = self.number_of(scenario);
            runs.push(PlannedRun {
                number,
                label,
                policy,
            });
        }
        self.reports.push(PlannedReport {
            runs,
            note: format!("The paper ({}): {}.", experiment.place, experiment.found),
        });
        Ok(())
    }

    /// The number of the scenario that comes to the same. It is `scenario` itself if there was none.
    fn number_of(&mut self, scenario: Scenario) -> usize {
        let same = |planned: &Scenario| {
            planned.name == scenario.name && what_counts(planned) == what_counts(&scenario)
        };
        if let Some(number) = self.scenarios.iter().position(same) {
            return number;
        }
        self.scenarios.push(scenario);
        self.scenarios.len() - 1
    }

    /// The reports, made from the outcome of each scenario, in order.
    pub fn reports(&self, outcomes: &[RunOutcome]) -> Vec<RunReport> {
        let run = |run: &PlannedRun| {
            let outcome = outcomes.get(run.number)?.clone();
            Some(RunOutcome {
                label: run.label.clone(),
                policy: run.policy.clone(),
                ..outcome
            })
        };
        let report = |planned: &PlannedReport| {
            let mut report = RunReport::of(planned.runs.iter().filter_map(run).collect());
            report.notes.push(planned.note.clone());
            report
        };
        self.reports.iter().map(report).collect()
    }
}

/// What distinguishes the variants of a scenario. If nobody has a target, nobody is over it, and the way of shrinking
/// makes no difference.
fn what_counts(scenario: &Scenario) -> String {
    let mut scenario = scenario.clone();
    let has_targets = !WITHOUT_TARGETS.contains(&scenario.policy.name.as_str());
    scenario.policy = match has_targets {
        true => spelled_out(&scenario.policy),
        false => PolicySpec::default(),
    };
    if !has_targets || scenario.tier.engine == TierEngine::None {
        scenario.tier.shrink = ShrinkMode::default();
    }
    scenario.label()
}

/// A policy of the same targets, with all its knobs set.
fn spelled_out(policy: &PolicySpec) -> PolicySpec {
    let Ok(choice) = policy.choice() else {
        return policy.clone();
    };
    let name = match ON_A_LONE_NODE {
        (far, near) if policy.name == far => near,
        _ => &policy.name,
    };
    let knob =
        |(knob, value): (&PolicyKnobSpec, f64)| (knob.name.to_owned(), toml::Value::Float(value));
    PolicySpec {
        name: name.to_owned(),
        knobs: choice.values().map(knob).collect::<BTreeMap<_, _>>(),
        interval: policy.interval,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{JudgeMode, run};

    #[test]
    fn every_experiment_has_its_scenario_and_knows_its_policies() {
        for experiment in EXPERIMENTS {
            for policy in experiment.policies {
                assert!(policy.parse::<PolicySpec>().is_ok(), "{policy}");
            }
            let runs = experiment.runs(&[ShrinkMode::Active]).expect("right");
            let lists = [
                experiment.policies.len(),
                experiment.evictions.len(),
                experiment.sizings.len(),
            ];
            let combined: usize = lists.iter().map(|length| (*length).max(1)).product();
            assert_eq!(runs.len(), combined + usize::from(experiment.without_tier));
        }
        assert_eq!(Experiment::of_paper("smartmem").count(), 4);
    }

    #[test]
    fn what_comes_to_the_same_is_planned_once_and_told_in_every_report() {
        let experiments: Vec<&Experiment> = Experiment::of_paper("smartmem").collect();
        let plan = ExperimentPlan::of(&experiments, &[ShrinkMode::Active, ShrinkMode::Never])
            .expect("right");
        // Of 13 variants of 4 scenarios, two have no targets, and two are the same. Nine others have a target and
        // differ by the way of shrinking. One is no tmem.
        assert_eq!(plan.scenarios.len(), 4 * (1 + 2 * 9 + 1));
        let outcomes: Vec<RunOutcome> = plan
            .scenarios
            .iter()
            .map(|scenario| RunOutcome::of(scenario, crate::virtual_time::VirtualInstant::START, 0))
            .collect();
        let reports = plan.reports(&outcomes);
        assert_eq!(reports.len(), 8);
        for (number, report) in reports.iter().enumerate() {
            let labels: Vec<&str> = report.runs.iter().map(|run| run.label.as_str()).collect();
            assert_eq!(labels.len(), 13);
            assert_eq!(report.runs[0].scenario, experiments[number % 4].scenario);
            let policies: Vec<&str> = report.runs.iter().map(|run| run.policy.as_str()).collect();
            assert_eq!([policies[8], policies[9]], ["two-level", "weights"]);
            let expected = match number < 4 {
                true => ["greedy", "static-alloc", "no tmem"],
                false => [
                    "greedy, never shrinks",
                    "static-alloc, never shrinks",
                    "no tmem",
                ],
            };
            assert_eq!([labels[0], labels[1], labels[12]], expected);
            assert!(report.notes[0].starts_with("The paper (figure"));
        }
        let as_written = ExperimentPlan::of(&experiments, &[]).expect("right");
        assert_eq!(as_written.scenarios.len(), 4 * 11);
        assert_eq!(as_written.reports(&outcomes).len(), 4);
    }

    /// Three machines that want more memory than there is.
    const TIGHT: &str = r#"
name = "tight"
[host]
memory = "6MiB"
[[vm]]
name = "vm"
count = 3
memory = "1MiB"
[vm.workload.usemem]
step = "1MiB"
most = "5MiB"
"#;

    #[test]
    fn what_is_planned_once_does_come_to_the_same() {
        let played = |policy: &str, shrink| {
            let mut scenario = Scenario::parse("tight", TIGHT).expect("right");
            scenario.policy = policy.parse().expect("a policy");
            scenario.tier.shrink = shrink;
            let mut no_files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
            let outcome = run(&scenario, &mut no_files, JudgeMode::Nobody, &mut |_| {});
            let outcome = RunOutcome {
                label: String::new(),
                policy: String::new(),
                ..outcome.expect("it runs")
            };
            serde_json::to_string(&outcome).expect("it serialises")
        };
        let [active, never] = [ShrinkMode::Active, ShrinkMode::Never];
        let greedy = played("greedy", active);
        for policy in WITHOUT_TARGETS {
            assert_eq!(greedy, played(policy, active), "{policy}");
            assert_eq!(greedy, played(policy, never), "{policy}");
        }
        for shrink in [active, never] {
            let far = played("two-level", shrink);
            assert_eq!(far, played("smart-alloc:p=2", shrink), "{shrink:?}");
            assert_ne!(far, played("smart-alloc:p=6", shrink), "{shrink:?}");
        }
        assert_ne!(
            played("smart-alloc:p=6", active),
            played("smart-alloc:p=6", never)
        );
    }
}
