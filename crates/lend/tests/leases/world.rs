//! Nodes, their stores, and a network of ordered links that delays, cuts and heals, in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use sublet_lend::control::{Addresses, ControlMessage, LineReader, VERSION_RANGE, encode_line};
use sublet_lend::ids::{
    ConnectionId, Incarnation, LentBlock, NodeName, PeerId, SessionId, SessionNonce,
};
use sublet_lend::lender::{LendLimits, LendMax, MaxEach};
use sublet_lend::node::{
    LeaderNaming, LendTo, LendingInput, LendingNode, MemberSettings, NodeSettings,
    OnDemandSettings, Presence, RecallReason, ReturnReason, TICK_EVERY, Topology,
};
use sublet_policy::placement::PlacementChoice;

use crate::judges::Judges;
use crate::luck::Luck;
use crate::store::FakeStore;

pub(crate) const BLOCKS: usize = 64;

/// One run of a node.
pub(crate) struct Member {
    pub(crate) node: LendingNode,
    pub(crate) store: FakeStore,
    pub(crate) incarnation: Incarnation,
    started: Duration,
    /// Its clock runs at this many hundredths of the true speed.
    speed: u32,
    pub(crate) stopped_until: Duration,
    pub(crate) readers: BTreeMap<ConnectionId, LineReader>,
    pub(crate) sessions: BTreeMap<PeerId, SessionId>,
    pub(crate) wanted: u32,
}

impl Member {
    fn local(&self, now: Duration) -> Duration {
        (now - self.started) * self.speed / 100
    }
}

/// One end's direction of a connection.
#[derive(Default)]
struct Pipe {
    due: VecDeque<(Duration, Vec<u8>)>,
    /// When the end of the connection arrives.
    closed: Option<Duration>,
}

pub(crate) struct Connection {
    /// Who connects, and who is connected to.
    pub(crate) ends: [usize; 2],
    /// To each end.
    pipes: [Pipe; 2],
}

pub(crate) enum Happening {
    Tick(usize, Incarnation),
    Dialed(usize, Incarnation, usize),
    Arrives(ConnectionId, usize),
    Answer(usize, Incarnation, LendingInput),
    Take(usize, Incarnation, u32, RecallReason),
}

pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) members: Vec<Member>,
    pub(crate) luck: Luck,
    pub(crate) judges: Judges,
    pub(crate) partitions: BTreeSet<(usize, usize)>,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    agenda: BTreeMap<(Duration, u64), Happening>,
    sequence: u64,
    next_connection: u64,
    /// Whether stores answer at once and always.
    pub(crate) is_calm: bool,
    wiring: Wiring,
    /// What each node has sent, in bytes of control lines.
    pub(crate) sent_bytes: BTreeMap<usize, usize>,
}

/// With whom nodes have connections, and who leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// Each with each.
    FullMesh,
    /// On demand, with a leader that the settings name.
    Leader(usize),
    /// On demand, with nobody named.
    Leaderless,
}

impl Wiring {
    fn topology(self, seed: u64) -> Topology {
        let leader = match self {
            Wiring::FullMesh => return Topology::FullMesh,
            Wiring::Leader(leader) => LeaderNaming::Fixed(name_of(leader)),
            Wiring::Leaderless => LeaderNaming::Nobody,
        };
        Topology::OnDemand(OnDemandSettings {
            leader,
            placement: PlacementChoice::default(),
            rack: None,
            seed,
        })
    }
}

pub(crate) fn name_of(member: usize) -> NodeName {
    ["a", "b", "c", "d", "e", "f"][member]
        .parse()
        .expect("a name")
}

/// The peer's place in the list of members of a node.
pub(crate) fn peer_of(of: usize, peer: usize) -> PeerId {
    PeerId(if peer < of { peer } else { peer - 1 } as u16)
}

pub(crate) fn member_of(of: usize, peer: PeerId) -> usize {
    let place = usize::from(peer.0);
    if place < of { place } else { place + 1 }
}

impl World {
    pub(crate) fn new(seed: u64, members: usize) -> World {
        World::wired(seed, members, Wiring::FullMesh)
    }

    pub(crate) fn wired(seed: u64, members: usize, wiring: Wiring) -> World {
        let mut world = World {
            now: Duration::ZERO,
            members: Vec::new(),
            luck: Luck::new(seed),
            judges: Judges::default(),
            partitions: BTreeSet::new(),
            connections: BTreeMap::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            next_connection: 1,
            is_calm: false,
            wiring,
            sent_bytes: BTreeMap::new(),
        };
        for n in 0..members {
            let member = world.born(n, members);
            world.members.push(member);
            world.arrange(n);
        }
        world
    }

