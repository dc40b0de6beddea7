//! The papers' experiments: which shipped scenario, which variants, and what the paper found.

use sublet_types::{EvictionKind, Shrinking};

use crate::compare::Variants;
use crate::scenario::{PolicySpec, Scenario, ScenarioError, Shipped, Sizing};

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
            sizings: self.sizings.to_vec(),
            without_tier: self.without_tier,
        };
        let Some(shipped) = Shipped::find(self.scenario) else {
            return Ok(Vec::new());
        };
        Ok(variants.of(&shipped.scenario()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
