//! Scenarios: what stands in a TOML file, and what it means.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use sublet_policy::catalogue::{Choice, ChoiceError, NoPair, pair};
use sublet_types::{Bytes, Pages, Shrinking, TenantId, TenantName};

use crate::eviction::AnyEviction;
use crate::machine::disk::DiskSpeed;
use crate::machine::guest::{Costs, GuestShape};
use crate::traces::{Format, FormatError, HostFormat};
use crate::virtual_time::{Moment, Nanos};
use crate::within;
use crate::workload::{WorkloadSpec, spec};

mod faults;
mod shipped;
mod vms;

pub use faults::ScenarioError;
pub use shipped::{SHIPPED, Shipped};
pub use vms::{Mark, Start, VMS_MAX, Vm, VmSpec};

use faults::Fault;

/// A host, its virtual machines and what they do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, and where it comes from.
    #[serde(default)]
    pub about: String,
    /// From which all luck comes.
    #[serde(default)]
    pub seed: u64,
    /// When it ends at the latest.
    #[serde(default = "a_day", deserialize_with = "within::some")]
    pub duration: Nanos,
    /// What guests and the disk did until then is not counted.
    #[serde(default)]
    pub warm_up: Nanos,
    /// The memory that tenants share.
    pub host: Host,
    /// What stands between guests and the disk.
    #[serde(default)]
    pub tier: TierSpec,
    /// Who divides it.
    #[serde(default)]
    pub policy: PolicySpec,
    /// The disk that all guests share.
    #[serde(default)]
    pub disk: DiskSpeed,
    /// What things cost a guest.
    #[serde(default)]
    pub costs: Costs,
    /// The virtual machines.
    #[serde(rename = "vm")]
    pub vms: Vec<VmSpec>,
    /// What ends it before all are done.
    pub stop: Option<Mark>,
}

fn a_day() -> Nanos {
    Nanos::secs(86_400)
}

/// The memory that tenants share, over time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// At the beginning, and throughout if nothing changes it.
    pub memory: Bytes,
    /// Other amounts from some instants on.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// A trace of a host's free memory, which is followed instead.
    pub follow: Option<Follow>,
    /// Processors that its guests share; as many as they want where it is not said.
    #[serde(default, deserialize_with = "within::some_or_none")]
    pub processors: Option<u16>,
    /// Whether the tier takes what is there, or throughout the least that will ever be.
    #[serde(default)]
    pub store: Sizing,
}

/// A new amount of memory.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// From when on.
    pub at: Nanos,
    /// How much.
    pub memory: Bytes,
}

/// How a tier is sized on a host whose memory changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sizing {
    /// As what is free (Mortar).
    #[default]
    Elastic,
    /// At the least that is ever free (a plain memcached).
    Fixed,
}

/// A host-memory trace to follow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follow {
    /// The file.
    pub file: String,
    /// What it is.
    pub format: HostTraceKind,
    /// The host or machine in it.
    pub host: String,
    /// What a machine has; Alibaba's trace does not say.
    #[serde(default = "alibaba_machine")]
    pub machine_memory: Bytes,
    /// How many times faster than recorded.
    #[serde(default = "one")]
    pub speed: f64,
    /// Scaled so that this is the most that is free.
    pub peak: Option<Bytes>,
    /// What the tier leaves free for the host; derived from the host's size where it is not given.
    pub reserve: Option<Bytes>,
}

fn alibaba_machine() -> Bytes {
    Bytes::gib(64)
}

fn one() -> f64 {
    1.0
}

/// Formats of host-memory traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostTraceKind {
    /// GWA-T-12, 58 hosts.
    Bitbrains,
    /// Alibaba's `machine_usage` of 2018.
    Alibaba,
}

impl Follow {
    /// The format, with what it needs to know.
    pub fn format(&self) -> HostFormat {
        match self.format {
            HostTraceKind::Bitbrains => HostFormat::Bitbrains,
            HostTraceKind::Alibaba => HostFormat::Alibaba {
                memory: self.machine_memory,
            },
        }
    }
}

/// What stands between guests and the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TierSpec {
    /// Which.
    pub engine: Engine,
    /// The order in which ephemeral pages leave; plain tables know least recently used only.
    pub eviction: AnyEviction,
    /// Into how many shards a machine's pages are divided.
    pub shards: Shards,
    /// What becomes of who holds more than its target.
    pub shrink: Shrinking,
}

/// How many shards a tenant of the store has: the daemon's have 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Shards(pub usize);

/// One: a simulation is one thread, and the eviction's order is then the tenant's.
impl Default for Shards {
    fn default() -> Shards {
        Shards(1)
    }
}

/// A tier's making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The store.
    #[default]
    Store,
    /// Plain tables, least recently used first.
    Tables,
    /// None: every put is refused (*no tmem*).
    None,
}

