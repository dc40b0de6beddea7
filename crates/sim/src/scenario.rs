//! Scenarios: the content of a TOML file, and its meaning.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use sublet_policy::catalogue::{NotKnobValuePair, PolicyChoice, PolicyChoiceError, pair};
use sublet_types::{Bytes, Pages, ShrinkMode, TenantId, TenantName};

use crate::bounds;
use crate::eviction::AnyEviction;
use crate::machine::disk_model::DiskSpeed;
use crate::machine::guest::{GuestCosts, GuestShape};
use crate::traces::{HostFormat, TraceFormat, TraceFormatError};
use crate::virtual_time::{VirtualDuration, VirtualInstant};
use crate::workload::{WorkloadSpec, spec};

mod built_in;
mod faults;
mod vms;

pub use built_in::{BuiltInScenario, SHIPPED};
pub use faults::ScenarioError;
pub use vms::{StretchMark, VMS_MAX, VmInstance, VmSpec, VmStart};

use faults::ScenarioFault;

/// A host, its virtual machines and what they do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, and where it comes from.
    #[serde(default)]
    pub about: String,
    /// The seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// When it ends at the latest.
    #[serde(default = "a_day", deserialize_with = "bounds::some")]
    pub duration: VirtualDuration,
    /// The time during which guests and the disk are not counted.
    #[serde(default)]
    pub warm_up: VirtualDuration,
    /// The memory that tenants share.
    pub host: HostSpec,
    /// What stands between guests and the disk.
    #[serde(default)]
    pub tier: TierSpec,
    /// The policy that divides the memory.
    #[serde(default)]
    pub policy: PolicySpec,
    /// The disk that all guests share.
    #[serde(default)]
    pub disk: DiskSpeed,
    /// The costs of a guest's operations.
    #[serde(default)]
    pub costs: GuestCosts,
    /// The virtual machines.
    #[serde(rename = "vm")]
    pub vms: Vec<VmSpec>,
    /// What ends it before all machines are done.
    pub stop: Option<StretchMark>,
}

fn a_day() -> VirtualDuration {
    VirtualDuration::secs(86_400)
}

/// The memory that tenants share, over time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// The memory at the beginning. It stays if nothing changes it.
    pub memory: Bytes,
    /// Other amounts from certain instants on.
    #[serde(default)]
    pub changes: Vec<MemoryChange>,
    /// A trace of a host's free memory that the memory follows instead.
    pub follow: Option<HostTraceSpec>,
    /// Processors that its guests share. Without it, guests have as many as they want.
    #[serde(default, deserialize_with = "bounds::some_or_none")]
    pub processors: Option<u16>,
    /// Whether the tier takes what is free, or always the least that will ever be free.
    #[serde(default)]
    pub store: TierSizing,
}

/// A new amount of memory.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryChange {
    /// The instant from which it holds.
    pub at: VirtualDuration,
    /// How much.
    pub memory: Bytes,
}

/// How a tier is sized on a host whose memory changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierSizing {
    /// It follows what is free (Mortar).
    #[default]
    Elastic,
    /// It has the least that is ever free (a plain memcached).
    Fixed,
}

/// A host-memory trace to follow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTraceSpec {
    /// The file.
    pub file: String,
    /// Its format.
    pub format: HostTraceKind,
    /// The host or machine in it.
    pub host: String,
    /// A machine's memory, because Alibaba's trace does not say it.
    #[serde(default = "alibaba_machine")]
    pub machine_memory: Bytes,
    /// How many times faster than recorded.
    #[serde(default = "one")]
    pub speed: f64,
    /// The most that is free: the trace is scaled to this.
    pub peak: Option<Bytes>,
    /// What the tier leaves free for the host. Without it, the host's size decides.
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

impl HostTraceSpec {
    /// The format with its parameters.
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
    /// The kind of tier.
    pub engine: TierEngine,
    /// The order in which ephemeral pages leave. Plain tables know least recently used only.
    pub eviction: AnyEviction,
    /// How many shards a machine's pages are divided into.
    pub shards: ShardCount,
    /// What happens to a tenant that holds more than its target.
    pub shrink: ShrinkMode,
}

/// How many shards a tenant of the store has. Those of the daemon have 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ShardCount(pub usize);

