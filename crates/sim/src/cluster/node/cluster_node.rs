//! One run of a node: what happens to it, and what it does then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use sublet_lend::control::{Addresses, ControlLine, ControlMessage, LineReader, VERSION_RANGE};
use sublet_lend::ids::{ConnectionId, Incarnation, PeerId, SessionNonce};
use sublet_lend::lender::{LendLimits, LendMax, MaxEach};
use sublet_lend::node::{
    LendTo, LendingInput, LendingNode, MemberSettings, NodeSettings, Presence, RecallReason,
    TICK_EVERY, Topology,
};
use sublet_store::EvictAheadScope;

use super::clock::NodeClock;
use super::courier::Courier;
use super::etcd_member::EtcdMember;
use super::fetcher::{FetchedPage, Fetcher};
use super::guest::{ClusterGuest, GuestDisk, GuestTools, finish_reads};
use super::memory::{MemoryShape, NodeMemory};
use super::node_leading::NodeLeading;
use super::page_server::{Honesty, PageServer};
use super::routes::LeaseRoutes;
use super::state::NodeState;
use super::store_work::{StoreWork, taken_back};
use crate::cluster::environment::{ClusterEvent, Environment};
use crate::cluster::ids::{NodeNumber, NodeRun};
use crate::cluster::judges::NodeBooks;
use crate::cluster::leadership_plan::LeadershipPlan;
use crate::cluster::messages::{PageMessage, Payload};
use crate::cluster::mutation::Mutation;
use crate::cluster::network::Delivery;
use crate::cluster::trace::TraceEvent;
use crate::machine::tier_store::StoreTierError;
use crate::virtual_time::VirtualInstant;

/// How often the chores are done and the want of memory is measured.
const CHORES_EVERY: Duration = Duration::from_secs(1);

/// The notice that a host gives which asks its borrowers, instead of taking what it needs.
const ASKING_NOTICE: Duration = Duration::from_secs(2);

/// How a node is made.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct NodeShape {
    /// The run.
    pub(in crate::cluster) run: NodeRun,
    /// Nodes of the cluster.
    pub(in crate::cluster) nodes: u16,
    /// The run's random number.
    pub(in crate::cluster) incarnation: Incarnation,
    /// Its memory.
    pub(in crate::cluster) memory: MemoryShape,
    /// How fast its clock runs, in hundredths.
    pub(in crate::cluster) clock_percent: u32,
    /// The blocks that it wishes to borrow.
    pub(in crate::cluster) wish: u32,
}

/// Who opened a control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum ConnectionOpener {
    ThisNode,
    Peer,
}

/// A control connection.
pub(super) struct ControlLink {
    reader: LineReader,
    pub(super) peer: NodeRun,
}

/// One run of a node.
pub(in crate::cluster) struct ClusterNode {
    pub(in crate::cluster) state: NodeState,
    pub(in crate::cluster) lending: LendingNode,
    pub(in crate::cluster) guest: ClusterGuest,
    pub(in crate::cluster) disk: GuestDisk,
    /// The blocks that it wishes to have of others in all.
    pub(in crate::cluster) wish: u32,
    pub(super) control: BTreeMap<ConnectionId, ControlLink>,
    pub(super) courier: Courier,
    pub(super) fetcher: Fetcher,
    pub(super) server: PageServer,
    pub(super) work: StoreWork,
    pub(super) leading: NodeLeading,
    /// What happened and the lending node was not told yet.
    pub(super) inputs: VecDeque<LendingInput>,
    chores_at: Option<Duration>,
    /// Peers that were ever granted something.
    pub(super) borrowers: BTreeSet<PeerId>,
    /// The first run of each peer that this node met.
    first_met: BTreeMap<PeerId, Incarnation>,
}

