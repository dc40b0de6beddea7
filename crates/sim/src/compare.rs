//! Variants of a scenario with one thing changed at a time, and scenarios made from a bare trace.

use std::collections::BTreeMap;

use serde::Serialize;
use sublet_types::{Bytes, Pages, ShrinkMode, Weight};

use crate::eviction::AnyEviction;
use crate::machine::disk_model::DiskSpeed;
use crate::machine::guest::{AfterSwapIn, GuestCosts, SwapReadAheadMode};
use crate::scenario::{
    HostSpec, PolicySpec, Scenario, ShardCount, TierEngine, TierSizing, TierSpec, VmSpec, VmStart,
};
use crate::stable_hash::StableHashMap;
use crate::traces::{AddressSpace, EXTENT_PAGES, TraceError, TraceRequest};
use crate::virtual_time::VirtualDuration;
use crate::workload::{WorkloadSpec, spec};

/// The variants to try, in every combination. An empty list keeps what the scenario says.
#[derive(Clone, Debug, Default)]
pub struct ScenarioVariants {
    /// Policies.
    pub policies: Vec<PolicySpec>,
    /// Evictions.
    pub evictions: Vec<AnyEviction>,
    /// How many shards a machine's pages are divided into.
    pub shards: Vec<ShardCount>,
    /// What happens to a tenant that is over its target.
    pub shrinks: Vec<ShrinkMode>,
    /// How the tier is sized.
    pub sizings: Vec<TierSizing>,
    /// Whether the scenario is also run without any tier, last.
    pub without_tier: bool,
}

impl ScenarioVariants {
    /// The scenarios to run, in the order of the lists. The last list varies fastest.
    pub fn of(&self, scenario: &Scenario) -> Vec<Scenario> {
        let mut variants = vec![scenario.clone()];
        variants = each(variants, &self.policies, |scenario, policy| {
            let interval = scenario.policy.interval;
            scenario.policy = PolicySpec {
                interval,
                ..policy.clone()
            };
        });
        variants = each(variants, &self.evictions, |scenario, eviction| {
            scenario.tier.eviction = *eviction;
        });
        variants = each(variants, &self.shards, |scenario, shards| {
            scenario.tier.shards = *shards;
        });
        variants = each(variants, &self.shrinks, |scenario, shrink| {
            scenario.tier.shrink = *shrink;
        });
        variants = each(variants, &self.sizings, |scenario, sizing| {
            scenario.host.store = *sizing;
        });
        if self.without_tier {
            let mut without = scenario.clone();
            without.tier.engine = TierEngine::None;
            variants.push(without);
        }
        variants
    }
}

fn each<T>(
    scenarios: Vec<Scenario>,
    changes: &[T],
    change: impl Fn(&mut Scenario, &T),
) -> Vec<Scenario> {
    if changes.is_empty() {
        return scenarios;
    }
    let mut changed = Vec::with_capacity(scenarios.len() * changes.len());
    for scenario in &scenarios {
        for to in changes {
            let mut scenario = scenario.clone();
            change(&mut scenario, to);
            changed.push(scenario);
        }
    }
    changed
}

/// The number of different pages that a trace names.
///
/// # Errors
///
/// The trace's own errors.
pub fn footprint(
    trace: impl Iterator<Item = Result<TraceRequest, TraceError>>,
) -> Result<Pages, TraceError> {
    let mut seen: StableHashMap<(u64, u64), ()> = StableHashMap::default();
    for access in trace {
        let access = access?;
        let start = u64::from(access.page.index);
        for page in start..start + u64::from(access.count) {
            let key = match access.space {
                AddressSpace::Device => (0, access.page.object.wrapping_mul(EXTENT_PAGES) + page),
                AddressSpace::Objects => (access.page.object, page),
            };
            seen.insert(key, ());
        }
    }
    Ok(Pages(seen.len() as u64))
}

/// How much memory a trace is replayed with, as shares of its footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FootprintShares {
    /// The guest's own memory.
    pub guest: f64,
    /// The tier.
    pub tier: f64,
}

/// How much memory a trace is replayed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReplaySizes {
    /// The guest's own memory.
    pub client_pages: u64,
    /// The tier.
    pub tier_pages: u64,
}