/// Who divides memory, and how often.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySpec {
    /// Its name in the catalogue.
    pub name: String,
    /// Its knobs.
    pub knobs: BTreeMap<String, toml::Value>,
    /// How often it decides.
    pub interval: Nanos,
}

impl Default for PolicySpec {
    fn default() -> PolicySpec {
        PolicySpec {
            name: "greedy".to_owned(),
            knobs: BTreeMap::new(),
            interval: Nanos::secs(1),
        }
    }
}

impl PolicySpec {
    /// Its knobs as they are written.
    fn written(&self) -> Vec<(&str, String)> {
        let written = |value: &toml::Value| match value {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let knobs = self.knobs.iter();
        knobs
            .map(|(name, value)| (name.as_str(), written(value)))
            .collect()
    }

    /// The policy of the catalogue that it names.
    ///
    /// # Errors
    ///
    /// An unknown name or knob, or a value out of range.
    pub fn choice(&self) -> Result<Choice, ChoiceError> {
        let knobs = self.written();
        let pairs = knobs.iter().map(|(name, value)| (*name, value.as_str()));
        Choice::new(&self.name, pairs)
    }

    /// Its name, and the knobs that were set.
    pub fn label(&self) -> String {
        let knobs = self.written().into_iter();
        knobs.fold(self.name.clone(), |label, (name, value)| {
            format!("{label} {name}={value}")
        })
    }
}

/// Why a written policy was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// A word that sets nothing.
    #[error(transparent)]
    NoPair(#[from] NoPair),
    /// An unknown policy or knob, or a value out of range.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
}

/// Reads `smart-alloc` or `smart-alloc:p=0.75:threshold=64`.
impl FromStr for PolicySpec {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<PolicySpec, PolicyError> {
        let mut words = text.split(':').map(str::trim);
        let mut policy = PolicySpec {
            name: words.next().unwrap_or("").to_owned(),
            ..PolicySpec::default()
        };
        for word in words {
            let (knob, value) = pair(word)?;
            let value = toml::Value::String(value.to_owned());
            policy.knobs.insert(knob.to_owned(), value);
        }
        policy.choice()?;
        Ok(policy)
    }
}

/// The least memory of a guest: a window of read-ahead and then some.
const GUEST_PAGES_MIN: u64 = 64;

impl Scenario {
    /// Reads what stands in a file of this name.
    ///
    /// # Errors
    ///
    /// What is wrong, in which line, and what was probably meant.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario =
            toml::from_str(text).map_err(|error| ScenarioError::of_toml(file, text, &error))?;
        scenario.check().map_err(|(fault, near)| {
            let line = near.map_or(1, |near| line_of(text, &near));
            ScenarioError::of_meaning(file, line, fault)
        })?;
        Ok(scenario)
    }

    /// What types cannot say. A fault comes with a word of the line to blame.
    fn check(&self) -> Result<(), (Fault, Option<String>)> {
        let policy = |error| {
            (
                Fault::Policy(error),
                Some(format!("{:?}", self.policy.name)),
            )
        };
        self.policy.choice().map_err(policy)?;
        if self.policy.interval < Nanos::secs(1) {
            return Err((Fault::Interval, Some("interval".into())));
        }
        if self.warm_up >= self.duration {
            return Err((Fault::NeverWarm, Some("warm_up".into())));
        }
        let count: usize = self.vms.iter().map(|vm| usize::from(vm.count)).sum();
        if count == 0 || count > VMS_MAX {
            return Err((Fault::VmCount(count), None));
        }
        self.check_names()?;
        if let Some(Follow { speed, .. }) = self.host.follow
            && (speed.is_nan() || speed <= 0.0)
        {
            return Err((Fault::Speed(speed), Some("speed".into())));
        }
        self.vms.iter().try_for_each(|vm| {
            let blamed = |fault| (fault, Some(format!("{:?}", vm.name)));
            self.check_vm(vm).map_err(blamed)
        })?;
        self.check_starts()?;
        match &self.stop {
            Some(mark) => self
                .check_mark(mark)
                .map_err(|fault| (fault, Some("stop".into()))),
            None => Ok(()),
        }
    }

    /// Names are names, and no two machines have the same, numbered ones included.
    fn check_names(&self) -> Result<(), (Fault, Option<String>)> {
        let mut seen = std::collections::BTreeSet::new();
        for vm in self.machines() {
            let blamed = Some(format!("{:?}", vm.spec.name));
            if let Err(error) = vm.name.parse::<TenantName>() {
                return Err((Fault::Name(error), blamed));
            }
            if !seen.insert(vm.name.clone()) {
                return Err((Fault::Twice(vm.name), blamed));
            }
        }
        Ok(())
    }

