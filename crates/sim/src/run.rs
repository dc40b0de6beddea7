//! A scenario from its beginning to its end: one event after another.

use std::fmt;
use std::io::{self, Read};

use sublet_policy::Policy;
use sublet_policy::catalogue::ChoiceError;
use sublet_types::{Bytes, Pages, PoolFlags, Snapshot, Target, TenantNameError, Windows};

use crate::chance::Chance;
use crate::judges::{CountedAfter, Court, Judged};
use crate::machine::disk::{Disk, DiskCounts, DiskPlace};
use crate::machine::guest::{Guest, GuestFault, Surroundings};
use crate::machine::processors::Processors;
use crate::machine::shadows::Shadowed;
use crate::machine::tier::Tier;
use crate::machine::tier_map::{MapTier, NoTier};
use crate::machine::tier_store::{StoreShape, StoreTenant, StoreTier, StoreTierError};
use crate::outcome::{Outcome, Samples, Stretch, VmOutcome};
use crate::scenario::{Engine, Mark, Scenario, Sizing, Start, Vm, format_of};
use crate::traces::{HostSample, HostSeries, Trace, TraceError};
use crate::virtual_time::{Agenda, Moment, Nanos};
use crate::workload::{Step, Workload};

mod headroom;

use headroom::Headroom;

/// Opens the files that a scenario names.
pub type Files<'a> = dyn FnMut(&str) -> io::Result<Box<dyn Read>> + 'a;

/// Why a scenario did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file cannot be opened.
    #[error("cannot open {name}: {cause}")]
    File {
        /// The file, as the scenario names it.
        name: String,
        /// Why not.
        cause: io::Error,
    },
    /// A trace is not what it should be.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The policy is not in the catalogue.
    #[error(transparent)]
    Policy(#[from] ChoiceError),
    /// A virtual machine's name is no tenant's.
    #[error(transparent)]
    Name(#[from] TenantNameError),
    /// The store cannot be made.
    #[error(transparent)]
    Store(#[from] StoreTierError),
    /// A guest cannot go on.
    #[error("{vm} cannot go on: {fault}")]
    Guest {
        /// Which.
        vm: String,
        /// Why not.
        fault: GuestFault,
    },
}

/// Whether judges watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// All of them, after every event; they count everything after some.
    #[default]
    Full,
    /// All of them, and they count everything after every event.
    Closely,
    /// None.
    Nobody,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Virtual time.
    pub at: Moment,
    /// Virtual machines that are done.
    pub vms_done: usize,
    /// Events so far.
    pub events: u64,
}

/// Runs `scenario` over the tier that it asks for. `progress` hears once a virtual second how far it is.
///
/// # Errors
///
/// A file that cannot be opened or read; a guest without swap space; a machine without memory for the store.
pub fn run(
    scenario: &Scenario,
    files: &mut Files<'_>,
    watch: Watch,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, RunError> {
    let host = host_series(scenario, files)?;
    let mut tier = tier_of(scenario, &host)?;
    run_with(scenario, host, files, tier.as_mut(), watch, progress)
}

fn run_with(
    scenario: &Scenario,
    host: HostSeries,
    files: &mut Files<'_>,
    tier: &mut dyn Tier,
    watch: Watch,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, RunError> {
    let machines = scenario.machines();
    let court = match watch {
        Watch::Full | Watch::Closely => Court::full(machines.len(), scenario.tier.shrink),
        Watch::Nobody => Court::none(),
    };
    let counted_after = match watch {
        Watch::Closely => CountedAfter::EACH,
        Watch::Full | Watch::Nobody => CountedAfter::cheaply(machines.len()),
    };
    let mut shadowed = Shadowed::of(tier);
    let simulation = Simulation {
        vms: running(scenario, &machines, files)?,
        headroom: Headroom::of(&scenario.host, &host),
        host,
        policy: scenario.policy.choice()?.make(),
        decides_at: Moment::START,
        tier: Judged::of(&mut shadowed, court, counted_after),
        disk: Disk::of(scenario.disk),
        processors: Processors::of(scenario.host.processors),
        spilled: 0,
        agenda: Agenda::default(),
        samples: Samples::default(),
        events: 0,
        now: Moment::START,
        scenario,
    };
    simulation.play(progress)
}

fn tier_of(scenario: &Scenario, host: &HostSeries) -> Result<Box<dyn Tier>, RunError> {
    let machines = scenario.machines();
    let total = Pages::of(host.free_at(Moment::START));
    Ok(match scenario.tier.engine {
        Engine::Store => Box::new(store_tier(scenario, &machines, host, total)?),
        Engine::Tables => Box::new(MapTier::of(total, machines.len(), scenario.tier.shrink)),
        Engine::None => Box::new(NoTier::of(machines.len())),
    })
}

fn store_tier(
    scenario: &Scenario,
    machines: &[Vm<'_>],
    host: &HostSeries,
    total: Pages,
) -> Result<StoreTier, RunError> {
    let tenant = |vm: &Vm<'_>| {
        Ok(StoreTenant {
            settings: vm.settings()?,
            swap_pages: vm.shape.swap_pages,
        })
    };
    let tenants: Result<Vec<StoreTenant>, TenantNameError> = machines.iter().map(tenant).collect();
    let shape = StoreShape {
        total,
        most: Pages::of(host.most()),
        eviction: scenario.tier.eviction,
        shards: scenario.tier.shards.0,
        shrinking: scenario.tier.shrink,
        files: PoolFlags::default(),
        windows: Windows::default(),
        seed: scenario.seed,
    };
    Ok(StoreTier::of(&shape, &tenants?)?)
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    vms: Vec<Running<'a>>,
    host: HostSeries,
    /// Who sizes the tier on a host whose memory follows a trace.
    headroom: Option<Headroom>,
    policy: Box<dyn Policy>,
    decides_at: Moment,
    tier: Judged<'a>,
    disk: Disk,
    processors: Processors,
    /// Pages that the tier has written to its spill files so far.
    spilled: u64,
    agenda: Agenda<Event>,
    samples: Samples,
    events: u64,
    now: Moment,
}

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// This thread of this virtual machine goes on.
    Vm(usize, usize),
    /// Counting begins.
    WarmedUp,
    /// The host's memory is looked at.
    Look,
    /// A second has passed.
    Second,
}

/// A virtual machine that runs, or will.
struct Running<'a> {
    vm: &'a Vm<'a>,
    guest: Guest,
    /// What its threads do; nothing any more where one is done.
    threads: Vec<Option<Box<dyn Workload>>>,
    state: State,
    stretches: Vec<Stretch>,
    /// When the last of its requests that nobody waited for is done.
    answered_at: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Until others reach a mark.
    Waiting,
    Running,
    Done,
}

impl fmt::Debug for Running<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("vm", &self.vm.name)
            .finish_non_exhaustive()
    }
}

