//! Four nodes and their leader, second by second.

use std::io::{self, Read};
use std::time::Duration;

use sublet_lend::wanted::ArenaGrowth;
use sublet_policy::placement::{Advice, NodeNumber, NodeReport, PlacementChoice, advise};

use super::loans::{Loan, LoanBook};
use super::model::VmcaModel;
use super::outcome::{NodeOutcome, RunningTime, VmcaOutcome};
use super::policies::VmcaPolicy;
use super::scale::VmcaScale;
use super::scenarios::{BUSY, NODES, OWN_BLOCKS, VmcaScenario};
use super::wish::{NodeLook, NodeWish};
use crate::machine::far_tier::FarTier;
use crate::outcome::{RunOutcome, TimedStretch, VmOutcome};
use crate::rng::SimRng;
use crate::run::{HostParts, JudgeMode, RunError, SimulatedHost, host_series, tier_of};
use crate::scenario::{Scenario, VmStart};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// A scenario under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmcaRun {
    /// The scenario.
    pub scenario: VmcaScenario,
    /// The policy.
    pub policy: VmcaPolicy,
    /// The seed of all random numbers.
    pub seed: u64,
    /// How the nodes are modelled.
    pub model: VmcaModel,
}

/// Programs that are started together begin within this time of each other: their Java machines take a while.
const STARTS_WITHIN: VirtualDuration = VirtualDuration::secs(2);

/// Half of the memory that an idle node has for each of those that borrow.
const HALF_PART: u32 = OWN_BLOCKS * (NODES - BUSY.len()) as u32 / BUSY.len() as u32 / 2;

fn no_files(_: &str) -> io::Result<Box<dyn Read>> {
    Err(io::ErrorKind::NotFound.into())
}

impl VmcaRun {
    /// All policies in these scenarios with `seeds` seeds from `seed` on.
    pub fn all(
        scenarios: &[VmcaScenario],
        seed: u64,
        seeds: u64,
        model: VmcaModel,
    ) -> Vec<VmcaRun> {
        let mut runs = Vec::new();
        for scenario in scenarios.iter().copied() {
            for policy in VmcaPolicy::ALL {
                let seeds = (seed..seed.saturating_add(seeds)).map(|seed| VmcaRun {
                    scenario,
                    policy,
                    seed,
                    model,
                });
                runs.extend(seeds);
            }
        }
        runs
    }

    /// Plays the run to its end.
    ///
    /// # Errors
    ///
    /// A guest has no swap space left.
    pub fn play(self, watch: JudgeMode) -> Result<VmcaOutcome, RunError> {
        let scenarios = BUSY.map(|node| self.scenario_of(node));
        let machines = scenarios.each_ref().map(Scenario::machines);
        let scale = self.model.scale;
        let own = scale.pages(OWN_BLOCKS);
        let mut tiers = Vec::new();
        for scenario in &scenarios {
            let series = host_series(scenario, &mut no_files)?;
            tiers.push(FarTier::of(tier_of(scenario, &series)?, own));
        }
        let mut nodes = Vec::new();
        for (place, tier) in tiers.iter_mut().enumerate() {
            let parts = HostParts {
                scenario: &scenarios[place],
                machines: &machines[place],
                host: host_series(&scenarios[place], &mut no_files)?,
                tier,
            };
            nodes.push(BusyNode {
                number: BUSY[place],
                host: SimulatedHost::of(parts, &mut no_files, watch)?,
                wish: self.policy.wish(),
                wanted: 0,
                borrowed_most: 0,
                borrowed_half_secs: None,
            });
        }
        let mut cluster = VmcaCluster {
            scale,
            second: 0,
            nodes,
            loans: LoanBook::default(),
            placement: self.policy.between_nodes(),
            draws: SimRng::of_part(self.seed, u64::MAX),
        };
        cluster.run()?;
        Ok(cluster.outcome())
    }

    /// What runs on a node, with its seed, its policy and its starts.
    fn scenario_of(self, node: usize) -> Scenario {
        let mut luck = SimRng::of_part(self.seed, node as u64);
        let mut scenario = self.model.of_a_node(self.scenario);
        scenario.seed = luck.bits();
        scenario.policy = self.policy.in_a_node(self.model.scale);
        for vm in &mut scenario.vms {
            vm.start = VmStart::At(VirtualDuration(luck.below(STARTS_WITHIN.0)));
        }
        scenario
    }
}

/// A node that runs virtual machines.
struct BusyNode<'a> {
    /// Counted from 0.
    number: usize,
    host: SimulatedHost<'a>,
    wish: NodeWish,
    /// The blocks that it wants beyond those that it has.
    wanted: u32,
    borrowed_most: u32,
    /// Seconds until it had half of its part of the idle nodes' memory.
    borrowed_half_secs: Option<u64>,
}

impl BusyNode<'_> {
    /// What it looks like to the rule that knows what it wants.
    fn look(&self, now: Duration, borrowed: u32, scale: VmcaScale) -> NodeLook {
        let counts = self.host.counts();
        let refused: u64 = counts.tenants.iter().map(|of| of.refused).sum();
        let far_free = scale.pages(borrowed).0 - counts.far.used.0;
        let growth = match counts.free.0 - far_free >= scale.pages(1).0 {
            true => ArenaGrowth::Possible,
            false => ArenaGrowth::Exhausted,
        };
        NodeLook {
            now,
            refused: refused * scale.factor(),
            sent: counts.far.puts * scale.factor(),
            growth,
            targets_lack: scale.blocks(self.host.wanted()),
            borrowed,
        }
    }
}