    fn check_vm(&self, vm: &VmSpec) -> Result<(), Fault> {
        let usable = Pages::of(vm.memory - vm.reserved).0;
        if usable < GUEST_PAGES_MIN {
            return Err(Fault::TooSmall(Pages(GUEST_PAGES_MIN).bytes()));
        }
        if !vm.read_ahead.is_power_of_two() || vm.read_ahead > 64 {
            return Err(Fault::ReadAhead(vm.read_ahead));
        }
        if vm.floor.unwrap_or_default() > vm.ceiling.unwrap_or(Bytes(u64::MAX)) {
            return Err(Fault::FloorAboveCeiling);
        }
        if let Start::After(mark) = &vm.start {
            self.check_mark(mark)?;
        }
        if let WorkloadSpec::FileServer(spec) = &vm.workload
            && spec.write_share + spec.delete_share > 1.0
        {
            return Err(Fault::Shares(spec.write_share + spec.delete_share));
        }
        vm.workload.specs().try_for_each(check_arrivals)?;
        for trace in vm.workload.traces() {
            format_of(trace).map_err(Fault::Format)?;
        }
        Ok(())
    }

    fn check_mark(&self, mark: &Mark) -> Result<(), Fault> {
        let names = || self.vms.iter().map(|vm| vm.name.as_str());
        match mark
            .vms
            .iter()
            .find(|name| names().all(|known| known != *name))
        {
            Some(unknown) => return Err(Fault::unknown_vm(unknown, names())),
            None if mark.vms.is_empty() => return Err(Fault::NobodyMarked),
            None => {}
        }
        let marked = self.vms.iter().filter(|vm| mark.vms.contains(&vm.name));
        for vm in marked {
            let mut stretches = vm.workload.stretches();
            if stretches.all(|stretch| stretch != mark.begin) {
                return Err(Fault::unknown_stretch(vm, &mark.begin));
            }
        }
        Ok(())
    }

    /// Nobody waits for somebody who waits for it.
    fn check_starts(&self) -> Result<(), (Fault, Option<String>)> {
        let mut waiting: Vec<&VmSpec> = self.vms.iter().collect();
        loop {
            let waits = |vm: &&VmSpec| match &vm.start {
                Start::At(_) => false,
                Start::After(mark) => waiting.iter().any(|other| mark.vms.contains(&other.name)),
            };
            let still: Vec<&VmSpec> = waiting.iter().copied().filter(waits).collect();
            match still.first() {
                None => return Ok(()),
                Some(vm) if still.len() == waiting.len() => {
                    return Err((Fault::Circle, Some(format!("{:?}", vm.name))));
                }
                Some(_) => waiting = still,
            }
        }
    }

    /// Every virtual machine, those that are several alike one by one.
    pub fn machines(&self) -> Vec<Vm<'_>> {
        let mut machines = Vec::new();
        for spec in &self.vms {
            for number in 1..=spec.count {
                let name = match spec.count {
                    1 => spec.name.clone(),
                    _ => format!("{}-{number}", spec.name),
                };
                let tenant = TenantId(machines.len() as u16);
                let shape = self.shape(spec, tenant);
                machines.push(Vm { name, spec, shape });
            }
        }
        machines
    }

    fn shape(&self, spec: &VmSpec, tenant: TenantId) -> GuestShape {
        GuestShape {
            tenant,
            memory_pages: Pages::of(spec.memory - spec.reserved).0 as usize,
            swap_pages: Pages::of(spec.swap).0.min(u64::from(u32::MAX / 2)) as u32,
            read_ahead: spec.read_ahead,
            swap_ahead: spec.swap_ahead,
            after_swap_in: spec.after_swap_in,
            costs: self.costs,
        }
    }

    /// When it ends at the latest.
    pub fn end(&self) -> Moment {
        Moment::START + self.duration
    }
}

/// Requests that come by themselves wait for no think time.
fn check_arrivals(workload: &WorkloadSpec) -> Result<(), Fault> {
    match workload {
        WorkloadSpec::Zipf(spec) if spec.arrivals.is_some() && spec.think > Nanos::default() => {
            Err(Fault::ThinkingArrivals)
        }
        _ => Ok(()),
    }
}

/// The format of a trace that a workload names.
///
/// # Errors
///
/// A name that no format has; a file whose name tells none.
pub fn format_of(trace: &spec::Trace) -> Result<Format, FormatError> {
    let format = match &trace.format {
        Some(name) => name.parse()?,
        None => Format::of_name(&trace.file)?,
    };
    Ok(match format {
        Format::Csv(_) => Format::Csv(trace.columns.clone()),
        other => other,
    })
}

/// The first line in which a word stands, from 1.
fn line_of(text: &str, word: &str) -> usize {
    let place = text.lines().position(|line| line.contains(word));
    place.map_or(1, |place| place + 1)
}

#[cfg(test)]
mod tests;
