//! A network in virtual time: connections of ordered streams over links that delay, stall, break and part.
//!
//! ```text
//!  connector ──chunk──chunk──▶ acceptor     one stream for each direction; a chunk never overtakes another of its stream
//!            ◀──chunk──────────             chunks of other connections may
//! ```
//!
//! It behaves as TCP does. What was sent into a link that is cut waits, and comes when the link heals. If it is not
//! acknowledged for a second, the sender's end of the connection is over, and the other end learns of that when it next
//! sends something that arrives.

mod alarms;
mod connection;
mod links;

use std::collections::{BTreeMap, BTreeSet};

use sublet_lend::ids::ConnectionId;

use super::ids::{NodeNumber, NodeRun};
use super::messages::{ChannelClass, Payload};
use super::traffic::ControlTraffic;
use crate::rng::SimRng;
use crate::virtual_time::{VirtualDuration, VirtualInstant};
pub(super) use alarms::NetworkAlarm;
use alarms::NetworkAlarms;
pub(super) use connection::{CloseKind, Delivery, Side};
use connection::{Connection, StreamChunk};
pub(super) use links::LinkFault;
use links::LinkTable;

/// Data that is not acknowledged for so long ends the sender's end (TCP_USER_TIMEOUT).
const UNACKNOWLEDGED_MAX: VirtualDuration = VirtualDuration::secs(1);

/// How often a sender tries again what was lost.
const RETRANSMIT_EVERY: VirtualDuration = VirtualDuration::micros(50_000);

/// How quick the links are that nothing disturbs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkSpeed {
    /// The median time of a small message from end to end.
    pub delay: VirtualDuration,
    /// The deviation of the delay's logarithm.
    pub deviation: f64,
    /// Bytes a second of one direction of a link.
    pub bandwidth: u64,
}

impl Default for NetworkSpeed {
    /// A rack: 60 µs and 10 Gbit/s.
    fn default() -> NetworkSpeed {
        NetworkSpeed {
            delay: VirtualDuration::micros(60),
            deviation: 0.4,
            bandwidth: 1_250_000_000,
        }
    }
}

/// Bytes that left their senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SentBytes {
    pub(super) control: u64,
    pub(super) pages: u64,
}

/// The network.
pub(super) struct Network {
    speed: NetworkSpeed,
    luck: SimRng,
    links: LinkTable,
    connections: BTreeMap<ConnectionId, Connection>,
    /// Runs that have not ended.
    alive: BTreeSet<NodeRun>,
    next: u64,
    alarms: NetworkAlarms,
    pub(super) sent: SentBytes,
    /// Of each node.
    pub(super) traffic: ControlTraffic,
}

impl Network {
    /// A network without a connection.
    pub(super) fn new(speed: NetworkSpeed, luck: SimRng) -> Network {
        Network {
            speed,
            luck,
            links: LinkTable::default(),
            connections: BTreeMap::new(),
            alive: BTreeSet::new(),
            next: 1,
            alarms: NetworkAlarms::default(),
            sent: SentBytes::default(),
            traffic: ControlTraffic::default(),
        }
    }

    /// The links, to disturb and to heal.
    pub(super) fn links(&mut self) -> &mut LinkTable {
        &mut self.links
    }

    /// Alarms that were set since the last call. Each must be given back at its time.
    pub(super) fn take_alarms(&mut self) -> Vec<(VirtualInstant, NetworkAlarm)> {
        self.alarms.take()
    }

    /// How long a small message takes now from one node to another.
    pub(super) fn delay(&mut self, from: NodeNumber, to: NodeNumber) -> VirtualDuration {
        let spread = libm::exp(self.speed.deviation * self.luck.normal());
        let slowness = f64::from(self.links.slowness(from, to));
        VirtualDuration((self.speed.delay.0 as f64 * spread * slowness) as u64)
    }

    /// Returns whether an attempt to connect succeeds now.
    pub(super) fn accepts(&self, from: NodeNumber, to: NodeNumber) -> bool {
        self.links.passes(from, to) && self.links.passes(to, from) && !self.links.refuses(to)
    }

    /// Lets a run take part.
    pub(super) fn start(&mut self, run: NodeRun) {
        self.alive.insert(run);
    }