/// All nodes and their leader.
struct VmcaCluster<'a> {
    scale: VmcaScale,
    /// Seconds since the beginning.
    second: u64,
    /// The nodes that run virtual machines.
    nodes: Vec<BusyNode<'a>>,
    loans: LoanBook,
    /// `None` if memory stays where it is.
    placement: Option<PlacementChoice>,
    draws: SimRng,
}

impl VmcaCluster<'_> {
    fn run(&mut self) -> Result<(), RunError> {
        while self.nodes.iter().any(|node| !node.host.is_over()) {
            self.second += 1;
            let now = VirtualInstant::START + VirtualDuration::secs(self.second);
            let behind = now + VirtualDuration(1);
            for node in &mut self.nodes {
                node.host.run_until(behind, &mut |_| {})?;
            }
            self.measure(Duration::from_secs(self.second));
            if let Some(choice) = self.placement.clone() {
                self.place(&choice);
            }
        }
        Ok(())
    }

    /// Lets each node measure what it wants. A node whose machines are done gives back what it borrowed.
    fn measure(&mut self, now: Duration) {
        for node in &mut self.nodes {
            if node.host.is_over() {
                self.loans.return_all(node.number);
                node.wanted = 0;
                continue;
            }
            let borrowed = self.loans.borrowed(node.number);
            let look = node.look(now, borrowed, self.scale);
            node.wanted = node.wish.measure(look);
        }
    }

    /// The leader advises, and nodes follow.
    fn place(&mut self, choice: &PlacementChoice) {
        let reports: Vec<NodeReport> = (0..NODES).map(|number| self.report(number)).collect();
        let draw = self.draws.bits();
        let loans = |pair| self.loans.between(pair);
        for advice in advise(&reports, &loans, choice, draw) {
            self.grant(&advice);
        }
    }

    fn report(&self, number: usize) -> NodeReport {
        let busy = self.nodes.iter().find(|node| node.number == number);
        NodeReport {
            node: NodeNumber(number as u32),
            rack: None,
            lendable: self.lendable(number),
            wanted: busy.map_or(0, |node| node.wanted),
            borrowed: self.loans.borrowed(number),
        }
    }

    /// What a node can lend: all that it has not lent, if no machine runs on it.
    fn lendable(&self, number: usize) -> u32 {
        let is_busy = |node: &BusyNode<'_>| node.number == number && !node.host.is_over();
        match self.nodes.iter().any(is_busy) {
            true => 0,
            false => OWN_BLOCKS - self.loans.lent(number),
        }
    }

    fn grant(&mut self, advice: &Advice) {
        let (lender, borrower) = (advice.lender.0 as usize, advice.borrower.0 as usize);
        let blocks = advice.blocks.min(self.lendable(lender));
        self.loans.add(Loan {
            lender,
            borrower,
            blocks,
        });
        let borrowed = self.loans.borrowed(borrower);
        let is_it = |node: &&mut BusyNode<'_>| node.number == borrower;
        if let Some(node) = self.nodes.iter_mut().find(is_it) {
            node.borrowed_most = node.borrowed_most.max(borrowed);
            if borrowed >= HALF_PART && node.borrowed_half_secs.is_none() {
                node.borrowed_half_secs = Some(self.second);
            }
            node.host.set_borrowed(self.scale.pages(borrowed));
        }
    }

    fn outcome(self) -> VmcaOutcome {
        let mut outcome = VmcaOutcome::default();
        for node in self.nodes {
            let number = node.number + 1;
            let ran = node.host.outcome();
            outcome.wrongs += ran.wrongs;
            outcome.times.extend(times_of(&ran, number));
            let factor = self.scale.factor();
            let far: u64 = ran.vms.iter().map(|vm| vm.guest.far_accesses).sum();
            outcome.nodes.push(NodeOutcome {
                node: number,
                borrowed_most: node.borrowed_most,
                borrowed_half_secs: node.borrowed_half_secs,
                far_accesses: far * factor,
                disk_seeks: ran.disk.seeks * factor,
                disk_pages_read: ran.disk.pages_read * factor,
                disk_pages_written: ran.disk.pages_written * factor,
            });
        }
        outcome
    }
}

/// How long the programs of a node ran. A program without named runs counts as a whole.
fn times_of(ran: &RunOutcome, node: usize) -> Vec<RunningTime> {
    let is_run = |stretch: &&TimedStretch| stretch.name.starts_with("run ");
    let of_vm = |vm: &VmOutcome| {
        let mut runs: Vec<&TimedStretch> = vm.stretches.iter().filter(is_run).collect();
        if runs.is_empty() {
            runs.extend(vm.stretches.first());
        }
        let time = |stretch: &&TimedStretch| {
            Some(RunningTime {
                node,
                vm: vm.name.clone(),
                run: stretch.name.clone(),
                secs: stretch.secs()?,
            })
        };
        runs.iter().filter_map(time).collect::<Vec<RunningTime>>()
    };
    ran.vms.iter().flat_map(of_vm).collect()
}
