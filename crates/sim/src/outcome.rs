//! What a run came to: figures only, nothing that differs from run to run of the same seed.

use serde::Serialize;
use sublet_types::Shrinking;

use crate::eviction::AnyEviction;
use crate::judges::Court;
use crate::machine::disk::DiskCounts;
use crate::machine::guest::GuestCounts;
use crate::machine::tier::{Census, TenantCount};
use crate::scenario::{Engine, Scenario, Shards, Sizing};
use crate::virtual_time::{Moment, Nanos};

/// What a run without a tier is labelled.
pub(crate) const NO_TIER: &str = "no tmem";

/// Version of the machine-readable form.
pub const VERSION: u32 = 1;

/// One run of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// What this run is called beside others.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// The policy's name.
    pub policy: String,
    /// The tier.
    pub engine: Engine,
    /// The order in which ephemeral pages leave.
    pub eviction: String,
    /// Virtual seconds until the end.
    pub secs: f64,
    /// Events.
    pub events: u64,
    /// Each virtual machine.
    pub vms: Vec<VmOutcome>,
    /// The disk.
    pub disk: DiskCounts,
    /// Who held what, over time.
    pub samples: Samples,
    /// What the judges found, in all.
    pub wrongs: u64,
    /// The first of it.
    pub verdicts: Vec<String>,
}

/// One virtual machine's part.
#[derive(Clone, Debug, Serialize)]
pub struct VmOutcome {
    /// Its name.
    pub name: String,
    /// The stretches that it named, after one over all.
    pub stretches: Vec<Stretch>,
    /// What its guest counted.
    pub guest: GuestCounts,
    /// What the tier counted for it.
    pub tier: TenantCount,
}

impl Outcome {
    /// What tells it from the others of a comparison of evictions.
    pub fn variant(&self) -> String {
        match self.engine {
            Engine::None => NO_TIER.to_owned(),
            Engine::Store | Engine::Tables => format!("{}, {}", self.policy, self.eviction),
        }
    }
}

impl VmOutcome {
    /// Of the pages that its own memory did not have, the share that the tier had.
    pub(crate) fn tier_hit_share(&self) -> f64 {
        share(self.guest.tier_hits, self.guest.tier_gets)
    }

    /// Mean seconds of a file request, if it made any.
    pub(crate) fn response_secs(&self) -> Option<f64> {
        let requests = self.guest.requests;
        (requests > 0).then(|| self.guest.request_nanos as f64 / requests as f64 / 1e9)
    }

    /// Pages of files read or written in a second, over all its time.
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
pub struct Stretch {
    /// Its name.
    pub name: String,
    /// Seconds of virtual time at which it began.
    pub from_secs: f64,
    /// And ended; nothing where the run ended before it.
    pub to_secs: Option<f64>,
}

impl Stretch {
    /// A stretch that begins.
    pub fn begun(name: &str, now: Moment) -> Stretch {
        Stretch {
            name: name.to_owned(),
            from_secs: now.secs(),
            to_secs: None,
        }
    }

    /// It ends, unless it has.
    pub fn end(&mut self, now: Moment) {
        self.to_secs.get_or_insert(now.secs());
    }

    /// How long it took, if it ended.
    pub fn secs(&self) -> Option<f64> {
        Some(self.to_secs? - self.from_secs)
    }
}

/// Who held what, at instants that are equally far apart: every second at first, farther where that makes
/// too many.
#[derive(Clone, Debug, Serialize)]
pub struct Samples {
    /// Seconds between two.
    pub every_secs: u64,
    /// When.
    pub secs: Vec<f64>,
    /// Pages that tenants could hold together.
    pub total: Vec<u64>,
    /// Pages that each tenant used: a list for each tenant.
    pub used: Vec<Vec<u64>>,
    /// Its target, where it had one.
    pub targets: Vec<Vec<Option<u64>>>,
    #[serde(skip)]
    next_at: Moment,
}

/// More samples than this are thinned to half. With a thousand tenants they take 16 MiB.
const SAMPLES_MAX: usize = 1024;

impl Default for Samples {
    fn default() -> Samples {
        Samples {
            every_secs: 1,
            secs: Vec::new(),
            total: Vec::new(),
            used: Vec::new(),
            targets: Vec::new(),
            next_at: Moment::START,
        }
    }
}

impl Samples {
    /// Whether it is time for one.
    pub fn is_due(&self, now: Moment) -> bool {
        now >= self.next_at
    }

    /// Takes one.
    pub fn take(&mut self, now: Moment, census: &Census) {
        if self.secs.last() == Some(&now.secs()) {
            return;
        }
        if self.secs.len() >= SAMPLES_MAX {
            self.thin();
        }
        self.next_at = now + Nanos::secs(self.every_secs);
        self.secs.push(now.secs());
        self.total.push(census.total.0);
        self.used.resize(census.tenants.len(), Vec::new());
        self.targets.resize(census.tenants.len(), Vec::new());
        for (number, count) in census.tenants.iter().enumerate() {
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

impl Outcome {
    /// Of a scenario that ended at `at`.
    pub fn of(scenario: &Scenario, at: Moment, events: u64) -> Outcome {
        Outcome {
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
            samples: Samples::default(),
            wrongs: 0,
            verdicts: Vec::new(),
        }
    }

    /// Has its label name the eviction, where several are compared: the usual one is not named else.
    pub(crate) fn name_eviction(&mut self) {
        if self.engine != Engine::None && self.eviction == AnyEviction::default().to_string() {
            self.label.push_str(&format!(", {}", self.eviction));
        }
    }

    /// With its virtual machines; what came back wrong in a guest counts as a wrong.
    pub(crate) fn with_vms(mut self, vms: Vec<VmOutcome>) -> Outcome {
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

    /// With who held what.
    pub(crate) fn with_samples(mut self, samples: Samples) -> Outcome {
        self.samples = samples;
        self
    }

    /// With what the disk did.
    pub fn with_disk(mut self, disk: DiskCounts) -> Outcome {
        self.disk = disk;
        self
    }

    /// With what the judges found.
    pub(crate) fn with_court(mut self, court: &Court) -> Outcome {
        self.wrongs += court.count;
        self.verdicts
            .extend(court.verdicts.iter().map(ToString::to_string));
        self
    }
}

impl Scenario {
    /// What a run of it is called beside others.
    pub fn label(&self) -> String {
        let mut label = self.policy.label();
        if self.tier.eviction != AnyEviction::default() {
            label.push_str(&format!(", {}", self.tier.eviction));
        }
        if self.tier.shards != Shards::default() {
            label.push_str(&format!(", {} shards", self.tier.shards.0));
        }
        if self.tier.shrink == Shrinking::Never {
            label.push_str(", never shrinks");
        }
        if self.host.store == Sizing::Fixed {
            label.push_str(", fixed");
        }
        match self.tier.engine {
            Engine::None => NO_TIER.to_owned(),
            Engine::Store | Engine::Tables => label,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sublet_types::Pages;

    #[test]
    fn samples_are_bounded_and_stay_equally_far_apart() {
        let mut samples = Samples::default();
        for second in 0..5000u64 {
            let now = Moment(second * 1_000_000_000);
            if samples.is_due(now) {
                let census = Census {
                    total: Pages(second),
                    ..Census::default()
                };
                samples.take(now, &census);
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
