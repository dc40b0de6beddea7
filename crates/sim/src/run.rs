//! Runs a scenario from its beginning to its end, one event after another.
//!
//! Others run a host piece by piece, and lend it memory between the pieces (`SimulatedHost`).

use std::fmt;
use std::io::{self, Read};

use sublet_policy::Policy;
use sublet_policy::catalogue::PolicyChoiceError;
use sublet_types::{Pages, Snapshot, Target, TenantNameError};

use crate::judges::{CensusInterval, JudgePanel, JudgedTier};
use crate::machine::disk_model::{DiskAddress, DiskCounts, DiskModel};
use crate::machine::guest::{Guest, GuestBackends, GuestError};
use crate::machine::processors::Processors;
use crate::machine::shadowed_tier::ShadowedTier;
use crate::machine::tier::{Tier, TierCounts};
use crate::machine::tier_store::StoreTierError;
use crate::outcome::{RunOutcome, TimedStretch, UsageSamples, VmOutcome};
use crate::scenario::{Scenario, StretchMark, VmInstance, VmStart};
use crate::traces::{HostSeries, TraceError};
use crate::virtual_time::{EventQueue, VirtualDuration, VirtualInstant};
use crate::workload::{Workload, WorkloadStep};

mod headroom;
mod setup;

use headroom::Headroom;
pub(crate) use setup::{host_series, tier_of};

/// Opens the files that a scenario names.
pub type FileOpener<'a> = dyn FnMut(&str) -> io::Result<Box<dyn Read>> + 'a;

/// Why a scenario did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file cannot be opened.
    #[error("cannot open {name}: {cause}")]
    File {
        /// The file's name in the scenario.
        name: String,
        /// The cause.
        cause: io::Error,
    },
    /// A trace is damaged or of another format.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The policy is not in the catalogue.
    #[error(transparent)]
    Policy(#[from] PolicyChoiceError),
    /// A virtual machine's name is not valid for a tenant.
    #[error(transparent)]
    Name(#[from] TenantNameError),
    /// The store cannot be made.
    #[error(transparent)]
    Store(#[from] StoreTierError),
    /// A guest cannot go on.
    #[error("{vm} cannot go on: {fault}")]
    Guest {
        /// The virtual machine.
        vm: String,
        /// The cause.
        fault: GuestError,
    },
}

/// Whether judges watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JudgeMode {
    /// All of them watch after every event. They count everything after some events.
    #[default]
    Full,
    /// All of them watch, and they count everything after every event.
    Closely,
    /// None of them watches.
    Nobody,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress {
    /// Virtual time.
    pub at: VirtualInstant,
    /// Virtual machines that are done.
    pub vms_done: usize,
    /// Events so far.
    pub events: u64,
}

/// Runs `scenario` over the tier that it asks for. It calls `progress` once per virtual second.
///
/// # Errors
///
/// A file cannot be opened or read, a guest has no swap space left, or the machine has no memory for the store.
pub fn run(
    scenario: &Scenario,
    files: &mut FileOpener<'_>,
    watch: JudgeMode,
    progress: &mut dyn FnMut(RunProgress),
) -> Result<RunOutcome, RunError> {
    let host = host_series(scenario, files)?;
    let mut tier = tier_of(scenario, &host)?;
    run_with(scenario, host, files, tier.as_mut(), watch, progress)
}

fn run_with(
    scenario: &Scenario,
    host: HostSeries,
    files: &mut FileOpener<'_>,
    tier: &mut dyn Tier,
    watch: JudgeMode,
    progress: &mut dyn FnMut(RunProgress),
) -> Result<RunOutcome, RunError> {
    let machines = scenario.machines();
    let mut shadowed = ShadowedTier::of(tier);
    let parts = HostParts {
        scenario,
        machines: &machines,
        host,
        tier: &mut shadowed,
    };
    let mut host = SimulatedHost::of(parts, files, watch)?;
    host.run_until(VirtualInstant::NEVER, progress)?;
    Ok(host.outcome())
}

/// What a simulated host is made of.
pub(crate) struct HostParts<'a> {
    /// What it runs.
    pub(crate) scenario: &'a Scenario,
    /// The scenario's virtual machines.
    pub(crate) machines: &'a [VmInstance<'a>],
    /// How much memory it has for its tier, over time.
    pub(crate) host: HostSeries,
    /// The tier.
    pub(crate) tier: &'a mut dyn Tier,
}