    fn born(&mut self, of: usize, members: usize) -> Member {
        let incarnation = Incarnation(self.luck.next());
        let others = (0..members).filter(|n| *n != of);
        let settings = NodeSettings {
            versions: VERSION_RANGE,
            cluster: "test".parse().expect("a name"),
            node: name_of(of),
            incarnation,
            addresses: Addresses::default(),
            members: others
                .map(|n| MemberSettings {
                    name: name_of(n),
                    lend: LendTo::Allowed,
                })
                .collect(),
            limits: LendLimits {
                max: LendMax::Auto,
                max_each: MaxEach::Percent(75),
            },
            borrow_max: 200,
            drain: None,
            presence: Presence::Here,
            topology: self.wiring.topology(incarnation.0),
        };
        Member {
            node: LendingNode::new(Duration::ZERO, settings).expect("good settings"),
            store: FakeStore::new(BLOCKS),
            incarnation,
            started: self.now,
            speed: 80 + self.luck.below(41) as u32,
            stopped_until: Duration::ZERO,
            readers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            wanted: 0,
        }
    }

    fn arrange(&mut self, member: usize) {
        let incarnation = self.members[member].incarnation;
        self.after(Duration::ZERO, Happening::Tick(member, incarnation));
    }

    pub(crate) fn after(&mut self, delay: Duration, happening: Happening) {
        self.sequence += 1;
        self.agenda
            .insert((self.now + delay, self.sequence), happening);
    }

    pub(crate) fn delay(&mut self) -> Duration {
        if self.is_calm || !self.luck.one_in(20) {
            self.luck.millis(0, 5)
        } else {
            self.luck.millis(0, 400)
        }
    }

