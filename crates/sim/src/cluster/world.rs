//! All nodes of a cluster and what is around them: who gets which event, who crashes and who starts.

use sublet_lend::ids::ConnectionId;
use sublet_lend::node::LendingInput;

use super::environment::{ClusterEvent, Environment};
use super::etcd_service::{EtcdAlarm, EtcdService};
use super::ids::{NodeNumber, NodeRun};
use super::judges::{ClusterJudges, PairBooks};
use super::leaders::LOOK_EVERY;
use super::leadership::Leadership;
use super::leadership_plan::LeadershipPlan;
use super::messages::ChannelClass;
use super::mutation::Mutation;
use super::network::{CrashKind, Delivery, Network, NetworkAlarm};
use super::node::{ClusterGuest, ClusterNode, ConnectionOpener, GuestDisk, MemoryShape, NodeShape};
use super::plan::{ClusterPlan, FAR_BLOCKS_MAX, FaultScope, GUEST_PAGES, NodeRole};
use super::trace::{ClusterTrace, TraceEvent, TraceLength};
use crate::machine::tier_store::StoreTierError;
use crate::rng::{SimRng, mixed};
use crate::virtual_time::VirtualInstant;

/// The parts of a run that draw random numbers of their own.
const NETWORK_PART: u64 = 1;
const LUCK_PART: u64 = 2;
const NODES_PART: u64 = 3;
const ETCD_PART: u64 = 3 << 32;

/// The slowest clock and the fastest, in hundredths of the true speed.
pub(super) const CLOCK_PERCENTS: (u32, u32) = (80, 120);

/// A place for the runs of a node.
struct NodePlace {
    role: NodeRole,
    own_max: u64,
    /// Runs so far.
    runs: u32,
    node: Option<Box<ClusterNode>>,
    /// The disk, while the node is down.
    disk: Option<GuestDisk>,
}

/// A cluster.
pub(super) struct ClusterWorld {
    pub(super) env: Environment,
    plan: ClusterPlan,
    pub(super) leading: LeadershipPlan,
    seed: u64,
    places: Vec<NodePlace>,
    /// Whether guests have stopped.
    is_quiet: bool,
}