/// One shard: a simulation has one thread, and so the eviction order is that of the whole tenant.
impl Default for ShardCount {
    fn default() -> ShardCount {
        ShardCount(1)
    }
}

/// The kinds of tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TierEngine {
    /// The store.
    #[default]
    Store,
    /// Plain tables, which evict the least recently used page first.
    Tables,
    /// None: every put is refused (*no tmem*).
    None,
}

/// The policy that divides memory, and how often it decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySpec {
    /// Its name in the catalogue.
    pub name: String,
    /// Its knobs.
    pub knobs: BTreeMap<String, toml::Value>,
    /// How often it decides.
    pub interval: VirtualDuration,
}

impl Default for PolicySpec {
    fn default() -> PolicySpec {
        PolicySpec {
            name: "greedy".to_owned(),
            knobs: BTreeMap::new(),
            interval: VirtualDuration::secs(1),
        }
    }
}

impl PolicySpec {
    /// Its knobs as text.
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
    /// The name or a knob is unknown, or a value is out of range.
    pub fn choice(&self) -> Result<PolicyChoice, PolicyChoiceError> {
        let knobs = self.written();
        let pairs = knobs.iter().map(|(name, value)| (*name, value.as_str()));
        PolicyChoice::new(&self.name, pairs)
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
pub enum PolicySpecError {
    /// A word that sets nothing.
    #[error(transparent)]
    NoPair(#[from] NotKnobValuePair),
    /// An unknown policy or knob, or a value out of range.
    #[error(transparent)]
    Choice(#[from] PolicyChoiceError),
}

/// Reads `smart-alloc` or `smart-alloc:p=0.75:threshold=64`.
impl FromStr for PolicySpec {
    type Err = PolicySpecError;

    fn from_str(text: &str) -> Result<PolicySpec, PolicySpecError> {
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

/// The least memory of a guest: a window of read-ahead and a little more.
const GUEST_PAGES_MIN: u64 = 64;

impl Scenario {
    /// Parses the text of a file of this name.
    ///
    /// # Errors
    ///
    /// The error says what is wrong, in which line, and what was probably meant.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario =
            toml::from_str(text).map_err(|error| ScenarioError::of_toml(file, text, &error))?;
        scenario.check().map_err(|(fault, near)| {
            let line = near.map_or(1, |near| line_of(text, &near));
            ScenarioError::of_meaning(file, line, fault)
        })?;
        Ok(scenario)
    }

    /// Checks what types cannot express. A fault comes with a word of the line to blame.
    fn check(&self) -> Result<(), (ScenarioFault, Option<String>)> {
        let policy = |error| {
            (
                ScenarioFault::Policy(error),
                Some(format!("{:?}", self.policy.name)),
            )
        };
        self.policy.choice().map_err(policy)?;
        if self.policy.interval < VirtualDuration::secs(1) {
            return Err((ScenarioFault::Interval, Some("interval".into())));
        }
        if self.warm_up >= self.duration {
            return Err((ScenarioFault::NeverWarm, Some("warm_up".into())));
        }
        let count: usize = self.vms.iter().map(|vm| usize::from(vm.count)).sum();
        if count == 0 || count > VMS_MAX {
            return Err((ScenarioFault::VmCount(count), None));
        }
        self.check_names()?;
        if let Some(HostTraceSpec { speed, .. }) = self.host.follow
            && (speed.is_nan() || speed <= 0.0)
        {
            return Err((ScenarioFault::Speed(speed), Some("speed".into())));
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

    /// Checks that names are valid, and that no two machines have the same one, numbered ones included.
    fn check_names(&self) -> Result<(), (ScenarioFault, Option<String>)> {
        let mut seen = std::collections::BTreeSet::new();
        for vm in self.machines() {
            let blamed = Some(format!("{:?}", vm.spec.name));
            if let Err(error) = vm.name.parse::<TenantName>() {
                return Err((ScenarioFault::Name(error), blamed));
            }
            if !seen.insert(vm.name.clone()) {
                return Err((ScenarioFault::Twice(vm.name), blamed));
            }
        }
        Ok(())
    }

    fn check_vm(&self, vm: &VmSpec) -> Result<(), ScenarioFault> {
        let usable = Pages::of(vm.memory - vm.reserved).0;
        if usable < GUEST_PAGES_MIN {
            return Err(ScenarioFault::TooSmall(Pages(GUEST_PAGES_MIN).bytes()));
        }
        if !vm.read_ahead.is_power_of_two() || vm.read_ahead > 64 {
            return Err(ScenarioFault::ReadAhead(vm.read_ahead));
        }
        if vm.floor.unwrap_or_default() > vm.ceiling.unwrap_or(Bytes(u64::MAX)) {
            return Err(ScenarioFault::FloorAboveCeiling);
        }
        if let VmStart::After(mark) = &vm.start {
            self.check_mark(mark)?;
        }
        if let WorkloadSpec::FileServer(spec) = &vm.workload
            && spec.write_share + spec.delete_share > 1.0
        {
            return Err(ScenarioFault::Shares(spec.write_share + spec.delete_share));
        }
        vm.workload.specs().try_for_each(check_arrivals)?;
        for trace in vm.workload.traces() {
            format_of(trace).map_err(ScenarioFault::Format)?;
        }
        Ok(())
    }

    fn check_mark(&self, mark: &StretchMark) -> Result<(), ScenarioFault> {
        let names = || self.vms.iter().map(|vm| vm.name.as_str());
        match mark
            .vms
            .iter()
            .find(|name| names().all(|known| known != *name))
        {
            Some(unknown) => return Err(ScenarioFault::unknown_vm(unknown, names())),
            None if mark.vms.is_empty() => return Err(ScenarioFault::NobodyMarked),
            None => {}
        }
        let marked = self.vms.iter().filter(|vm| mark.vms.contains(&vm.name));
        for vm in marked {
            let mut stretches = vm.workload.stretches();
            if stretches.all(|stretch| stretch != mark.begin) {
                return Err(ScenarioFault::unknown_stretch(vm, &mark.begin));
            }
        }
        Ok(())
    }

    /// Checks that no machine waits for one that waits for it.
    fn check_starts(&self) -> Result<(), (ScenarioFault, Option<String>)> {
        let mut waiting: Vec<&VmSpec> = self.vms.iter().collect();
        loop {
            let waits = |vm: &&VmSpec| match &vm.start {
                VmStart::At(_) => false,
                VmStart::After(mark) => waiting.iter().any(|other| mark.vms.contains(&other.name)),
            };
            let still: Vec<&VmSpec> = waiting.iter().copied().filter(waits).collect();
            match still.first() {
                None => return Ok(()),
                Some(vm) if still.len() == waiting.len() => {
                    return Err((ScenarioFault::Circle, Some(format!("{:?}", vm.name))));
                }
                Some(_) => waiting = still,
            }
        }
    }

    /// Every virtual machine. Those that are several alike come one by one.
    pub fn machines(&self) -> Vec<VmInstance<'_>> {
        let mut machines = Vec::new();
        for spec in &self.vms {
            for number in 1..=spec.count {
                let name = match spec.count {
                    1 => spec.name.clone(),
                    _ => format!("{}-{number}", spec.name),
                };
                let tenant = TenantId(machines.len() as u16);
                let shape = self.shape(spec, tenant);
                machines.push(VmInstance { name, spec, shape });
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
    pub fn end(&self) -> VirtualInstant {
        VirtualInstant::START + self.duration
    }
}

/// Checks that requests that come by themselves have no think time.
fn check_arrivals(workload: &WorkloadSpec) -> Result<(), ScenarioFault> {
    match workload {
        WorkloadSpec::Zipf(spec)
            if spec.arrivals.is_some() && spec.think > VirtualDuration::default() =>
        {
            Err(ScenarioFault::ThinkingArrivals)
        }
        _ => Ok(()),
    }
}

/// The format of a trace that a workload names.
///
/// # Errors
///
/// No format has this name, or the file's name tells none.
pub fn format_of(trace: &spec::Trace) -> Result<TraceFormat, TraceFormatError> {
    let format = match &trace.format {
        Some(name) => name.parse()?,
        None => TraceFormat::of_name(&trace.file)?,
    };
    Ok(match format {
        TraceFormat::Csv(_) => TraceFormat::Csv(trace.columns.clone()),
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