fn running<'a>(
    scenario: &Scenario,
    machines: &'a [Vm<'a>],
    files: &mut Files<'_>,
) -> Result<Vec<Running<'a>>, RunError> {
    let mut running = Vec::with_capacity(machines.len());
    for (number, vm) in (0u64..).zip(machines) {
        let mut refused = None;
        let mut open = |spec: &crate::workload::spec::Trace| {
            let format = format_of(spec).ok();
            let bytes = files(&spec.file).unwrap_or_else(|cause| {
                refused = Some((spec.file.clone(), cause));
                Box::new(io::empty())
            });
            Trace::open(&spec.file, format, bytes)
        };
        let chance = Chance::of_part(scenario.seed, number);
        let threads = vm.spec.workload.build_threads(chance, &mut open);
        if let Some((name, cause)) = refused {
            return Err(RunError::File { name, cause });
        }
        running.push(Running {
            guest: Guest::of(vm.shape),
            threads: threads?.into_iter().map(Some).collect(),
            state: State::Waiting,
            stretches: Vec::new(),
            answered_at: Moment::START,
            vm,
        });
    }
    Ok(running)
}

/// What the tier may be over time.
fn host_series(scenario: &Scenario, files: &mut Files<'_>) -> Result<HostSeries, RunError> {
    let host = &scenario.host;
    let mut series = match &host.follow {
        None => HostSeries::of_changes(host.memory, &host.changes),
        Some(follow) => {
            let name = follow.file.clone();
            let bytes = files(&name).map_err(|cause| RunError::File { name, cause })?;
            let read = HostSeries::read(&follow.file, follow.format(), &follow.host, bytes)?;
            read.condensed(follow.speed, follow.peak)
        }
    };
    if host.store == Sizing::Fixed {
        let free = series.least() - headroom::reserve(host, &series);
        let at = Moment::START;
        series.samples = vec![HostSample { at, free }];
    }
    Ok(series)
}

