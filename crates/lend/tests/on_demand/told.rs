//! The node `m`, spoken to by hand.

use std::time::Duration;

use sublet_lend::control::{
    Addresses, BlockCount, Borrow, BorrowAdvice, ControlHello, ControlMessage, Grant, LendReport,
    VERSION_RANGE, ViewPart, ViewQuery,
};
use sublet_lend::ids::{
    ConnectionId, Incarnation, LeaseId, NodeName, PeerId, SessionId, SessionNonce, Term,
};
use sublet_lend::index_set::{IndexRange, IndexRanges};
use sublet_lend::lender::{LendLimits, LendMax, MaxEach};
use sublet_lend::node::{
    LeaderNaming, LendTo, LendingAction, LendingInput, LendingNode, LinkState, MemberSettings,
    NodeSettings, OnDemandSettings, Presence, ReturnReason, Topology,
};
use sublet_policy::placement::{AdviceReason, PlacementChoice};
pub(crate) fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn member(text: &str) -> MemberSettings {
    MemberSettings {
        name: name(text),
        lend: LendTo::Allowed,
    }
}

pub(crate) fn advice(term: u64, lender: &str, blocks: u32) -> ControlMessage {
    ControlMessage::Advise(Box::new(BorrowAdvice {
        term: Term(term),
        borrower: name("m"),
        lender: name(lender),
        blocks: BlockCount::saturating(blocks),
        why: AdviceReason::Other,
        shortage: None,
    }))
}

pub(crate) fn settings(members: &[&str], topology: Topology) -> NodeSettings {
    NodeSettings {
        versions: VERSION_RANGE,
        cluster: "west".parse().expect("a name"),
        node: name("m"),
        incarnation: Incarnation(1),
        addresses: Addresses::default(),
        members: members.iter().map(|text| member(text)).collect(),
        limits: LendLimits {
            max: LendMax::Auto,
            max_each: MaxEach::Percent(100),
        },
        borrow_max: 100,
        drain: None,
        presence: Presence::Here,
        topology,
    }
}

/// The node `m` with members that say what the test lets them say.
pub(crate) struct Told {
    pub(crate) node: LendingNode,
    pub(crate) now: Duration,
    /// Whom it called and did not reach yet.
    pub(crate) called: Vec<String>,
    pub(crate) closed: Vec<ConnectionId>,
    pub(crate) asked: Vec<(ConnectionId, u32)>,
    pub(crate) pinged: Vec<ConnectionId>,
    /// How many blocks the store was to give back, request by request.
    pub(crate) returns: Vec<u32>,
    /// What it asked its leader about the cluster.
    pub(crate) questions: Vec<ViewQuery>,
    /// The parts that it answered such questions with.
    pub(crate) answers: Vec<ViewPart>,
    pub(crate) connections: u64,
}

impl Told {
    pub(crate) fn new(leader: LeaderNaming, members: &[&str]) -> Told {
        let topology = Topology::OnDemand(OnDemandSettings {
            leader,
            placement: PlacementChoice::default(),
            rack: None,
            seed: 5,
        });
        let settings = settings(members, topology);
        Told {
            node: LendingNode::new(Duration::ZERO, settings).expect("good settings"),
            now: Duration::ZERO,
            called: Vec::new(),
            closed: Vec::new(),
            asked: Vec::new(),
            pinged: Vec::new(),
            returns: Vec::new(),
            questions: Vec::new(),
            answers: Vec::new(),
            connections: 0,
        }
    }

    pub(crate) fn peer(&self, text: &str) -> PeerId {
        self.node.peer_named(&name(text)).expect("it was a member")
    }

    pub(crate) fn tell(&mut self, input: LendingInput) {
        self.node.handle(self.now, input);
        while let Some(action) = self.node.poll_action() {
            match action {
                LendingAction::Connect { peer } => {
                    let name = self.node.peer_name(peer).expect("a member");
                    self.called.push(name.as_str().to_owned());
                }
                LendingAction::Close { connection } => self.closed.push(connection),
                LendingAction::Send {
                    connection,
                    message: ControlMessage::Borrow(Borrow { blocks }),
                } => self.asked.push((connection, blocks.get())),
                LendingAction::Send {
                    connection,
                    message: ControlMessage::Ping(_),
                } => self.pinged.push(connection),
                LendingAction::Send {
                    message: ControlMessage::AskView(query),
                    ..
                } => self.questions.push(*query),
                LendingAction::Send {
                    message: ControlMessage::View(part),
                    ..
                } => self.answers.push(*part),
                LendingAction::ChooseReturns { blocks, .. } => self.returns.push(blocks),
                _ => {}
            }
        }
    }