/// A host with its virtual machines, as far as it has run.
pub(crate) struct SimulatedHost<'a> {
    scenario: &'a Scenario,
    vms: Vec<RunningVm<'a>>,
    host: HostSeries,
    /// The rule that sizes the tier on a host whose memory follows a trace.
    headroom: Option<Headroom>,
    policy: Box<dyn Policy>,
    decides_at: VirtualInstant,
    tier: JudgedTier<'a>,
    disk: DiskModel,
    processors: Processors,
    /// Pages that the tier has written to its spill files so far.
    spilled: u64,
    agenda: EventQueue<SimulationEvent>,
    samples: UsageSamples,
    events: u64,
    now: VirtualInstant,
    /// What other hosts lend it.
    borrowed: Pages,
    /// What its policy would ask of other hosts, by the last decision.
    wanted: Pages,
    is_over: bool,
}

/// An event of the simulation.
#[derive(Clone, Copy, Debug)]
enum SimulationEvent {
    /// This thread of this virtual machine goes on.
    Vm(usize, usize),
    /// Counting begins.
    WarmedUp,
    /// The daemon's rule looks at the host's memory.
    HostPoll,
    /// A second has passed.
    Second,
}

/// A virtual machine that runs or will run.
struct RunningVm<'a> {
    vm: &'a VmInstance<'a>,
    guest: Guest,
    /// What its threads do. `None` for a thread that is done.
    threads: Vec<Option<Box<dyn Workload>>>,
    state: VmState,
    stretches: Vec<TimedStretch>,
    /// When the last of its requests that nobody waited for is done.
    answered_at: VirtualInstant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VmState {
    /// It waits until others reach a mark.
    Waiting,
    Running,
    Done,
}

impl fmt::Debug for RunningVm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("vm", &self.vm.name)
            .finish_non_exhaustive()
    }
}

const SECOND: VirtualDuration = VirtualDuration::secs(1);

/// The region of the spill files on the disk.
const SPILL_REGION: u64 = u64::MAX;

