//! The papers' experiments: which shipped scenario, which variants, and what the paper found.

use sublet_types::{EvictionKind, Shrinking};

use crate::compare::Variants;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scenario::{Engine, PolicySpec, Scenario, ScenarioError, Shipped, Sizing};

/// One experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The paper, as `sublet sim` calls it.
    pub paper: &'static str,
    /// The shipped scenario.
    pub scenario: &'static str,
    /// Where in the paper.
    pub place: &'static str,
    /// Policies that are compared, the yard-stick first.
    policies: &'static [&'static str],
    evictions: &'static [EvictionKind],
    sizings: &'static [Sizing],
    without_tier: bool,
    /// What the paper found.
    pub found: &'static str,
}

/// Policies of SmarTmem's figures, then those of other papers and our own.
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
pub const EXPERIMENTS: [Experiment; 6] = [
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
        sizings: &[Sizing::Fixed, Sizing::Elastic],
        without_tier: false,
        found: "the elastic store's mean response is 35 % better than a fixed one's; the fixed one's hit \
                rate stays below 20 %",
    },
    Experiment {
        paper: "synergy",
        scenario: "synergy",
        place: "table 8",
        policies: &[],
        evictions: &[EvictionKind::Lru, EvictionKind::File, EvictionKind::XS3h],
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
    /// None, as the tests see to it.
    pub fn runs(&self, shrinks: &[Shrinking]) -> Result<Vec<Scenario>, ScenarioError> {
        let parsed = |written: &&str| written.parse::<PolicySpec>().ok();
        let variants = Variants {
            policies: self.policies.iter().filter_map(parsed).collect(),
            evictions: self.evictions.to_vec(),
            shrinks: shrinks.to_vec(),
            shards: Vec::new(),
            sizings: self.sizings.to_vec(),
            without_tier: self.without_tier,
        };
        let Some(shipped) = Shipped::find(self.scenario) else {
            return Ok(Vec::new());
        };
        Ok(variants.of(&shipped.scenario()?))
    }
}

/// Policies under which nobody ever has a target.
const WITHOUT_TARGETS: [&str; 2] = ["greedy", "weights"];

/// What is to be run for some experiments: what comes to the same is run once.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The scenarios to run.
    pub scenarios: Vec<Scenario>,
    reports: Vec<Planned>,
}

/// A report that is to be made.
#[derive(Clone, Debug)]
struct Planned {
    /// Each run's number among the scenarios, and what it is called here.
    runs: Vec<(usize, String)>,
    note: String,
}

impl Plan {
    /// A report for each way of shrinking and each experiment, so that each has its own yard-stick; one for each
    /// experiment, as its scenario says, where no way is named.
    ///
    /// # Errors
    ///
    /// None, as the tests see to it.
    pub fn of(experiments: &[&Experiment], shrinks: &[Shrinking]) -> Result<Plan, ScenarioError> {
        let mut plan = Plan::default();
        let as_written: &[Shrinking] = &[];
        let ways: Vec<&[Shrinking]> = match shrinks.is_empty() {
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

    fn add(&mut self, experiment: &Experiment, way: &[Shrinking]) -> Result<(), ScenarioError> {
        let mut runs = Vec::new();
        for scenario in experiment.runs(way)? {
            let label = scenario.label();
            runs.push((self.number_of(scenario), label));
        }
        self.reports.push(Planned {
            runs,
            note: format!("The paper ({}): {}.", experiment.place, experiment.found),
        });
        Ok(())
    }

    /// The number of the scenario that comes to the same, which is this one where there was none.
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

    /// The reports, of what each scenario came to, in their order.
    pub fn reports(&self, outcomes: &[Outcome]) -> Vec<Report> {
        let run = |(number, label): &(usize, String)| {
            let outcome = outcomes.get(*number)?.clone();
            let label = label.clone();
            Some(Outcome { label, ..outcome })
        };
        let report = |planned: &Planned| {
            let mut report = Report::of(planned.runs.iter().filter_map(run).collect());
            report.notes.push(planned.note.clone());
            report
        };
        self.reports.iter().map(report).collect()
    }
}

/// What tells the variants of a scenario apart. Where nobody has a target, nobody is over it, and it is the same
/// what would become of who is.
fn what_counts(scenario: &Scenario) -> String {
    let has_targets = !WITHOUT_TARGETS.contains(&scenario.policy.name.as_str());
    let is_bound = has_targets && scenario.tier.engine != Engine::None;
    let mut scenario = scenario.clone();
    if !is_bound {
        scenario.tier.shrink = Shrinking::default();
    }
    scenario.label()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Watch, run};

    #[test]
    fn every_experiment_has_its_scenario_and_knows_its_policies() {
        for experiment in EXPERIMENTS {
            for policy in experiment.policies {
                assert!(policy.parse::<PolicySpec>().is_ok(), "{policy}");
            }
            let runs = experiment.runs(&[Shrinking::Active]).expect("right");
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
        let plan = Plan::of(&experiments, &[Shrinking::Active, Shrinking::Never]).expect("right");
        // Of 13 variants of 4 scenarios, 10 have targets and differ by the way of shrinking.
        assert_eq!(plan.scenarios.len(), 4 * (13 + 10));
        let outcomes: Vec<Outcome> = plan
            .scenarios
            .iter()
            .map(|scenario| Outcome::of(scenario, crate::virtual_time::Moment::START, 0))
            .collect();
        let reports = plan.reports(&outcomes);
        assert_eq!(reports.len(), 8);
        for (number, report) in reports.iter().enumerate() {
            let labels: Vec<&str> = report.runs.iter().map(|run| run.label.as_str()).collect();
            assert_eq!(labels.len(), 13);
            assert_eq!(report.runs[0].scenario, experiments[number % 4].scenario);
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
        let as_written = Plan::of(&experiments, &[]).expect("right");
        assert_eq!(as_written.scenarios.len(), 4 * 13);
        assert_eq!(as_written.reports(&outcomes).len(), 4);
    }

    /// Three machines that want more than there is.
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
            let outcome = run(&scenario, &mut no_files, Watch::Nobody, &mut |_| {});
            let outcome = Outcome {
                label: String::new(),
                ..outcome.expect("it runs")
            };
            serde_json::to_string(&outcome).expect("it serialises")
        };
        for policy in WITHOUT_TARGETS {
            let [active, never] = [Shrinking::Active, Shrinking::Never];
            assert_eq!(played(policy, active), played(policy, never), "{policy}");
        }
        assert_ne!(
            played("smart-alloc:p=6", Shrinking::Active),
            played("smart-alloc:p=6", Shrinking::Never)
        );
    }
}