impl FootprintShares {
    /// The sizes for these shares of a footprint. A guest has at least `GUEST_MIN` pages. A tier has whole blocks, and
    /// at least one.
    pub fn of(self, footprint: Pages) -> ReplaySizes {
        let part = |share: f64| (footprint.0 as f64 * share) as u64;
        let blocks = part(self.tier) / BLOCK_PAGES;
        ReplaySizes {
            client_pages: part(self.guest).max(GUEST_MIN),
            tier_pages: blocks.max(1) * BLOCK_PAGES,
        }
    }
}

/// A scenario of one virtual machine that replays a trace of this footprint.
pub fn of_trace(trace: &spec::Trace, footprint: Pages, shares: FootprintShares) -> Scenario {
    let sizes = shares.of(footprint);
    let shares_said = format!("{}% + {}%", shares.guest * 100.0, shares.tier * 100.0);
    let vm = VmSpec {
        name: "trace".to_owned(),
        count: 1,
        memory: Pages(sizes.client_pages).bytes(),
        reserved: Bytes::ZERO,
        swap: footprint.bytes(),
        read_ahead: 8,
        swap_ahead: SwapReadAheadMode::default(),
        after_swap_in: AfterSwapIn::default(),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
        start: VmStart::default(),
        workload: WorkloadSpec::Trace(trace.clone()),
    };
    Scenario {
        name: format!(
            "{} ({shares_said} of its {} pages)",
            trace.file, footprint.0
        ),
        about: String::new(),
        seed: 0,
        duration: VirtualDuration::secs(YEAR_SECS),
        warm_up: VirtualDuration::default(),
        host: HostSpec {
            memory: Pages(sizes.tier_pages).bytes(),
            ..HostSpec::default()
        },
        tier: TierSpec::default(),
        policy: PolicySpec {
            knobs: BTreeMap::new(),
            ..PolicySpec::default()
        },
        disk: DiskSpeed::default(),
        costs: GuestCosts::default(),
        vms: vec![vm],
        stop: None,
    }
}

/// A replay ends with its trace, so its limit is a year.
const YEAR_SECS: u64 = 365 * 86_400;

/// A guest has at least this many pages.
pub(crate) const GUEST_MIN: u64 = 64;

/// Pages of a block. A tier has whole blocks.
pub const BLOCK_PAGES: u64 = sublet_types::BLOCK_BYTES / sublet_types::PAGE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::BuiltInScenario;
    use crate::traces::{PageOp, Trace, TracePage};
    use crate::virtual_time::VirtualInstant;
    use sublet_types::EvictionKind;

    #[test]
    fn every_combination_is_tried_and_told_apart() {
        let shipped = BuiltInScenario::find("smartmem-1").expect("shipped");
        let variants = ScenarioVariants {
            policies: ["greedy", "smart-alloc:p=0.75"]
                .map(|written| written.parse().expect("a policy"))
                .to_vec(),
            evictions: vec![EvictionKind::Lru.into(), AnyEviction::default()],
            without_tier: true,
            ..ScenarioVariants::default()
        };
        let scenarios = variants.of(&shipped.scenario().expect("right"));
        let labels: Vec<String> = scenarios.iter().map(Scenario::label).collect();
        let expected = [
            "greedy, lru",
            "greedy",
            "smart-alloc p=0.75, lru",
            "smart-alloc p=0.75",
            "no tmem",
        ];
        assert_eq!(labels, expected);
        assert!("smart-alloc:q=1".parse::<PolicySpec>().is_err());
        assert!("smart-alloc:p".parse::<PolicySpec>().is_err());
    }

    #[test]
    fn a_footprint_counts_each_page_once() {
        let access = |page, count| TraceRequest {
            at: VirtualInstant::START,
            page: TracePage::of_device(page),
            space: AddressSpace::Device,
            count,
            op: PageOp::Read,
        };
        let trace = Trace::of([access(510, 4), access(512, 4), access(510, 1)]);
        assert_eq!(footprint(trace).expect("no file"), Pages(6));
    }

    #[test]
    fn a_trace_gets_its_shares() {
        let trace: spec::Trace = toml::from_str("file = \"P3.lis\"").expect("right");
        let shares = FootprintShares {
            guest: 0.02,
            tier: 0.1,
        };
        let scenario = of_trace(&trace, Pages(100_000), shares);
        assert_eq!(scenario.host.memory, Pages(9728).bytes(), "19 blocks");
        assert_eq!(scenario.machines()[0].shape.memory_pages, 2_000);
        let least = ReplaySizes {
            client_pages: 64,
            tier_pages: 512,
        };
        assert_eq!(shares.of(Pages(1000)), least);
    }
}