impl ClusterNode {
    /// A node that starts now.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(in crate::cluster) fn start(
        env: &mut Environment,
        (shape, plan): (NodeShape, &LeadershipPlan),
        guest: ClusterGuest,
        disk: GuestDisk,
    ) -> Result<ClusterNode, StoreTierError> {
        let NodeShape { run, memory, .. } = shape;
        let topology = plan.topology(memory.seed);
        let lending = LendingNode::new(Duration::ZERO, settings(&shape, topology));
        let mut node = ClusterNode {
            state: NodeState {
                run,
                incarnation: shape.incarnation,
                clock: NodeClock::started(env.now, shape.clock_percent),
                stopped_until: env.now,
                memory: NodeMemory::new(memory)?,
                sessions: BTreeMap::new(),
                routes: LeaseRoutes::default(),
            },
            lending: lending.expect("names that differ, and no more members than there may be"),
            guest,
            disk,
            wish: shape.wish,
            control: BTreeMap::new(),
            courier: Courier::default(),
            fetcher: Fetcher::default(),
            server: PageServer::default(),
            work: StoreWork::new(memory.far_max),
            leading: NodeLeading::new(plan, || {
                EtcdMember::new(run.node.name(), shape.incarnation, memory.seed)
            }),
            inputs: VecDeque::new(),
            chores_at: None,
            borrowers: BTreeSet::new(),
            first_met: BTreeMap::new(),
        };
        env.note(run.node, TraceEvent::Started(run));
        env.tally.starts += 1;
        node.begin_with_etcd(shape.nodes);
        env.after(node.guest.pause(), ClusterEvent::Guest(run));
        node.tick(env);
        Ok(node)
    }

    /// Does what is due at a tick, in the daemon's order.
    pub(in crate::cluster) fn tick(&mut self, env: &mut Environment) {
        let local = self.state.clock.local(env.now);
        let now = self.state.second(env.now);
        let next = self.state.clock.true_span(TICK_EVERY);
        env.after(next, ClusterEvent::Tick(self.state.run));
        if self.chores_at.is_none_or(|at| local >= at) {
            self.chores_at = Some(local + CHORES_EVERY);
            self.state.memory.do_chores(now);
            let (state, lending) = (&mut self.state, &self.lending);
            let inputs = self.work.measure_wanted(state, env, lending, self.wish);
            self.inputs.extend(inputs);
            self.inputs.push_back(self.state.memory.arena());
        }
        self.follow_etcd(env);
        self.give_back(env);
        let host = RecallReason::Host;
        self.inputs.extend(taken_back(&self.state, env, host));
        self.inputs.extend(self.work.returned(&mut self.state, env));
        let blocks = self.state.memory.store.lendable();
        self.inputs.push_back(LendingInput::Lendable { blocks });
        let liars = self.fetcher.take_liars().into_iter();
        self.inputs
            .extend(liars.map(|peer| LendingInput::Distrust { peer }));
        self.inputs.push_back(LendingInput::Tick);
        self.settle(env);
        self.courier.look(&mut self.state, env);
        self.fetcher.look(&self.state, env);
        self.state
            .memory
            .worker
            .evict_ahead(EvictAheadScope::All, now);
        self.state.memory.set_sending(self.fetcher.sending(local));
        self.courier.wake_if_waiting(&self.state, env);
        self.watch_leader(env);
        self.judge(env);
    }

    /// The control connections that are open.
    pub(in crate::cluster) fn control_connections(&self) -> usize {
        self.control.len()
    }

    /// Gives the host back what is above the limit, unless the run asks borrowers for that.
    fn give_back(&mut self, env: &mut Environment) {
        let store = &self.state.memory.store;
        if !env.leaves_out(Mutation::RecallAsks) || store.lent() == 0 {
            self.state.memory.fit(self.state.second(env.now));
        }
        let (node, held, limit) = (self.state.node(), store.held(), store.limit());
        let finding = env.judges.recall.check(node, env.now, held, limit);
        env.judge(node, finding);
    }

    /// Sends pages that wait.
    pub(in crate::cluster) fn carry(&mut self, env: &mut Environment) {
        self.courier.carry(&mut self.state, env);
    }

    /// Gives a read up, if it is not answered.
    pub(in crate::cluster) fn read_late(&mut self, env: &mut Environment, read: u64) {
        let fetched = self.fetcher.late(&self.state, env, read);
        self.finish(env, fetched);
    }

    /// Lets the guest do something.
    pub(in crate::cluster) fn let_guest_act(&mut self, env: &mut Environment) {
        let (guest, mut tools) = self.guest_tools();
        guest.act(&mut tools, env);
        self.courier.wake_if_waiting(&self.state, env);
    }

    /// Lets the guest flush all its pages, and wishes for nothing.
    pub(in crate::cluster) fn empty(&mut self, env: &mut Environment) {
        self.wish = 0;
        let (guest, mut tools) = self.guest_tools();
        guest.flush_all(&mut tools, env);
    }

    /// Says when the guest acts next.
    pub(in crate::cluster) fn arrange_guest(&mut self, env: &mut Environment) {
        env.after(self.guest.pause(), ClusterEvent::Guest(self.state.run));
    }

    /// Lets the host have all but so many blocks of memory, at once.
    pub(in crate::cluster) fn need(&mut self, env: &mut Environment, own: u64) {
        env.note(self.state.node(), TraceEvent::Limit(own));
        self.state.memory.set_own(own);
        env.judges.recall.needed(self.state.node(), env.now);
        if env.leaves_out(Mutation::RecallAsks) {
            let blocks = self.lending.loans().lent();
            let within = ASKING_NOTICE;
            return self.tell(env, LendingInput::Recall { blocks, within });
        }
        self.state.memory.fit(self.state.second(env.now));
        let taken = taken_back(&self.state, env, RecallReason::Host);
        self.inputs.extend(taken);
        self.settle(env);
    }

    /// The host needs no memory any more.
    pub(in crate::cluster) fn need_over(&mut self, env: &mut Environment, own: u64) {
        env.note(self.state.node(), TraceEvent::Limit(own));
        env.judges.recall.over(self.state.node());
        self.state.memory.set_own(own);
    }

    /// Stops the node until a time.
    pub(in crate::cluster) fn stop_until(&mut self, until: VirtualInstant) {
        self.state.stopped_until = self.state.stopped_until.max(until);
    }

    /// Lets the node alter one page in so many that it gives to borrowers, or none.
    pub(in crate::cluster) fn set_lies(&mut self, one_in: Option<u64>) {
        self.server.honesty = one_in.map_or(Honesty::Honest, Honesty::Lies);
    }

    /// Tells the lending node something.
    pub(in crate::cluster) fn tell(&mut self, env: &mut Environment, input: LendingInput) {
        self.inputs.push_back(input);
        self.settle(env);
    }

    /// A control connection is there.
    pub(in crate::cluster) fn connected(
        &mut self,
        env: &mut Environment,
        (connection, opener): (ConnectionId, ConnectionOpener),
        peer: NodeRun,
    ) {
        let reader = LineReader::default();
        self.control
            .insert(connection, ControlLink { reader, peer });
        let word = env.luck.bits().to_le_bytes();
        let nonce = std::array::from_fn(|n| word[n % word.len()]);
        let (name, nonce) = (peer.node.name(), SessionNonce(nonce));
        let input = match opener {
            ConnectionOpener::ThisNode => LendingInput::Connected {
                connection,
                name,
                nonce,
            },
            ConnectionOpener::Peer => LendingInput::Accepted {
                connection,
                name,
                nonce,
            },
        };
        self.tell(env, input);
    }

    /// Takes what a connection brings.
    pub(in crate::cluster) fn deliver(
        &mut self,
        env: &mut Environment,
        (connection, from): (ConnectionId, NodeRun),
        delivery: Delivery,
    ) {
        match delivery {
            Delivery::Payload(Payload::Lines(bytes)) => self.read_lines(env, connection, &bytes),
            Delivery::Payload(Payload::Pages(message)) => {
                self.page_message(env, (connection, from), *message);
            }
            Delivery::End => self.connection_ended(env, connection),
        }
    }

    /// What the node counts now.
    pub(in crate::cluster) fn books(&self) -> NodeBooks {
        let slots = self.state.routes.all().into_iter();
        let slots = slots.chain(self.state.routes.ended());
        let outbound = slots.map(|slot| self.state.memory.store.lease_figures(slot).outbound);
        NodeBooks {
            lent_in_table: self.lending.loans().lent().into(),
            borrowed_in_table: self.lending.borrows().borrowed().into(),
            outbound_pages: outbound.sum::<u32>().into(),
            ..self.state.memory.books()
        }
    }

    /// Lets the judge of books look, when the lending node knows what the store took.
    fn judge(&mut self, env: &mut Environment) {
        while let Some(taken) = taken_back(&self.state, env, RecallReason::Host) {
            self.tell(env, taken);
        }
        let finding = self.books().check();
        env.judge(self.state.node(), finding);
    }

    fn guest_tools(&mut self) -> (&mut ClusterGuest, GuestTools<'_>) {
        let tools = GuestTools {
            state: &mut self.state,
            fetcher: &mut self.fetcher,
            disk: &mut self.disk,
        };
        (&mut self.guest, tools)
    }

    pub(super) fn finish(&mut self, env: &mut Environment, fetched: Vec<FetchedPage>) {
        let (_, mut tools) = self.guest_tools();
        finish_reads(&mut tools, env, fetched);
        self.courier.wake_if_waiting(&self.state, env);
    }

    fn read_lines(&mut self, env: &mut Environment, connection: ConnectionId, bytes: &[u8]) {
        let received = LendingInput::Received {
            connection,
            bytes: bytes.len(),
        };
        self.tell(env, received);
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(link) = self.control.get_mut(&connection) else {
                return;
            };
            let peer = link.peer.node;
            match link.reader.read(&mut rest) {
                Ok(None) => {}
                Ok(Some(ControlLine::UnknownKind)) | Err(_) => {
                    self.control.remove(&connection);
                    self.tell(env, LendingInput::Garbled { connection });
                }
                Ok(Some(ControlLine::Message(message))) => {
                    env.note(self.state.node(), TraceEvent::Heard(message.kind(), peer));
                    if let Some(message) = self.as_heard(env, peer, message) {
                        self.hear(env, (connection, peer), message);
                    }
                }
            }
        }
    }

    /// The message as the lending node hears it: as it came, unless the run leaves a rule out.
    fn as_heard(
        &mut self,
        env: &Environment,
        from: NodeNumber,
        message: ControlMessage,
    ) -> Option<ControlMessage> {
        match message {
            ControlMessage::Audit(_) | ControlMessage::Claim(_)
                if env.leaves_out(Mutation::AuditIgnored) =>
            {
                None
            }
            ControlMessage::Hello(mut hello) if env.leaves_out(Mutation::IncarnationIgnored) => {
                let peer = self.state.node().peer(from);
                let met = self.first_met.entry(peer).or_insert(hello.incarnation);
                hello.incarnation = *met;
                Some(ControlMessage::Hello(hello))
            }
            other => Some(other),
        }
    }

    fn page_message(
        &mut self,
        env: &mut Environment,
        (connection, from): (ConnectionId, NodeRun),
        message: PageMessage,
    ) {
        let loans = self.lending.loans();
        match message {
            PageMessage::Hello(hello) => {
                self.server
                    .hello(&self.state, env, (connection, from), hello);
            }
            PageMessage::Read(read) => {
                self.server
                    .read(&self.state, env, (connection, loans), &read);
            }
            PageMessage::Write(write) => {
                self.server
                    .write(&self.state, env, (connection, loans), &write);
            }
            PageMessage::Data(data) => {
                let state = &mut self.state;
                let fetched = self.fetcher.answered(state, env, connection, &data);
                self.finish(env, fetched);
            }
            PageMessage::Done(done) => self.courier.answered(&self.state, env, connection, done),
        }
    }

    fn connection_ended(&mut self, env: &mut Environment, connection: ConnectionId) {
        if self.control.remove(&connection).is_some() {
            return self.tell(env, LendingInput::Ended { connection });
        }
        self.server.ended(connection);
        self.courier.ended(&mut self.state, env, connection);
        let fetched = self.fetcher.ended(&self.state, env, connection);
        self.finish(env, fetched);
    }
}

fn settings(shape: &NodeShape, topology: Topology) -> NodeSettings {
    let node = shape.run.node;
    let others = (0..shape.nodes)
        .map(NodeNumber)
        .filter(|other| *other != node);
    let members = others.map(|other| MemberSettings {
        name: other.name(),
        lend: LendTo::Allowed,
    });
    NodeSettings {
        versions: VERSION_RANGE,
        cluster: Default::default(),
        node: node.name(),
        incarnation: shape.incarnation,
        addresses: Addresses::default(),
        members: members.collect(),
        limits: LendLimits {
            max: LendMax::Auto,
            max_each: MaxEach::Percent(75),
        },
        borrow_max: shape.memory.far_max,
        drain: None,
        presence: Presence::Here,
        topology,
    }
}
