//! The results of a run. They hold nothing that differs from run to run of the same seed.

use serde::Serialize;
use sublet_types::ShrinkMode;

use crate::eviction::AnyEviction;
use crate::judges::JudgePanel;
use crate::machine::disk_model::DiskCounts;
use crate::machine::guest::GuestCounts;
use crate::machine::tier::{TenantCounts, TierCounts};
use crate::scenario::{Scenario, ShardCount, TierEngine, TierSizing};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// The label of a run without a tier.
pub(crate) const NO_TIER: &str = "no tmem";

/// Version of the machine-readable form.
pub const VERSION: u32 = 1;

/// One run of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct RunOutcome {
    /// The scenario's name.
    pub scenario: String,
    /// The label of this run beside others.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// The policy's name.
    pub policy: String,
    /// The tier.
    pub engine: TierEngine,
    /// The order in which ephemeral pages leave.
    pub eviction: String,
    /// Virtual seconds until the end.
    pub secs: f64,
    /// The number of events.
    pub events: u64,
    /// Each virtual machine.
    pub vms: Vec<VmOutcome>,
    /// The disk.
    pub disk: DiskCounts,
    /// Who held how much over time.
    pub samples: UsageSamples,
    /// How many violations the judges found in total.
    pub wrongs: u64,
    /// The first of these violations.
    pub verdicts: Vec<String>,
}

/// The results of one virtual machine.
#[derive(Clone, Debug, Serialize)]
pub struct VmOutcome {
    /// Its name.
    pub name: String,
    /// The stretches that it named, after one over the whole run.
    pub stretches: Vec<TimedStretch>,
    /// What its guest counted.
    pub guest: GuestCounts,
    /// What the tier counted for it.
    pub tier: TenantCounts,
}

impl RunOutcome {
    /// What distinguishes it from the others in a comparison of evictions.
    pub fn variant(&self) -> String {
        match self.engine {
            TierEngine::None => NO_TIER.to_owned(),
            TierEngine::Store | TierEngine::Tables => format!("{}, {}", self.policy, self.eviction),
        }
    }
}

impl VmOutcome {
    /// The share of pages that the tier had, among those that its own memory did not have.
    pub(crate) fn tier_hit_share(&self) -> f64 {
        share(self.guest.tier_hits, self.guest.tier_gets)
    }

    /// Mean seconds per file request, if it made any.
    pub(crate) fn response_secs(&self) -> Option<f64> {
        let requests = self.guest.requests;
        (requests > 0).then(|| self.guest.request_nanos as f64 / requests as f64 / 1e9)
    }

    /// Pages of files read or written per second, over its whole time.
    pub fn throughput(&self) -> Option<f64> {
        let secs = self.stretches.first()?.secs()?;
        (secs > 0.0).then(|| self.guest.touches as f64 / secs)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    }
}

/// A named stretch of a virtual machine's time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedStretch {
    /// Its name.
    pub name: String,
    /// Seconds of virtual time at which it began.
    pub from_secs: f64,
    /// When it ended. Nothing if the run ended before it.
    pub to_secs: Option<f64>,
}

impl TimedStretch {
    /// A stretch that begins.
    pub fn begun(name: &str, now: VirtualInstant) -> TimedStretch {
        TimedStretch {
            name: name.to_owned(),
            from_secs: now.secs(),
            to_secs: None,
        }
    }

    /// Ends it, unless it has ended.
    pub fn end(&mut self, now: VirtualInstant) {
        self.to_secs.get_or_insert(now.secs());
    }

    /// How long it took, if it ended.
    pub fn secs(&self) -> Option<f64> {
        Some(self.to_secs? - self.from_secs)
    }
}

/// Who held how much, at equally spaced instants: every second at first, farther apart if that makes too many.
#[derive(Clone, Debug, Serialize)]
pub struct UsageSamples {
    /// Seconds between two samples.
    pub every_secs: u64,
    /// The times of the samples.
    pub secs: Vec<f64>,
    /// Pages that tenants could hold together.
    pub total: Vec<u64>,
    /// Pages that each tenant used, one list per tenant.
    pub used: Vec<Vec<u64>>,
    /// Each tenant's target, if it had one.
    pub targets: Vec<Vec<Option<u64>>>,
    #[serde(skip)]
    next_at: VirtualInstant,
}

/// More samples than this are thinned out to half. With a thousand tenants they take 16 MiB.
const SAMPLES_MAX: usize = 1024;

impl Default for UsageSamples {
    fn default() -> UsageSamples {
        UsageSamples {
            every_secs: 1,
            secs: Vec::new(),
            total: Vec::new(),
            used: Vec::new(),
            targets: Vec::new(),
            next_at: VirtualInstant::START,
        }
    }
}

