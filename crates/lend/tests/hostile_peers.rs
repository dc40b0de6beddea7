//! A peer that is of another version, cluster or name, or that lies, is refused, counted, and logged once.

use std::time::Duration;

use sublet_lend::control::{
    Addresses, BlockCount, Borrow, ByeReason, Claim, ControlHello, ControlLine, ControlMessage,
    Grant, GrantLimit, LendReport, ReturnedRanges, Version, VersionRange,
};
use sublet_lend::ids::{
    ConnectionId, Incarnation, LeaseId, LentBlock, NodeName, PeerId, SessionId, SessionNonce,
};
use sublet_lend::index_set::{IndexRange, IndexRanges};
use sublet_lend::lender::{LendLimits, LendMax, LoanLookup, MaxEach};
use sublet_lend::node::{
    FreeReason, LendTo, LendingAction, LendingChange, LendingInput, LendingNode, LinkState,
    LoanShortfall, MemberSettings, NodeSettings, Presence, ShutCause, Topology,
};

const PEER: PeerId = PeerId(0);
const WIRE: ConnectionId = ConnectionId(1);

fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}

fn versions(lowest: u16, highest: u16) -> VersionRange {
    VersionRange::new(Version(lowest), Version(highest)).expect("a range")
}

/// One node with the member `b`, spoken to by hand.
struct Bench {
    node: LendingNode,
    now: Duration,
    actions: Vec<LendingAction>,
    connection: ConnectionId,
}

impl Bench {
    fn new(ours: VersionRange) -> Bench {
        let settings = NodeSettings {
            versions: ours,
            cluster: "west".parse().expect("a name"),
            node: name("a"),
            incarnation: Incarnation(1),
            addresses: Addresses::default(),
            members: vec![MemberSettings {
                name: name("b"),
                lend: LendTo::Allowed,
            }],
            limits: LendLimits {
                max: LendMax::Auto,
                max_each: MaxEach::Percent(100),
            },
            borrow_max: 100,
            drain: None,
            presence: Presence::Here,
            topology: Topology::FullMesh,
        };
        let node = LendingNode::new(Duration::ZERO, settings).expect("good settings");
        Bench {
            node,
            now: Duration::ZERO,
            actions: Vec::new(),
            connection: WIRE,
        }
    }

    /// A node that has exchanged hellos with `b`.
    fn up() -> Bench {
        let mut bench = Bench::new(versions(1, 1));
        bench.connect(1);
        bench.hear(hello(7));
        bench.actions.clear();
        bench
    }

    fn tell(&mut self, input: LendingInput) {
        self.node.handle(self.now, input);
        while let Some(action) = self.node.poll_action() {
            self.actions.push(action);
        }
    }

    fn connect(&mut self, connection: u64) {
        self.connection = ConnectionId(connection);
        let nonce = SessionNonce([1; 32]);
        self.tell(LendingInput::Connected {
            connection: self.connection,
            name: name("b"),
            nonce,
        });
    }

    fn hear(&mut self, message: ControlMessage) {
        self.tell(LendingInput::message(self.connection, message));
    }

    fn link(&self) -> LinkState {
        self.node.status().peers[0].link
    }

    fn shut_cause(&self) -> Option<ShutCause> {
        match self.link() {
            LinkState::Shut { cause, .. } => Some(cause),
            _ => None,
        }
    }

    fn byes(&self) -> Vec<ByeReason> {
        let reason = |action: &LendingAction| match action {
            LendingAction::Send {
                message: ControlMessage::Bye(bye),
                ..
            } => Some(bye.reason),
            _ => None,
        };
        self.actions.iter().filter_map(reason).collect()
    }

    fn shuts_logged(&self) -> usize {
        let is_shut = |action: &&LendingAction| matches!(action, LendingAction::Log(event) if matches!(event.change, LendingChange::Shut { .. }));
        self.actions.iter().filter(is_shut).count()
    }