impl ClusterWorld {
    /// A cluster whose nodes start now.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(super) fn start(
        plan: ClusterPlan,
        seed: u64,
        mutation: Option<Mutation>,
        length: TraceLength,
    ) -> Result<ClusterWorld, StoreTierError> {
        let network = Network::new(plan.speed, SimRng::of_part(seed, NETWORK_PART));
        let judges = ClusterJudges::new(plan.nodes, GUEST_PAGES);
        let luck = SimRng::of_part(seed, LUCK_PART);
        let trace = ClusterTrace::new(length);
        let mut world = ClusterWorld {
            env: Environment::new(network, judges, trace, luck, mutation),
            plan,
            leading: LeadershipPlan::of(&plan, seed, mutation),
            seed,
            places: Vec::with_capacity(usize::from(plan.nodes)),
            is_quiet: false,
        };
        if world.leading.leadership == Leadership::Etcd {
            let luck = SimRng::of_part(seed, ETCD_PART);
            world.env.etcd = Some(EtcdService::new(luck, CLOCK_PERCENTS, mutation));
        }
        for number in 0..plan.nodes {
            let place = world.place(number);
            world.places.push(place);
        }
        for number in 0..plan.nodes {
            world.begin_run(NodeNumber(number))?;
        }
        let env = &mut world.env;
        env.set_alarms();
        env.after(LOOK_EVERY, ClusterEvent::LeadersLook);
        env.after(plan.heals_after(), ClusterEvent::Heal);
        env.after(plan.quiet_after(), ClusterEvent::Quiet);
        env.after(plan.empties_after(), ClusterEvent::Empty);
        env.after(plan.ends_after(), ClusterEvent::End);
        Ok(world)
    }

    /// The place of a node. The first is hungry and the second is idle, so that there is always somebody to borrow of.
    fn place(&self, number: u16) -> NodePlace {
        let mut luck = SimRng::of_part(self.seed, NODES_PART + u64::from(number));
        let is_hungry = match number {
            0 => true,
            1 => false,
            _ => luck.happens(0.4),
        };
        let role = match is_hungry {
            true => NodeRole::Hungry,
            false => NodeRole::Idle,
        };
        let (least, more) = role.own_blocks();
        NodePlace {
            role,
            own_max: least + luck.below(more + 1),
            runs: 0,
            node: None,
            disk: Some(GuestDisk::new(GUEST_PAGES)),
        }
    }

    /// When everything heals.
    pub(super) fn heals_at(&self) -> VirtualInstant {
        VirtualInstant::START + self.plan.heals_after()
    }

    /// The numbers of all nodes.
    pub(super) fn numbers(&self) -> impl Iterator<Item = NodeNumber> + use<> {
        (0..self.plan.nodes).map(NodeNumber)
    }

    /// A node that runs, with what is around it.
    pub(super) fn running(
        &mut self,
        node: NodeNumber,
    ) -> Option<(&mut ClusterNode, &mut Environment)> {
        let node = self.places[node.slot()].node.as_deref_mut()?;
        Some((node, &mut self.env))
    }

    /// A node that runs and is not stopped.
    pub(super) fn awake(&self, node: NodeNumber) -> Option<&ClusterNode> {
        let node = self.places[node.slot()].node.as_deref();
        node.filter(|node| node.state.stopped_until <= self.env.now)
    }

    /// Which faults there are.
    pub(super) fn fault_scope(&self) -> FaultScope {
        self.plan.faults
    }

    /// The blocks that a node's host lets it have when it needs none itself.
    pub(super) fn own_max(&self, node: NodeNumber) -> u64 {
        self.places[node.slot()].own_max
    }

    /// Starts a node that is down.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(super) fn begin_run(&mut self, number: NodeNumber) -> Result<(), StoreTierError> {
        let place = &mut self.places[number.slot()];
        let Some(disk) = place.disk.take() else {
            return Ok(());
        };
        let run = NodeRun {
            node: number,
            run: place.runs,
        };
        place.runs += 1;
        let env = &mut self.env;
        let (slowest, fastest) = CLOCK_PERCENTS;
        let (wish, more) = place.role.wish();
        let shape = NodeShape {
            run,
            nodes: self.plan.nodes,
            incarnation: run.incarnation(self.seed),
            memory: MemoryShape {
                own_max: place.own_max,
                far_max: FAR_BLOCKS_MAX,
                seed: mixed(self.seed ^ u64::from(number.0) << 20 ^ u64::from(run.run)),
            },
            clock_percent: slowest + env.luck.below(u64::from(fastest - slowest + 1)) as u32,
            wish: (wish + env.luck.below(more + 1)) as u32,
        };
        let guest = ClusterGuest::new(place.role.habits(), SimRng::seeded(env.luck.bits()));
        env.network.links().turn_on(number);
        env.network.start(run);
        let node = ClusterNode::start(env, (shape, &self.leading), guest, disk)?;
        place.node = Some(Box::new(node));
        Ok(())
    }

    /// Ends the run of a node.
    pub(super) fn crash(&mut self, number: NodeNumber, kind: CrashKind) {
        let place = &mut self.places[number.slot()];
        let Some(node) = place.node.take() else {
            return;
        };
        let run = node.state.run;
        place.disk = Some(node.disk);
        let env = &mut self.env;
        env.note(number, TraceEvent::Fault("crashes", None));
        env.network.crash(env.now, run, kind);
        if kind == CrashKind::Host {
            env.network.links().turn_off(number);
        }
        if let Some(etcd) = &mut env.etcd {
            etcd.forget(run);
        }
        env.set_alarms();
        env.judges.content.restarted(number);
        env.judges.recall.over(number);
    }

    /// Does what is due next that no fault is. Returns the event if others must do something about it.
    pub(super) fn step(&mut self) -> Option<ClusterEvent> {
        let event = self.env.next()?;
        if let Some(until) = self.stopped_until(event) {
            self.env.at(until, event);
            return Some(event);
        }
        match event {
            ClusterEvent::Network(alarm) => self.network(alarm),
            ClusterEvent::Etcd(alarm) => self.etcd(alarm),
            ClusterEvent::LeadersLook => self.look_at_leaders(),
            ClusterEvent::Dialed(from, to) => self.dialed(from, to),
            ClusterEvent::Tick(run) => self.with(run, ClusterNode::tick),
            ClusterEvent::Carry(run) => self.with(run, ClusterNode::carry),
            ClusterEvent::ReadLate(run, read) => self.with(run, |node, env| {
                node.read_late(env, read);
            }),
            ClusterEvent::Guest(run) if !self.is_quiet => self.with(run, |node, env| {
                node.let_guest_act(env);
                node.arrange_guest(env);
            }),
            ClusterEvent::NeedOver(run) => {
                let own = self.own_max(run.node);
                self.with(run, |node, env| node.need_over(env, own));
            }
            ClusterEvent::Quiet => self.quieten(),
            ClusterEvent::Empty => {
                self.judge_quiet();
                self.empty();
            }
            _ => {}
        }
        Some(event)
    }

    /// When the node of an event goes on, if it is stopped.
    fn stopped_until(&self, event: ClusterEvent) -> Option<VirtualInstant> {
        let run = match event {
            ClusterEvent::Tick(run)
            | ClusterEvent::Carry(run)
            | ClusterEvent::ReadLate(run, _)
            | ClusterEvent::Guest(run)
            | ClusterEvent::NeedOver(run)
            | ClusterEvent::Dialed(run, _) => run,
            ClusterEvent::Network(NetworkAlarm::Arrival(id, side)) => {
                self.env.network.end_of(id, side)?
            }
            ClusterEvent::Network(NetworkAlarm::Unacknowledged(id, side)) => {
                self.env.network.end_of(id, side.other())?
            }
            ClusterEvent::Etcd(alarm) => self.env.etcd.as_ref()?.run_of(alarm)?,
            _ => return None,
        };
        let node = self.places[run.node.slot()].node.as_ref()?;
        let until = node.state.stopped_until;
        (node.state.run == run && until > self.env.now).then_some(until)
    }

    /// Lets a run do something, if it is not over.
    fn with(&mut self, run: NodeRun, act: impl FnOnce(&mut ClusterNode, &mut Environment)) {
        if let Some((node, env)) = self.running(run.node)
            && node.state.run == run
        {
            act(node, env);
        }
    }

    fn network(&mut self, alarm: NetworkAlarm) {
        let env = &mut self.env;
        let (id, side) = match alarm {
            NetworkAlarm::Arrival(id, side) | NetworkAlarm::Unacknowledged(id, side) => (id, side),
        };
        let (Some(to), Some(from)) = (
            env.network.end_of(id, side),
            env.network.end_of(id, side.other()),
        ) else {
            return;
        };
        let (deliveries, at, other) = match alarm {
            NetworkAlarm::Arrival(..) => (env.network.arrivals(env.now, id, side), to, from),
            NetworkAlarm::Unacknowledged(..) => {
                let ended = env.network.end_unacknowledged(env.now, id, side);
                (ended.map(|_| Delivery::End).into_iter().collect(), from, to)
            }
        };
        env.set_alarms();
        for delivery in deliveries {
            self.with(at, |node, env| node.deliver(env, (id, other), delivery));
        }
    }

    fn etcd(&mut self, alarm: EtcdAlarm) {
        let env = &mut self.env;
        let etcd = env.etcd.as_mut();
        let told = etcd.and_then(|etcd| etcd.wake(env.now, alarm));
        env.set_alarms();
        if let Some((run, answer)) = told {
            self.with(run, |node, env| node.etcd_answered(env, answer));
        }
    }

    /// An attempt to connect for control messages ends.
    fn dialed(&mut self, from: NodeRun, to: NodeNumber) {
        let accepts = self.env.network.accepts(from.node, to);
        let place = self.places[to.slot()].node.as_ref();
        let now = self.env.now;
        let answers = place.filter(|node| accepts && node.state.stopped_until <= now);
        let Some(peer) = answers.map(|node| node.state.run) else {
            let peer = from.node.peer(to);
            return self.with(from, |node, env| {
                node.tell(env, LendingInput::ConnectFailed { peer });
            });
        };
        let is_there = self.places[from.node.slot()].node.as_ref();
        if is_there.is_some_and(|node| node.state.run == from) {
            let id: ConnectionId = self.env.open([from, peer], ChannelClass::Control);
            let (ours, theirs) = (ConnectionOpener::ThisNode, ConnectionOpener::Peer);
            self.with(from, |node, env| node.connected(env, (id, ours), peer));
            self.with(peer, |node, env| node.connected(env, (id, theirs), from));
        }
    }

    /// Lets guests stop, and nobody wish for more than it has.
    fn quieten(&mut self) {
        self.is_quiet = true;
        for number in self.numbers() {
            if let Some((node, _)) = self.running(number) {
                node.wish = node.lending.borrows().borrowed();
            }
        }
    }

    /// Lets guests flush everything, and nobody wish for anything.
    fn empty(&mut self) {
        for number in self.numbers() {
            if let Some((node, env)) = self.running(number) {
                node.empty(env);
            }
        }
    }

    /// Judges what must hold when all has been quiet, and then empty.
    pub(super) fn judge_end(&mut self) {
        self.judge_quiet();
        for number in self.numbers() {
            if let Some((node, env)) = self.running(number) {
                let finding = node.books().check_empty();
                env.judge(number, finding);
            }
        }
    }

    /// Judges what must hold when all has been quiet.
    fn judge_quiet(&mut self) {
        self.judge_followers();
        for number in self.numbers() {
            let Some(node) = self.places[number.slot()].node.as_deref() else {
                continue;
            };
            let finding = node.books().check_quiet();
            self.env.judge(number, finding);
            for other in self.numbers().filter(|other| *other != number) {
                let Some(borrower) = self.places[other.slot()].node.as_deref() else {
                    continue;
                };
                let pair = PairBooks {
                    borrower: other,
                    lent: node.lending.loans().lent_to(number.peer(other)),
                    borrowed: borrower.lending.borrows().borrowed_of(other.peer(number)),
                };
                self.env.judge(number, pair.check_quiet());
            }
        }
    }
}