impl HostSeries {
    fn of_changes(memory: Bytes, changes: &[crate::scenario::Change]) -> HostSeries {
        let first = HostSample {
            at: Moment::START,
            free: memory,
        };
        let changed = changes.iter().map(|change| HostSample {
            at: Moment::START + change.at,
            free: change.memory,
        });
        let mut samples: Vec<HostSample> = std::iter::once(first).chain(changed).collect();
        samples.sort_by_key(|sample| sample.at);
        HostSeries { samples }
    }
}

const SECOND: Nanos = Nanos::secs(1);

/// The region of the spill files on the disk.
const SPILL_REGION: u64 = u64::MAX;

impl Simulation<'_> {
    fn play(mut self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, RunError> {
        self.resize();
        self.look();
        self.decide();
        self.sample();
        for number in 0..self.vms.len() {
            if let Start::At(after) = self.vms[number].vm.spec.start {
                self.start(number, Moment::START + after);
            }
        }
        if self.scenario.warm_up > Nanos::default() {
            let warm_at = Moment::START + self.scenario.warm_up;
            self.agenda.enter(warm_at, Event::WarmedUp);
        }
        self.agenda.enter(Moment::START + SECOND, Event::Second);
        let end = self.scenario.end();
        while let Some((at, event)) = self.agenda.take() {
            self.now = at.min(end);
            if at >= end || self.is_over() {
                break;
            }
            match event {
                Event::Vm(number, thread) => self.go_on(number, thread)?,
                Event::WarmedUp => self.count_anew(),
                Event::Look => self.look(),
                Event::Second => self.second(progress),
            }
        }
        Ok(self.outcome())
    }

    /// Nobody runs any more, or the scenario's mark is reached.
    fn is_over(&self) -> bool {
        let nobody_runs = self.vms.iter().all(|vm| vm.state != State::Running);
        let is_stopped = self
            .scenario
            .stop
            .as_ref()
            .is_some_and(|mark| self.is_reached(mark));
        nobody_runs || is_stopped
    }

    fn is_reached(&self, mark: &Mark) -> bool {
        let marked = self
            .vms
            .iter()
            .filter(|vm| mark.vms.contains(&vm.vm.spec.name));
        let mut marked = marked.peekable();
        marked.peek().is_some() && marked.all(|vm| vm.has_begun(&mark.begin))
    }

    fn start(&mut self, number: usize, at: Moment) {
        let vm = &mut self.vms[number];
        vm.state = State::Running;
        for thread in 0..vm.threads.len() {
            self.agenda.enter(at, Event::Vm(number, thread));
        }
    }

    /// Lets a thread of a virtual machine do its steps until another event is due.
    fn go_on(&mut self, number: usize, thread: usize) -> Result<(), RunError> {
        let mut now = self.now;
        let until = self.agenda.next_at();
        loop {
            self.events += 1;
            let vm = &mut self.vms[number];
            if vm.stretches.is_empty() {
                vm.stretches.push(Stretch::begun("all", now));
            }
            let Some(workload) = &mut vm.threads[thread] else {
                return Ok(());
            };
            let step = workload.next(now)?;
            let is_open = workload.is_open();
            match &step {
                Step::Done => {
                    vm.threads[thread] = None;
                    self.finish(number, now);
                    return Ok(());
                }
                Step::Begin(name) => self.begin(number, name, now),
                Step::End => vm.end_stretch(now),
                Step::Read(_) | Step::Write(_) | Step::Touch { .. } if is_open => {
                    self.answer(number, &step, now)?;
                }
                _ => now = self.step(number, &step, now)?,
            }
            if now >= until || matches!(step, Step::Begin(_)) {
                self.agenda.enter(now, Event::Vm(number, thread));
                return Ok(());
            }
        }
    }

    fn step(&mut self, number: usize, step: &Step, now: Moment) -> Result<Moment, RunError> {
        let vm = &mut self.vms[number];
        let mut around = Surroundings {
            tier: &mut self.tier,
            disk: &mut self.disk,
        };
        let start = match step {
            Step::Until(_) => now,
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

    /// Has a request done that the next one does not wait for.
    fn answer(&mut self, number: usize, step: &Step, now: Moment) -> Result<(), RunError> {
        let done = self.step(number, step, now)?;
        let vm = &mut self.vms[number];
        vm.answered_at = vm.answered_at.max(done);
        Ok(())
    }

    fn begin(&mut self, number: usize, name: &str, now: Moment) {
        let vm = &mut self.vms[number];
        vm.end_stretch(now);
        vm.stretches.push(Stretch::begun(name, now));
        for number in 0..self.vms.len() {
            let vm = &self.vms[number];
            let Start::After(mark) = &vm.vm.spec.start else {
                continue;
            };
            if vm.state == State::Waiting && self.is_reached(mark) {
                self.start(number, now);
            }
        }
    }

    /// A thread is done; with the last of them its virtual machine is.
    fn finish(&mut self, number: usize, now: Moment) {
        let vm = &mut self.vms[number];
        if vm.threads.iter().any(Option::is_some) {
            return;
        }
        let now = now.max(vm.answered_at);
        self.now = now;
        vm.end_stretch(now);
        vm.state = State::Done;
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

    fn second(&mut self, progress: &mut dyn FnMut(Progress)) {
        self.resize();
        self.tier.chores(self.now);
        self.charge_spills();
        if self.now >= self.decides_at {
            self.decide();
        }
        self.sample();
        self.agenda.enter(self.now + SECOND, Event::Second);
        progress(Progress {
            at: self.now,
            vms_done: self.vms.iter().filter(|vm| vm.state == State::Done).count(),
            events: self.events,
        });
    }

    /// Where nobody sizes the tier, it is as large as the scenario says.
    fn resize(&mut self) {
        if self.headroom.is_none() {
            self.resize_to(Pages::of(self.host.free_at(self.now)));
        }
    }

    fn resize_to(&mut self, total: Pages) {
        if self.tier.census().total != total {
            self.tier.resize(total, self.now);
        }
    }

    /// Has the headroom code look at the host and decide, and looks again when it says so.
    fn look(&mut self) {
        let held: Pages = self
            .tier
            .census()
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
        let again = self.now + Nanos::from(decision.poll_again_in);
        self.agenda.enter(again, Event::Look);
    }

    /// What the tier spilled in the last second occupies the disk.
    fn charge_spills(&mut self) {
        let spilled: u64 = self
            .tier
            .census()
            .tenants
            .iter()
            .map(|count| count.spilled)
            .sum();
        let pages = spilled.saturating_sub(self.spilled);
        if pages > 0 {
            let place = DiskPlace {
                region: SPILL_REGION,
                page: self.spilled,
            };
            self.disk.write(self.now, place, pages);
            self.spilled = spilled;
        }
    }

    fn sample(&mut self) {
        if self.samples.is_due(self.now) {
            let census = self.tier.census();
            self.samples.take(self.now, &census);
        }
    }

    /// Has the policy decide, and applies what has changed.
    fn decide(&mut self) {
        self.decides_at = self.now + self.scenario.policy.interval;
        let mut snapshot = self.tier.snapshot(self.now);
        self.grant(&mut snapshot);
        let decision = self.policy.decide(&snapshot);
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

    fn outcome(mut self) -> Outcome {
        let census = self.tier.census();
        self.samples.take(self.now, &census);
        let vms = self.vms.into_iter().zip(census.tenants);
        let vms = vms.map(|(vm, tier)| VmOutcome {
            name: vm.vm.name.clone(),
            stretches: vm.stretches,
            guest: vm.guest.counts,
            tier,
        });
        Outcome::of(self.scenario, self.now, self.events)
            .with_vms(vms.collect())
            .with_samples(self.samples)
            .with_disk(self.disk.counts)
            .with_court(&self.tier.court)
    }
}

impl Running<'_> {
    fn has_begun(&self, name: &str) -> bool {
        self.stretches.iter().any(|stretch| stretch.name == name)
    }

    /// Ends the stretch that is under way, but never the one over all.
    fn end_stretch(&mut self, now: Moment) {
        if let Some(stretch) = self.stretches.iter_mut().skip(1).last() {
            stretch.end(now);
        }
    }
}

#[cfg(test)]
mod tests;