impl UsageSamples {
    /// Returns whether a sample is due.
    pub fn is_due(&self, now: VirtualInstant) -> bool {
        now >= self.next_at
    }

    /// Takes a sample.
    pub fn record(&mut self, now: VirtualInstant, counts: &TierCounts) {
        if self.secs.last() == Some(&now.secs()) {
            return;
        }
        if self.secs.len() >= SAMPLES_MAX {
            self.thin();
        }
        self.next_at = now + VirtualDuration::secs(self.every_secs);
        self.secs.push(now.secs());
        self.total.push(counts.total.0);
        self.used.resize(counts.tenants.len(), Vec::new());
        self.targets.resize(counts.tenants.len(), Vec::new());
        for (number, count) in counts.tenants.iter().enumerate() {
            self.used[number].push(count.used.0);
            self.targets[number].push(count.target.map(|target| target.0));
        }
    }

    fn thin(&mut self) {
        self.every_secs *= 2;
        every_other(&mut self.secs);
        every_other(&mut self.total);
        self.used.iter_mut().for_each(every_other);
        self.targets.iter_mut().for_each(every_other);
    }
}

fn every_other<T>(list: &mut Vec<T>) {
    let mut number = 0;
    list.retain(|_| {
        number += 1;
        number % 2 == 1
    });
}

impl RunOutcome {
    /// The outcome of a scenario that ended at `at`.
    pub fn of(scenario: &Scenario, at: VirtualInstant, events: u64) -> RunOutcome {
        RunOutcome {
            scenario: scenario.name.clone(),
            label: scenario.label(),
            seed: scenario.seed,
            policy: scenario.policy.name.clone(),
            engine: scenario.tier.engine,
            eviction: scenario.tier.eviction.to_string(),
            secs: at.secs(),
            events,
            vms: Vec::new(),
            disk: DiskCounts::default(),
            samples: UsageSamples::default(),
            wrongs: 0,
            verdicts: Vec::new(),
        }
    }

    /// Makes the label name the eviction, if several are compared. Otherwise it does not name the usual one.
    pub(crate) fn name_eviction(&mut self) {
        if self.engine != TierEngine::None && self.eviction == AnyEviction::default().to_string() {
            self.label.push_str(&format!(", {}", self.eviction));
        }
    }

    /// Adds its virtual machines. Wrong pages in a guest count as violations.
    pub(crate) fn with_vms(mut self, vms: Vec<VmOutcome>) -> RunOutcome {
        for vm in &vms {
            let wrong = vm.guest.pages_wrong + vm.guest.pages_lost;
            self.wrongs += wrong;
            if wrong > 0 {
                let verdict = format!("{}: {wrong} pages came back wrong or not at all", vm.name);
                self.verdicts.push(verdict);
            }
        }
        self.vms = vms;
        self
    }

    /// Adds the samples.
    pub(crate) fn with_samples(mut self, samples: UsageSamples) -> RunOutcome {
        self.samples = samples;
        self
    }

    /// Adds what the disk did.
    pub fn with_disk(mut self, disk: DiskCounts) -> RunOutcome {
        self.disk = disk;
        self
    }

    /// Adds what the judges found.
    pub(crate) fn with_verdicts(mut self, panel: &JudgePanel) -> RunOutcome {
        self.wrongs += panel.count;
        self.verdicts
            .extend(panel.verdicts.iter().map(ToString::to_string));
        self
    }
}

impl Scenario {
    /// The label of a run of this scenario beside others.
    pub fn label(&self) -> String {
        let mut label = self.policy.label();
        if self.tier.eviction != AnyEviction::default() {
            label.push_str(&format!(", {}", self.tier.eviction));
        }
        if self.tier.shards != ShardCount::default() {
            label.push_str(&format!(", {} shards", self.tier.shards.0));
        }
        if self.tier.shrink == ShrinkMode::Never {
            label.push_str(", never shrinks");
        }
        if self.host.store == TierSizing::Fixed {
            label.push_str(", fixed");
        }
        match self.tier.engine {
            TierEngine::None => NO_TIER.to_owned(),
            TierEngine::Store | TierEngine::Tables => label,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sublet_types::Pages;

    #[test]
    fn samples_are_bounded_and_stay_equally_far_apart() {
        let mut samples = UsageSamples::default();
        for second in 0..5000u64 {
            let now = VirtualInstant(second * 1_000_000_000);
            if samples.is_due(now) {
                let counts = TierCounts {
                    total: Pages(second),
                    ..TierCounts::default()
                };
                samples.record(now, &counts);
            }
        }
        assert!(samples.secs.len() <= SAMPLES_MAX);
        let every = samples.every_secs as f64;
        assert!(
            samples
                .secs
                .windows(2)
                .all(|pair| pair[1] - pair[0] == every)
        );
    }
}