    /// Ends the run of a node, and begins another one. Its peers hear of it, or not.
    pub(crate) fn restart(&mut self, member: usize) {
        let is_silent = self.luck.one_in(2);
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            let ends = self.connections[&id].ends;
            if ends.contains(&member) {
                if is_silent {
                    self.connections.remove(&id);
                } else {
                    self.close(id, member);
                }
            }
        }
        self.members[member] = self.born(member, self.members.len());
        self.arrange(member);
    }

    /// Cuts the connections of a pair. Both ends learn of it.
    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            if let Some(connection) = self.connections.get(&id)
                && connection.ends.contains(&a)
                && connection.ends.contains(&b)
            {
                self.connections.remove(&id);
                self.tell(a, LendingInput::Ended { connection: id });
                self.tell(b, LendingInput::Ended { connection: id });
            }
        }
    }

    pub(crate) fn close(&mut self, id: ConnectionId, by: usize) {
        let delay = self.delay();
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let to = usize::from(connection.ends[0] == by);
        let pipe = &mut connection.pipes[to];
        let after_all = pipe.due.back().map_or(now, |(due, _)| *due);
        pipe.closed = Some(after_all.max(now + delay));
        let wait = after_all.max(now + delay) - now;
        self.after(wait, Happening::Arrives(id, to));
    }

    pub(crate) fn send(&mut self, from: usize, id: ConnectionId, message: &ControlMessage) {
        let delay = self.delay();
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let to = usize::from(connection.ends[0] == from);
        let pipe = &mut connection.pipes[to];
        let due = pipe
            .due
            .back()
            .map_or(now, |(due, _)| *due)
            .max(now + delay);
        let mut line = Vec::new();
        encode_line(message, &mut line);
        *self.sent_bytes.entry(from).or_default() += line.len();
        pipe.due.push_back((due, line));
        self.after(due - now, Happening::Arrives(id, to));
    }

    fn is_parted(&self, a: usize, b: usize) -> bool {
        self.partitions.contains(&(a.min(b), a.max(b)))
    }

    /// Does the next thing on the agenda.
    pub(crate) fn step(&mut self) {
        let ((at, _), happening) = self.agenda.pop_first().expect("nodes tick for ever");
        self.now = self.now.max(at);
        match happening {
            Happening::Tick(member, incarnation) => self.tick(member, incarnation),
            Happening::Dialed(from, incarnation, to) => self.dialed(from, incarnation, to),
            Happening::Arrives(id, to) => self.arrives(id, to),
            Happening::Answer(member, incarnation, input) => {
                if self.members[member].incarnation == incarnation {
                    self.tell(member, input);
                }
            }
            Happening::Take(member, incarnation, blocks, reason) => {
                if self.members[member].incarnation == incarnation {
                    self.take(member, blocks, reason);
                }
            }
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self
            .agenda
            .first_key_value()
            .is_some_and(|((at, _), _)| *at <= end)
        {
            self.step();
        }
        self.now = end;
    }

    /// Whether a store may set fewer blocks aside than it has. Calm stories on demand ask for the lender of all.
    pub(crate) fn lends_by_turns(&self) -> bool {
        !self.is_calm || self.wiring == Wiring::FullMesh
    }

    /// How many connections two nodes have with each other.
    pub(crate) fn connections_of(&self, a: usize, b: usize) -> usize {
        let of_both =
            |connection: &&Connection| connection.ends.contains(&a) && connection.ends.contains(&b);
        self.connections.values().filter(of_both).count()
    }

    fn tick(&mut self, member: usize, incarnation: Incarnation) {
        if self.members[member].incarnation != incarnation {
            return;
        }
        let stopped = self.members[member].stopped_until.saturating_sub(self.now);
        self.after(
            TICK_EVERY.max(stopped),
            Happening::Tick(member, incarnation),
        );
        if stopped > Duration::ZERO {
            return;
        }
        let (lendable, blocks) = (
            self.members[member].store.free() / 2,
            self.members[member].wanted,
        );
        self.tell(member, LendingInput::Lendable { blocks: lendable });
        self.tell(member, LendingInput::Wanted { blocks });
        self.tell(member, LendingInput::Tick);
    }

    fn dialed(&mut self, from: usize, incarnation: Incarnation, to: usize) {
        if self.members[from].incarnation != incarnation {
            return;
        }
        let is_stopped = self.members[to].stopped_until > self.now;
        if self.is_parted(from, to) || is_stopped {
            let peer = peer_of(from, to);
            return self.tell(from, LendingInput::ConnectFailed { peer });
        }
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(
            connection,
            Connection {
                ends: [from, to],
                pipes: Default::default(),
            },
        );
        for (end, other) in [(from, to), (to, from)] {
            let nonce = SessionNonce([self.luck.next() as u8; 32]);
            self.members[end]
                .readers
                .insert(connection, LineReader::default());
            let name = name_of(other);
            let input = match end == from {
                true => LendingInput::Connected {
                    connection,
                    name,
                    nonce,
                },
                false => LendingInput::Accepted {
                    connection,
                    name,
                    nonce,
                },
            };
            self.tell(end, input);
        }
    }

    fn arrives(&mut self, id: ConnectionId, to: usize) {
        let now = self.now;
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let [a, b] = connection.ends;
        let member = connection.ends[to];
        if self.is_parted(a, b) || self.members[member].stopped_until > now {
            return self.after(Duration::from_millis(50), Happening::Arrives(id, to));
        }
        let pipe = &mut self.connections.get_mut(&id).expect("it is there").pipes[to];
        let mut bytes = Vec::new();
        while pipe.due.front().is_some_and(|(due, _)| *due <= now) {
            bytes.extend(pipe.due.pop_front().into_iter().flat_map(|(_, line)| line));
        }
        let is_closed = pipe.due.is_empty() && pipe.closed.is_some_and(|at| at <= now);
        self.read(member, id, &bytes);
        if is_closed {
            self.connections.remove(&id);
            self.tell(member, LendingInput::Ended { connection: id });
        }
    }

    /// Gives bytes to a node, cut anyhow.
    fn read(&mut self, member: usize, connection: ConnectionId, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let cut = 1 + self.luck.below(rest.len().min(100) as u64) as usize;
            let (mut piece, after) = rest.split_at(cut);
            rest = after;
            while !piece.is_empty() {
                let Some(reader) = self.members[member].readers.get_mut(&connection) else {
                    return;
                };
                if let Some(line) = reader.read(&mut piece).expect("nodes send good lines") {
                    self.tell(member, LendingInput::Heard { connection, line });
                }
            }
        }
    }

    /// The host of a node takes lent blocks, whoever has them.
    pub(crate) fn take(&mut self, member: usize, most: u32, reason: RecallReason) {
        let peers = (0..self.members.len() as u16 - 1).map(PeerId);
        let node = &self.members[member].node;
        let lent: Vec<LentBlock> = peers
            .flat_map(|peer| node.loans().blocks_of(peer))
            .collect();
        let mut blocks = Vec::new();
        for block in lent {
            if (blocks.len() as u32) < most && (self.is_calm || !self.luck.one_in(3)) {
                blocks.push(block);
            }
        }
        for block in &blocks {
            self.members[member].store.take_home(*block);
        }
        let before = self.members[member].node.loans().lent();
        self.tell(
            member,
            LendingInput::BlocksTaken {
                blocks: blocks.clone(),
                reason,
            },
        );
        let after = self.members[member].node.loans().lent();
        assert_eq!(
            before - after,
            blocks.len() as u32,
            "a recall at once waited"
        );
    }

    /// A borrower gives back what it does not read.
    pub(crate) fn give_back(
        &mut self,
        member: usize,
        peer: PeerId,
        most: u32,
        reason: ReturnReason,
    ) {
        let Member { store, .. } = &mut self.members[member];
        if let Some((lease, ranges)) = store.empty_some(&mut self.luck, peer, most) {
            self.tell(
                member,
                LendingInput::BlocksReturned {
                    peer,
                    lease,
                    ranges,
                    reason,
                },
            );
        }
    }

    pub(crate) fn tell(&mut self, member: usize, input: LendingInput) {
        let now = self.members[member].local(self.now);
        self.members[member].node.handle(now, input);
        while let Some(action) = self.members[member].node.poll_action() {
            self.carry_out(member, action);
        }
        self.judge(member);
    }

    fn judge(&mut self, member: usize) {
        let World {
            judges, members, ..
        } = self;
        judges.check(member, &members[member]);
    }
}