    /// Lends two blocks to `b`.
    fn lend(&mut self) -> LeaseId {
        self.tell(LendingInput::Lendable { blocks: 10 });
        self.hear(ControlMessage::Borrow(Borrow {
            blocks: BlockCount::saturating(2),
        }));
        let blocks = [3, 4].map(|block| LentBlock { block, opening: 0 });
        self.tell(LendingInput::BlocksLent {
            peer: PEER,
            blocks: blocks.to_vec(),
            shortfall: LoanShortfall::NoMemory,
        });
        let (lease, blocks) = self.node.loans().leases_of(PEER).next().expect("a lease");
        assert_eq!(blocks, 2);
        lease
    }
}

fn spoken(versions: VersionRange, cluster: &str, node: &str, incarnation: u64) -> ControlMessage {
    ControlMessage::Hello(Box::new(ControlHello {
        versions,
        cluster: cluster.parse().expect("a name"),
        node: name(node),
        incarnation: Incarnation(incarnation),
        session: SessionId(9),
        nonce: SessionNonce([2; 32]),
        addresses: Addresses::default(),
    }))
}

fn hello(incarnation: u64) -> ControlMessage {
    spoken(versions(1, 1), "west", "b", incarnation)
}

fn ranges(first: u32, count: u32) -> IndexRanges {
    let range = IndexRange::new(first, count).expect("a range");
    IndexRanges::try_from(vec![range]).expect("one range")
}

#[test]
fn version_two_does_not_lend_to_version_one_and_says_so() {
    let mut bench = Bench::new(versions(1, 1));
    bench.connect(1);
    bench.hear(spoken(versions(2, 2), "west", "b", 7));
    let LinkState::Incompatible { ours, theirs, .. } = bench.link() else {
        panic!("{:?}", bench.link());
    };
    assert_eq!((ours, theirs), (versions(1, 1), versions(2, 2)));
    assert_eq!(bench.byes(), [ByeReason::Versions]);
    let mut newer = Bench::new(versions(1, 2));
    newer.connect(1);
    newer.hear(hello(7));
    assert!(matches!(
        newer.link(),
        LinkState::Up {
            version: Version(1),
            ..
        }
    ));
}

#[test]
fn other_clusters_other_names_and_strangers_are_refused() {
    for (cluster, node, cause) in [
        ("east", "b", ShutCause::Cluster),
        ("west", "c", ShutCause::Name),
    ] {
        let mut bench = Bench::new(versions(1, 1));
        bench.connect(1);
        bench.hear(spoken(versions(1, 1), cluster, node, 7));
        assert_eq!(
            (bench.shut_cause(), bench.byes()),
            (Some(cause), vec![ByeReason::Refused])
        );
        for connection in 2..50 {
            bench.connect(connection);
            bench.hear(hello(7));
        }
        assert_eq!((bench.shut_cause(), bench.shuts_logged()), (Some(cause), 1));
        bench.now = Duration::from_secs(61);
        bench.connect(60);
        bench.hear(hello(7));
        assert!(matches!(bench.link(), LinkState::Up { .. }));
    }
    let mut bench = Bench::new(versions(1, 1));
    for n in 0..1000 {
        let (connection, nonce) = (ConnectionId(n), SessionNonce([0; 32]));
        bench.tell(LendingInput::Connected {
            connection,
            name: name(&format!("x{}", n % 100)),
            nonce,
        });
    }
    let logged = bench
        .actions
        .iter()
        .filter(|action| matches!(action, LendingAction::LogStranger { .. }));
    assert_eq!((logged.count(), bench.node.status().strangers), (64, 1000));
    assert_eq!(
        bench
            .actions
            .iter()
            .filter(|action| matches!(action, LendingAction::Close { .. }))
            .count(),
        1000
    );
}