    /// Opens a connection between two runs. The first is the connector. If the other accepts none, the connector learns
    /// of it by what it sends.
    pub(super) fn open(&mut self, ends: [NodeRun; 2], class: ChannelClass) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next += 1;
        let mut connection = Connection::new(ends, class);
        if !self.alive.contains(&ends[1]) || self.links.refuses(ends[1].node) {
            connection.close(Side::Acceptor);
        }
        self.connections.insert(id, connection);
        id
    }

    /// Sends something from one end. An end that is closed sends nothing.
    pub(super) fn send(
        &mut self,
        now: VirtualInstant,
        id: ConnectionId,
        from: NodeRun,
        payload: Payload,
    ) {
        let Some((side, class)) = self.open_side(id, from) else {
            return;
        };
        let bytes = payload.bytes();
        match class {
            ChannelClass::Control => {
                self.sent.control += bytes;
                if let Some(connection) = self.connections.get(&id) {
                    self.traffic.carried(connection.ends, bytes);
                }
            }
            ChannelClass::Read | ChannelClass::Write => self.sent.pages += bytes,
        }
        self.push(now, id, side.other(), Some(payload));
    }

    /// Closes one end. The other learns of it when the stream has ended.
    pub(super) fn close(
        &mut self,
        now: VirtualInstant,
        id: ConnectionId,
        end: NodeRun,
        kind: CloseKind,
    ) {
        let Some((side, _)) = self.open_side(id, end) else {
            return;
        };
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.close(side);
        if kind == CloseKind::Abort {
            connection.stream_to(side.other()).drop_unsent(now);
        }
        self.push(now, id, side.other(), None);
        self.forget_if_over(id);
    }

    /// Ends all connections of a run at once: with an end to each stream if the node's kernel lives, or in silence.
    pub(super) fn crash(&mut self, now: VirtualInstant, run: NodeRun, kind: CrashKind) {
        self.alive.remove(&run);
        let of_run = self.connections.iter();
        let of_run = of_run.filter(|(_, connection)| connection.side_of(run).is_some());
        let ids: Vec<ConnectionId> = of_run.map(|(id, _)| *id).collect();
        for id in ids {
            match (kind, self.open_side(id, run)) {
                (CrashKind::Process, _) => self.close(now, id, run, CloseKind::Abort),
                (CrashKind::Host, Some((side, _))) => {
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.close(side);
                    }
                    self.forget_if_over(id);
                }
                (CrashKind::Host, None) => {}
            }
        }
    }

    /// Breaks a connection amid the messages that are under way. Both ends learn of it.
    pub(super) fn break_amid(&mut self, now: VirtualInstant, id: ConnectionId) {
        for side in [Side::Connector, Side::Acceptor] {
            let share = self.luck.share();
            let Some(connection) = self.connections.get_mut(&id) else {
                return;
            };
            if connection.is_open(side) {
                connection.stream_to(side).cut(now, share);
                self.push(now, id, side, None);
            }
        }
    }

    /// The open connections, with their ends, the oldest first.
    pub(super) fn connections(
        &self,
    ) -> impl Iterator<Item = (ConnectionId, [NodeRun; 2], ChannelClass)> {
        let all = self.connections.iter();
        all.map(|(id, connection)| (*id, connection.ends, connection.class))
    }

    /// The run at an end of a connection.
    pub(super) fn end_of(&self, id: ConnectionId, side: Side) -> Option<NodeRun> {
        self.connections
            .get(&id)
            .map(|connection| connection.end(side))
    }

    /// What arrives at one end now, in order.
    pub(super) fn arrivals(
        &mut self,
        now: VirtualInstant,
        id: ConnectionId,
        to: Side,
    ) -> Vec<Delivery> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Vec::new();
        };
        let (from, at) = (connection.end(to.other()).node, connection.end(to).node);
        let (passes, is_acknowledged) = (self.links.passes(from, at), self.links.passes(at, from));
        let stream = connection.stream_to(to);
        stream.is_awaited = false;
        if stream.next_due().is_none() {
            return Vec::new();
        }
        if !passes {
            if stream.note_unacknowledged(now) {
                let alarm = NetworkAlarm::Unacknowledged(id, to);
                self.alarms.set(now + UNACKNOWLEDGED_MAX, alarm);
            }
            stream.is_awaited = true;
            let alarm = NetworkAlarm::Arrival(id, to);
            self.alarms.set(now + RETRANSMIT_EVERY, alarm);
            return Vec::new();
        }
        let came = stream.take_due(now);
        if !is_acknowledged && !came.is_empty() && stream.note_unacknowledged(now) {
            let alarm = NetworkAlarm::Unacknowledged(id, to);
            self.alarms.set(now + UNACKNOWLEDGED_MAX, alarm);
        }
        self.await_next(id, to);
        self.hand_over(now, id, to, came)
    }

    /// Ends the sender's end if what it sent is still not acknowledged. Returns the sender's run then.
    pub(super) fn end_unacknowledged(
        &mut self,
        now: VirtualInstant,
        id: ConnectionId,
        to: Side,
    ) -> Option<NodeRun> {
        let connection = self.connections.get_mut(&id)?;
        let (from, at) = (connection.end(to.other()), connection.end(to));
        let passes = self.links.passes(from.node, at.node) && self.links.passes(at.node, from.node);
        let stream = connection.stream_to(to);
        let since = stream.unacknowledged_since?;
        if passes {
            stream.unacknowledged_since = None;
            return None;
        }
        if now < since + UNACKNOWLEDGED_MAX {
            let alarm = NetworkAlarm::Unacknowledged(id, to);
            self.alarms.set(since + UNACKNOWLEDGED_MAX, alarm);
            return None;
        }
        stream.clear();
        let was_open = connection.is_open(to.other());
        connection.close(to.other());
        self.forget_if_over(id);
        was_open.then_some(from)
    }

    /// Gives what came to its end. An end that is closed answers what comes with the end of the connection.
    fn hand_over(
        &mut self,
        now: VirtualInstant,
        id: ConnectionId,
        to: Side,
        came: Vec<Option<Payload>>,
    ) -> Vec<Delivery> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Vec::new();
        };
        if !connection.is_open(to) {
            let is_asked = came.iter().any(Option::is_some);
            if is_asked && connection.is_open(to.other()) {
                self.push(now, id, to.other(), None);
            }
            return Vec::new();
        }
        let ends = came.iter().any(Option::is_none);
        let payloads = came.into_iter().map_while(|payload| payload);
        let mut deliveries: Vec<Delivery> = payloads.map(Delivery::Payload).collect();
        if ends {
            connection.close(to);
            deliveries.push(Delivery::End);
            self.forget_if_over(id);
        }
        deliveries
    }

    /// Puts something, or the end of the stream, on its way to one end.
    fn push(&mut self, now: VirtualInstant, id: ConnectionId, to: Side, what: Option<Payload>) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let (from, at) = (connection.end(to.other()).node, connection.end(to).node);
        let bytes = what.as_ref().map_or(0, Payload::bytes);
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.speed.bandwidth.max(1));
        let transfer = VirtualDuration(nanos as u64);
        let leaves_at = self.links.reserve(now, (from, at), transfer);
        let due = leaves_at + transfer + self.delay(from, at);
        let chunk = StreamChunk {
            leaves_at,
            due,
            what,
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.stream_to(to).push(chunk);
        }
        self.await_next(id, to);
    }

    /// Sets the alarm for what arrives next at one end, unless there is one.
    fn await_next(&mut self, id: ConnectionId, to: Side) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let stream = connection.stream_to(to);
        if !stream.is_awaited
            && let Some(due) = stream.next_due()
        {
            stream.is_awaited = true;
            self.alarms.set(due, NetworkAlarm::Arrival(id, to));
        }
    }

    fn open_side(&self, id: ConnectionId, end: NodeRun) -> Option<(Side, ChannelClass)> {
        let connection = self.connections.get(&id)?;
        let side = connection.side_of(end)?;
        connection.is_open(side).then_some((side, connection.class))
    }

    fn forget_if_over(&mut self, id: ConnectionId) {
        let is_over = |connection: &Connection| connection.is_over();
        if self.connections.get(&id).is_some_and(is_over) {
            self.connections.remove(&id);
        }
    }
}

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrashKind {
    /// Its process ends, and its kernel tells the peers.
    Process,
    /// Its host loses power, and tells nobody.
    Host,
}

#[cfg(test)]
mod tests;