    /// Lets time pass in ticks, while all that are connected give signs of life.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(100);
            self.tell(LendingInput::Tick);
        }
    }

    /// As [`Told::pass`]. These connections stay alive.
    pub(crate) fn pass_with(&mut self, time: Duration, alive: &[ConnectionId]) {
        let end = self.now + time;
        while self.now < end {
            for connection in alive {
                let pong = ControlMessage::Pong(sublet_lend::control::Pong { tag: 0 });
                self.tell(LendingInput::message(*connection, pong));
            }
            self.pass(Duration::from_millis(100));
        }
    }

    pub(crate) fn next_connection(&mut self) -> (ConnectionId, SessionNonce) {
        self.connections += 1;
        (ConnectionId(self.connections), SessionNonce([1; 32]))
    }

    /// A call reaches its peer, without a hello yet.
    pub(crate) fn reached(&mut self, text: &str) -> ConnectionId {
        let called = self.called.iter().position(|called| called == text);
        self.called.remove(called.expect("it was called"));
        let (connection, nonce) = self.next_connection();
        let name = name(text);
        self.tell(LendingInput::Connected {
            connection,
            name,
            nonce,
        });
        connection
    }

    /// A peer calls, without a hello yet.
    pub(crate) fn accepted(&mut self, text: &str) -> ConnectionId {
        let (connection, nonce) = self.next_connection();
        let name = name(text);
        self.tell(LendingInput::Accepted {
            connection,
            name,
            nonce,
        });
        connection
    }

    pub(crate) fn greet(&mut self, connection: ConnectionId, text: &str, incarnation: u64) {
        let hello = ControlMessage::Hello(Box::new(ControlHello {
            versions: VERSION_RANGE,
            cluster: "west".parse().expect("a name"),
            node: name(text),
            incarnation: Incarnation(incarnation),
            session: SessionId(connection.0),
            nonce: SessionNonce([2; 32]),
            addresses: Addresses::default(),
        }));
        self.tell(LendingInput::message(connection, hello));
    }

    /// A call reaches its peer, and both understand each other.
    pub(crate) fn up(&mut self, text: &str) -> ConnectionId {
        let connection = self.reached(text);
        self.greet(connection, text, 7);
        connection
    }

    pub(crate) fn hear(&mut self, connection: ConnectionId, message: ControlMessage) {
        self.tell(LendingInput::message(connection, message));
    }

    pub(crate) fn offer(&mut self, connection: ConnectionId, blocks: u32) {
        let report = LendReport {
            lendable: BlockCount::saturating(blocks),
            ..LendReport::default()
        };
        self.hear(connection, ControlMessage::Report(report));
    }

    pub(crate) fn grant(&mut self, connection: ConnectionId, blocks: u32) {
        self.grant_from(connection, 0, blocks);
    }

    pub(crate) fn grant_from(&mut self, connection: ConnectionId, first: u32, blocks: u32) {
        let grant = Grant {
            lease: LeaseId(u32::from(blocks > 0)),
            first,
            count: BlockCount::saturating(blocks),
            limit: None,
        };
        self.hear(connection, ControlMessage::Grant(grant));
    }

    /// The store gives borrowed blocks back.
    pub(crate) fn give_back(&mut self, text: &str, first: u32, blocks: u32) {
        let range = IndexRange::new(first, blocks).expect("some indices");
        self.tell(LendingInput::BlocksReturned {
            peer: self.peer(text),
            lease: LeaseId(1),
            ranges: IndexRanges::try_from(vec![range]).expect("one range"),
            reason: ReturnReason::Leaving,
        });
    }

    pub(crate) fn want(&mut self, blocks: u32) {
        self.tell(LendingInput::Wanted { blocks });
    }

    pub(crate) fn link(&self, text: &str) -> LinkState {
        let peers = self.node.status().peers;
        let found = peers.iter().find(|peer| peer.name == name(text));
        found.expect("it is shown").link
    }

    pub(crate) fn ignored(&self) -> u64 {
        let following = self.node.status().following;
        following.expect("it has connections on demand").ignored
    }
}