#[test]
fn who_breaks_the_protocol_is_shut_out_and_its_blocks_come_home() {
    let grant = |lease, first, count| {
        let count = BlockCount::saturating(count);
        ControlMessage::Grant(Grant {
            lease: LeaseId(lease),
            first,
            count,
            limit: None,
        })
    };
    for (message, cause) in [
        (hello(7), ShutCause::Protocol),
        (grant(1, 0, 5), ShutCause::Grant),
    ] {
        let mut bench = Bench::up();
        let lease = bench.lend();
        bench.hear(message);
        assert_eq!(
            (bench.shut_cause(), bench.byes()),
            (Some(cause), vec![ByeReason::Misbehaved])
        );
        let freed = bench.actions.iter().any(|action| {
            matches!(action, LendingAction::FreeBlocks { blocks, .. } if blocks.len() == 2)
        });
        assert!(freed && bench.node.loans().lent() == 0);
        let found = bench.node.loans().find(PEER, SessionId(1), lease, 0);
        assert_eq!(found, LoanLookup::Foreign);
    }
    let mut bench = Bench::up();
    bench.tell(LendingInput::Garbled { connection: WIRE });
    assert_eq!(bench.shut_cause(), Some(ShutCause::Garbled));
    let mut bench = Bench::new(versions(1, 1));
    bench.connect(1);
    bench.hear(ControlMessage::Borrow(Borrow {
        blocks: BlockCount::saturating(1),
    }));
    assert_eq!(bench.shut_cause(), Some(ShutCause::Protocol));
}

/// What knocks while it is shut out is counted, too.
#[test]
fn connections_of_a_peer_that_is_shut_out_are_counted() {
    let mut bench = Bench::up();
    bench.tell(LendingInput::Garbled { connection: WIRE });
    for n in 0..5 {
        bench.connect(100 + n);
    }
    assert_eq!(bench.shut_cause(), Some(ShutCause::Garbled));
    assert_eq!(bench.node.status().peers[0].counters.turned_away, 5);
}

#[test]
fn a_flood_is_shut_out_and_unknown_kinds_are_counted() {
    let mut bench = Bench::up();
    for n in 0..1900u64 {
        bench.now = Duration::from_millis(n);
        bench.tell(LendingInput::Heard {
            connection: WIRE,
            line: ControlLine::UnknownKind,
        });
    }
    assert!(matches!(bench.link(), LinkState::Up { .. }));
    assert_eq!(bench.node.status().peers[0].counters.lines_unknown, 1900);
    for _ in 0..2001 {
        bench.hear(ControlMessage::Report(LendReport::default()));
    }
    assert_eq!(
        (bench.shut_cause(), bench.shuts_logged()),
        (Some(ShutCause::Flood), 1)
    );
}

/// Bytes count whether or not they are lines: a line may be as long as sixty thousand, and TLS needs none.
#[test]
fn a_flood_of_bytes_is_shut_out() {
    let mut bench = Bench::up();
    let received = LendingInput::Received {
        connection: WIRE,
        bytes: 64 << 10,
    };
    for second in 0..3 {
        bench.now = Duration::from_secs(second);
        (0..100).for_each(|_| bench.tell(received.clone()));
        assert_eq!(bench.shut_cause(), None);
    }
    (0..29).for_each(|_| bench.tell(received.clone()));
    assert_eq!(
        (bench.shut_cause(), bench.shuts_logged()),
        (Some(ShutCause::Flood), 1)
    );
    // What an old connection brings is nobody's.
    (0..1000).for_each(|_| bench.tell(received.clone()));
    assert_eq!(bench.shuts_logged(), 1);
}

#[test]
fn foreign_leases_and_unasked_claims_change_nothing() {
    let mut bench = Bench::up();
    let lease = bench.lend();
    for lease in [LeaseId(0), LeaseId(lease.0 + 1), LeaseId(u32::MAX)] {
        bench.hear(ControlMessage::Return(ReturnedRanges {
            lease,
            ranges: ranges(0, 2),
        }));
    }
    let claim = Claim {
        lease,
        first: 0,
        end: 2,
        ranges: IndexRanges::default(),
    };
    bench.hear(ControlMessage::Claim(claim));
    assert_eq!(
        (
            bench.node.loans().lent(),
            bench.node.status().peers[0].counters.lines_late
        ),
        (2, 4)
    );
    let find = |session, lease, index| {
        bench
            .node
            .loans()
            .find(PEER, SessionId(session), lease, index)
    };
    assert!(matches!(find(1, lease, 1), LoanLookup::Lent(_)));
    assert_eq!(find(1, lease, 2), LoanLookup::Foreign);
    assert_eq!(find(1, LeaseId(lease.0 + 1), 0), LoanLookup::Foreign);
    assert_eq!(find(2, lease, 1), LoanLookup::Foreign);
    assert_eq!(
        bench.node.loans().find(PeerId(3), SessionId(1), lease, 1),
        LoanLookup::Foreign
    );
}

