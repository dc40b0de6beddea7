//! What is around the nodes: time, the network, the judges and the trace.

use sublet_etcd::member::StoreRequest;
use sublet_lend::ids::ConnectionId;

use super::etcd_service::{EtcdAlarm, EtcdService};
use super::ids::{NodeNumber, NodeRun};
use super::judges::ClusterJudges;
use super::messages::{ChannelClass, PageMessage, Payload};
use super::mutation::Mutation;
use super::network::{CloseKind, Network, NetworkAlarm};
use super::tally::ClusterTally;
use super::trace::{ClusterTrace, TraceEvent};
use super::verdict::Finding;
use crate::rng::SimRng;
use crate::virtual_time::{EventQueue, VirtualDuration, VirtualInstant};

/// Something that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterEvent {
    /// The network has something to do.
    Network(NetworkAlarm),
    /// etcd has something to do.
    Etcd(EtcdAlarm),
    /// A node reaches etcd again.
    EtcdReached(NodeNumber),
    /// The judges look at who leads.
    LeadersLook,
    /// A node looks at what is due.
    Tick(NodeRun),
    /// An attempt to connect for control messages ends.
    Dialed(NodeRun, NodeNumber),
    /// A node sends pages that wait in its outbox.
    Carry(NodeRun),
    /// A read may be late.
    ReadLate(NodeRun, u64),
    /// The guest of a node does something.
    Guest(NodeRun),
    /// The host of a node needs no memory any more.
    NeedOver(NodeRun),
    /// The next fault.
    Fault,
    /// Some nodes wish for other amounts.
    WishesChange,
    /// A node starts again.
    Restart(NodeNumber),
    /// A link heals: both its directions.
    LinkHeals(NodeNumber, NodeNumber),
    /// A node accepts connections again.
    Admits(NodeNumber),
    /// A lender is honest again.
    Honest(NodeRun),
    /// Everything heals.
    Heal,
    /// Guests stop.
    Quiet,
    /// Guests flush everything, and nobody wishes for memory.
    Empty,
    /// The run is over.
    End,
}

/// What is around the nodes.
pub(super) struct Environment {
    pub(super) now: VirtualInstant,
    agenda: EventQueue<ClusterEvent>,
    pub(super) network: Network,
    /// `None` if the run has none.
    pub(super) etcd: Option<EtcdService>,
    /// Who was elected last.
    pub(super) last_leader: Option<NodeNumber>,
    pub(super) judges: ClusterJudges,
    pub(super) trace: ClusterTrace,
    pub(super) tally: ClusterTally,
    /// Random numbers that belong to no part in particular.
    pub(super) luck: SimRng,
    pub(super) mutation: Option<Mutation>,
}

impl Environment {
    /// The beginning of a run.
    pub(super) fn new(
        network: Network,
        judges: ClusterJudges,
        trace: ClusterTrace,
        luck: SimRng,
        mutation: Option<Mutation>,
    ) -> Environment {
        Environment {
            now: VirtualInstant::START,
            agenda: EventQueue::default(),
            network,
            etcd: None,
            last_leader: None,
            judges,
            trace,
            tally: ClusterTally::default(),
            luck,
            mutation,
        }
    }

    /// Returns whether the run leaves this rule out.
    pub(super) fn leaves_out(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }

    /// Lets something happen later.
    pub(super) fn after(&mut self, wait: VirtualDuration, event: ClusterEvent) {
        self.at(self.now + wait, event);
    }

    /// Lets something happen at a time.
    pub(super) fn at(&mut self, at: VirtualInstant, event: ClusterEvent) {
        self.agenda.schedule(at, event);
    }

    /// Goes on to what happens next.
    pub(super) fn next(&mut self) -> Option<ClusterEvent> {
        let (at, event) = self.agenda.pop()?;
        self.now = self.now.max(at);
        self.tally.events += 1;
        Some(event)
    }

    /// Opens a connection. The first end is the connector.
    pub(super) fn open(&mut self, ends: [NodeRun; 2], class: ChannelClass) -> ConnectionId {
        self.network.open(ends, class)
    }

    /// Sends control lines.
    pub(super) fn send_lines(&mut self, from: NodeRun, id: ConnectionId, lines: Vec<u8>) {
        self.network.send(self.now, id, from, Payload::Lines(lines));
        self.set_alarms();
    }

    /// Sends a message about pages.
    pub(super) fn send_pages(&mut self, from: NodeRun, id: ConnectionId, message: PageMessage) {
        self.network.send(self.now, id, from, message.into());
        self.set_alarms();
    }

    /// Closes one end of a connection.
    pub(super) fn close(&mut self, end: NodeRun, id: ConnectionId, kind: CloseKind) {
        self.network.close(self.now, id, end, kind);
        self.set_alarms();
    }

    /// A run asks etcd for something.
    pub(super) fn ask_etcd(&mut self, run: NodeRun, request: StoreRequest) {
        if let Some(etcd) = &mut self.etcd {
            etcd.ask(self.now, run, request);
        }
        self.set_alarms();
    }

    /// Puts the alarms of the network and of etcd on the agenda.
    pub(super) fn set_alarms(&mut self) {
        for (at, alarm) in self.network.take_alarms() {
            self.agenda.schedule(at, ClusterEvent::Network(alarm));
        }
        let etcd = self.etcd.as_mut();
        for (at, alarm) in etcd.map(EtcdService::take_alarms).unwrap_or_default() {
            self.agenda.schedule(at, ClusterEvent::Etcd(alarm));
        }
    }

    /// Notes what happened.
    pub(super) fn note(&mut self, node: NodeNumber, what: TraceEvent) {
        self.trace.note(self.now, node, what);
    }

    /// Takes what a judge found at a node.
    pub(super) fn judge(&mut self, node: NodeNumber, finding: Option<Finding>) {
        self.judges.take(self.now, node, finding);
    }
}