impl<'a> SimulatedHost<'a> {
    /// A host at its beginning.
    ///
    /// # Errors
    ///
    /// A file of its workloads cannot be opened, or its policy is unknown.
    pub(crate) fn of(
        parts: HostParts<'a>,
        files: &mut FileOpener<'_>,
        watch: JudgeMode,
    ) -> Result<SimulatedHost<'a>, RunError> {
        let HostParts {
            scenario,
            machines,
            host,
            tier,
        } = parts;
        let panel = match watch {
            JudgeMode::Full | JudgeMode::Closely => {
                JudgePanel::full(machines.len(), scenario.tier.shrink)
            }
            JudgeMode::Nobody => JudgePanel::none(),
        };
        let counted_after = match watch {
            JudgeMode::Closely => CensusInterval::EACH,
            JudgeMode::Full | JudgeMode::Nobody => CensusInterval::cheaply(machines.len()),
        };
        let mut simulated = SimulatedHost {
            vms: setup::running(scenario, machines, files)?,
            headroom: Headroom::of(&scenario.host, &host),
            host,
            policy: scenario.policy.choice()?.make(),
            decides_at: VirtualInstant::START,
            tier: JudgedTier::of(tier, panel, counted_after),
            disk: DiskModel::of(scenario.disk),
            processors: Processors::of(scenario.host.processors),
            spilled: 0,
            agenda: EventQueue::default(),
            samples: UsageSamples::default(),
            events: 0,
            now: VirtualInstant::START,
            borrowed: Pages(0),
            wanted: Pages(0),
            is_over: false,
            scenario,
        };
        simulated.begin();
        Ok(simulated)
    }

    fn begin(&mut self) {
        self.resize();
        self.poll_host();
        self.decide();
        self.sample();
        for number in 0..self.vms.len() {
            if let VmStart::At(after) = self.vms[number].vm.spec.start {
                self.start(number, VirtualInstant::START + after);
            }
        }
        if self.scenario.warm_up > VirtualDuration::default() {
            let warm_at = VirtualInstant::START + self.scenario.warm_up;
            self.agenda.schedule(warm_at, SimulationEvent::WarmedUp);
        }
        self.agenda
            .schedule(VirtualInstant::START + SECOND, SimulationEvent::Second);
    }

    /// Lets everything happen that is due before `until`. It calls `progress` once per virtual second.
    ///
    /// # Errors
    ///
    /// A trace cannot be read any farther, or a guest has no swap space left.
    pub(crate) fn run_until(
        &mut self,
        until: VirtualInstant,
        progress: &mut dyn FnMut(RunProgress),
    ) -> Result<(), RunError> {
        let end = self.scenario.end();
        while !self.is_over && self.agenda.next_at() < until {
            let Some((at, event)) = self.agenda.pop() else {
                break;
            };
            self.now = at.min(end);
            if at >= end || self.has_ended() {
                self.is_over = true;
                break;
            }
            match event {
                SimulationEvent::Vm(number, thread) => self.run_thread(number, thread)?,
                SimulationEvent::WarmedUp => self.count_anew(),
                SimulationEvent::HostPoll => self.poll_host(),
                SimulationEvent::Second => self.on_second(progress),
            }
        }
        Ok(())
    }

    /// Returns whether nothing more will happen.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The figures of its tier.
    pub(crate) fn counts(&self) -> TierCounts {
        self.tier.counts()
    }

    /// What its policy would ask of other hosts, by the last decision.
    pub(crate) fn wanted(&self) -> Pages {
        self.wanted
    }

    /// Sets what other hosts lend it from now on.
    pub(crate) fn set_borrowed(&mut self, borrowed: Pages) {
        self.borrowed = borrowed;
        self.resize();
    }

    /// Returns whether all machines are done, or the scenario's mark is reached.
    fn has_ended(&self) -> bool {
        let nobody_runs = self.vms.iter().all(|vm| vm.state != VmState::Running);
        let is_stopped = self
            .scenario
            .stop
            .as_ref()
            .is_some_and(|mark| self.is_reached(mark));
        nobody_runs || is_stopped
    }

    fn is_reached(&self, mark: &StretchMark) -> bool {
        let marked = self
            .vms
            .iter()
            .filter(|vm| mark.vms.contains(&vm.vm.spec.name));
        let mut marked = marked.peekable();
        marked.peek().is_some() && marked.all(|vm| vm.has_begun(&mark.begin))
    }

    fn start(&mut self, number: usize, at: VirtualInstant) {
        let vm = &mut self.vms[number];
        vm.state = VmState::Running;
        for thread in 0..vm.threads.len() {
            self.agenda
                .schedule(at, SimulationEvent::Vm(number, thread));
        }
    }

    /// Lets a thread of a virtual machine do its steps until another event is due.
    fn run_thread(&mut self, number: usize, thread: usize) -> Result<(), RunError> {
        let mut now = self.now;
        let until = self.agenda.next_at();
        loop {
            self.events += 1;
            let vm = &mut self.vms[number];
            if vm.stretches.is_empty() {
                vm.stretches.push(TimedStretch::begun("all", now));
            }
            let Some(workload) = &mut vm.threads[thread] else {
                return Ok(());
            };
            let step = workload.next(now)?;
            let is_open = workload.is_open();
            match &step {
                WorkloadStep::Done => {
                    vm.threads[thread] = None;
                    self.finish(number, now);
                    return Ok(());
                }
                WorkloadStep::Begin(name) => self.begin_stretch(number, name, now),
                WorkloadStep::End => vm.end_stretch(now),
                WorkloadStep::Read(_) | WorkloadStep::Write(_) | WorkloadStep::Touch { .. }
                    if is_open =>
                {
                    self.run_open_loop_request(number, &step, now)?;
                }
                _ => now = self.step(number, &step, now)?,
            }
            if now >= until || matches!(step, WorkloadStep::Begin(_)) {
                self.agenda
                    .schedule(now, SimulationEvent::Vm(number, thread));
                return Ok(());
            }
        }
    }

    fn step(
        &mut self,
        number: usize,
        step: &WorkloadStep,
        now: VirtualInstant,
    ) -> Result<VirtualInstant, RunError> {
        let vm = &mut self.vms[number];
        let mut around = GuestBackends {
            tier: &mut self.tier,
            disk: &mut self.disk,
        };
        let start = match step {
            WorkloadStep::Until(_) => now,
            _ => self.processors.idle_from(now),
        };
        let waited = vm.guest.waited();
        let done = vm.guest.step(step, start, &mut around);
        let done = done.map_err(|fault| RunError::Guest {
            vm: vm.vm.name.clone(),
            fault,
        })?;
        let waited = vm.guest.waited() - waited;
        self.processors.work(start, done.since(start) - waited);
        Ok(done)
    }

    /// Does a request that the next one does not wait for.
    fn run_open_loop_request(
        &mut self,
        number: usize,
        step: &WorkloadStep,
        now: VirtualInstant,
    ) -> Result<(), RunError> {
        let done = self.step(number, step, now)?;
        let vm = &mut self.vms[number];
        vm.answered_at = vm.answered_at.max(done);
        Ok(())
    }

    fn begin_stretch(&mut self, number: usize, name: &str, now: VirtualInstant) {
        let vm = &mut self.vms[number];
        vm.end_stretch(now);
        vm.stretches.push(TimedStretch::begun(name, now));
        for number in 0..self.vms.len() {
            let vm = &self.vms[number];
            let VmStart::After(mark) = &vm.vm.spec.start else {
                continue;
            };
            if vm.state == VmState::Waiting && self.is_reached(mark) {
                self.start(number, now);
            }
        }
    }

    /// Ends a thread. The virtual machine ends with its last thread.
    fn finish(&mut self, number: usize, now: VirtualInstant) {
        let vm = &mut self.vms[number];
        if vm.threads.iter().any(Option::is_some) {
            return;
        }
        let now = now.max(vm.answered_at);
        self.now = now;
        vm.end_stretch(now);
        vm.state = VmState::Done;
        if let Some(all) = vm.stretches.first_mut() {
            all.end(now);
        }
    }

    /// Forgets what was counted, but not what was wrong.
    fn count_anew(&mut self) {
        for vm in &mut self.vms {
            let before = std::mem::take(&mut vm.guest.counts);
            vm.guest.counts.pages_wrong = before.pages_wrong;
            vm.guest.counts.pages_lost = before.pages_lost;
        }
        self.disk.counts = DiskCounts::default();
    }

    fn on_second(&mut self, progress: &mut dyn FnMut(RunProgress)) {
        self.resize();
        self.tier.chores(self.now);
        self.charge_spills();
        if self.now >= self.decides_at {
            self.decide();
        }
        self.sample();
        self.agenda
            .schedule(self.now + SECOND, SimulationEvent::Second);
        progress(RunProgress {
            at: self.now,
            vms_done: self
                .vms
                .iter()
                .filter(|vm| vm.state == VmState::Done)
                .count(),
            events: self.events,
        });
    }

    /// Makes the tier as large as the scenario says, unless a rule sizes it.
    fn resize(&mut self) {
        if self.headroom.is_none() {
            let own = Pages::of(self.host.free_at(self.now));
            self.resize_to(Pages(own.0.saturating_add(self.borrowed.0)));
        }
    }

    fn resize_to(&mut self, total: Pages) {
        if self.tier.counts().total != total {
            self.tier.resize(total, self.now);
        }
    }

    /// Lets the headroom code look at the host and decide. It looks again when that code says so.
    fn poll_host(&mut self) {
        let held: Pages = self
            .tier
            .counts()
            .tenants
            .iter()
            .map(|count| count.held)
            .sum();
        let free = self.host.free_at(self.now);
        let Some(headroom) = &mut self.headroom else {
            return;
        };
        let decision = headroom.decide(self.now, free, held.bytes());
        self.resize_to(Pages::of(decision.arena_max));
        let again = self.now + VirtualDuration::from(decision.poll_again_in);
        self.agenda.schedule(again, SimulationEvent::HostPoll);
    }

    /// Charges the disk with what the tier spilled in the last second.
    fn charge_spills(&mut self) {
        let spilled: u64 = self
            .tier
            .counts()
            .tenants
            .iter()
            .map(|count| count.spilled)
            .sum();
        let pages = spilled.saturating_sub(self.spilled);
        if pages > 0 {
            let address = DiskAddress {
                region: SPILL_REGION,
                page: self.spilled,
            };
            self.disk.write(self.now, address, pages);
            self.spilled = spilled;
        }
    }

    fn sample(&mut self) {
        if self.samples.is_due(self.now) {
            let counts = self.tier.counts();
            self.samples.record(self.now, &counts);
        }
    }

    /// Lets the policy decide, and applies what has changed.
    fn decide(&mut self) {
        self.decides_at = self.now + self.scenario.policy.interval;
        let mut snapshot = self.tier.snapshot(self.now);
        self.grant(&mut snapshot);
        let decision = self.policy.decide(&snapshot);
        let targets = decision.targets.tenants.iter();
        self.wanted = targets.map(|target| target.wanted).sum();
        let pairs = snapshot.tenants.iter().zip(&decision.targets.tenants);
        for (
            before,
            Target {
                id,
                pages,
                guard,
                giving,
                ..
            },
        ) in pairs
        {
            self.tier.set_guard(*id, *guard, *giving);
            if before.target != *pages {
                self.tier.set_target(*id, *pages, self.now);
            }
        }
    }

    /// Adds to a snapshot what the scenario grants to each tenant.
    fn grant(&self, snapshot: &mut Snapshot) {
        for (tenant, vm) in snapshot.tenants.iter_mut().zip(&self.vms) {
            tenant.weight = vm.vm.spec.weight;
            tenant.floor = vm.vm.spec.floor.map(Pages::of);
            tenant.ceiling = vm.vm.spec.ceiling.map(Pages::of);
        }
    }

    /// What came of it.
    pub(crate) fn outcome(mut self) -> RunOutcome {
        let counts = self.tier.counts();
        self.samples.record(self.now, &counts);
        let vms = self.vms.into_iter().zip(counts.tenants);
        let vms = vms.map(|(vm, tier)| VmOutcome {
            name: vm.vm.name.clone(),
            stretches: vm.stretches,
            guest: vm.guest.counts,
            tier,
        });
        RunOutcome::of(self.scenario, self.now, self.events)
            .with_vms(vms.collect())
            .with_samples(self.samples)
            .with_disk(self.disk.counts)
            .with_verdicts(&self.tier.panel)
    }
}

impl RunningVm<'_> {
    fn has_begun(&self, name: &str) -> bool {
        self.stretches.iter().any(|stretch| stretch.name == name)
    }

    /// Ends the current stretch, but never the one over the whole run.
    fn end_stretch(&mut self, now: VirtualInstant) {
        if let Some(stretch) = self.stretches.iter_mut().skip(1).last() {
            stretch.end(now);
        }
    }
}

#[cfg(test)]
mod tests;