#[test]
fn an_old_lease_does_not_survive_a_new_incarnation() {
    let mut bench = Bench::up();
    let lease = bench.lend();
    bench.connect(2);
    bench.hear(hello(7));
    assert!(matches!(
        bench.node.loans().find(PEER, SessionId(2), lease, 0),
        LoanLookup::Lent(_)
    ));
    assert_eq!(
        bench.node.loans().find(PEER, SessionId(1), lease, 0),
        LoanLookup::Foreign
    );
    bench.connect(3);
    bench.hear(hello(8));
    assert_eq!(
        bench.node.loans().find(PEER, SessionId(3), lease, 0),
        LoanLookup::Gone
    );
    assert_eq!(bench.node.loans().lent(), 0);
}

#[test]
fn blocks_set_aside_for_a_lost_session_go_back() {
    let mut bench = Bench::up();
    bench.tell(LendingInput::Lendable { blocks: 10 });
    bench.hear(ControlMessage::Borrow(Borrow {
        blocks: BlockCount::saturating(2),
    }));
    bench.connect(2);
    bench.hear(hello(7));
    bench.hear(ControlMessage::Borrow(Borrow {
        blocks: BlockCount::saturating(2),
    }));
    let blocks = vec![LentBlock {
        block: 3,
        opening: 0,
    }];
    bench.actions.clear();
    bench.tell(LendingInput::BlocksLent {
        peer: PEER,
        blocks: blocks.clone(),
        shortfall: LoanShortfall::NoMemory,
    });
    let reason = FreeReason::NotGranted;
    assert_eq!(
        bench.actions,
        [LendingAction::FreeBlocks { blocks, reason }]
    );
    assert_eq!(bench.node.loans().lent(), 0);
    let refusals = &bench.node.status().peers[0].counters.refusals;
    assert_eq!(refusals.get(&GrantLimit::Busy), Some(&1));
}

/// The borrower asks for the rest again.
#[test]
fn a_turn_that_is_over_refuses_nothing() {
    let mut bench = Bench::up();
    bench.tell(LendingInput::Lendable { blocks: 10 });
    bench.hear(ControlMessage::Borrow(Borrow {
        blocks: BlockCount::saturating(3),
    }));
    bench.tell(LendingInput::BlocksLent {
        peer: PEER,
        blocks: vec![LentBlock {
            block: 3,
            opening: 0,
        }],
        shortfall: LoanShortfall::TurnOver,
    });
    let granted = bench.actions.iter().find_map(|action| match action {
        LendingAction::Send {
            message: ControlMessage::Grant(grant),
            ..
        } => Some((grant.count.get(), grant.limit)),
        _ => None,
    });
    assert_eq!(granted, Some((1, Some(GrantLimit::Turn))));
    let refusals = &bench.node.status().peers[0].counters.refusals;
    assert!(refusals.is_empty(), "{refusals:?}");
}

#[test]
fn the_store_s_mistakes_do_not_lend_a_block_twice() {
    let mut bench = Bench::up();
    bench.lend();
    bench.hear(ControlMessage::Borrow(Borrow {
        blocks: BlockCount::saturating(3),
    }));
    let blocks = [3, 3, 8].map(|block| LentBlock { block, opening: 1 });
    bench.actions.clear();
    bench.tell(LendingInput::BlocksLent {
        peer: PEER,
        blocks: blocks.to_vec(),
        shortfall: LoanShortfall::NoMemory,
    });
    assert_eq!(bench.node.loans().lent(), 3);
    let short = bench.actions.iter().any(|action| {
        let LendingAction::Send {
            message: ControlMessage::Grant(grant),
            ..
        } = action
        else {
            return false;
        };
        (grant.first, grant.count.get(), grant.limit) == (2, 1, Some(GrantLimit::Spare))
    });
    assert!(short, "{:?}", bench.actions);
}
