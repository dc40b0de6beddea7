//! What a node lends to whom and when it asks others, spoken to by hand.

use std::time::Duration;

use sublet_lend::control::{
    Addresses, BlockCount, Borrow, ControlHello, ControlMessage, Grant, GrantLimit, LendReport,
    VERSION_RANGE,
};
use sublet_lend::ids::{
    ConnectionId, Incarnation, LeaseId, LentBlock, PeerId, SessionId, SessionNonce,
};
use sublet_lend::index_set::{IndexRange, IndexRanges};
use sublet_lend::lender::{LendLimits, LendMax, MaxEach};
use sublet_lend::node::{
    LendTo, LendingAction, LendingInput, LendingNode, LoanShortfall, MemberSettings, NodeSettings,
    Presence, RecallReason, ReturnReason, Topology,
};

const B: PeerId = PeerId(0);
const C: PeerId = PeerId(1);

/// The node `a` with the members `b` and `c`, which say what the test lets them say.
struct Told {
    node: LendingNode,
    now: Duration,
    /// What was asked of whom and not taken yet.
    asked: Vec<(PeerId, u32)>,
    granted: Vec<(u32, Option<GrantLimit>)>,
    taken_back: u32,
    next_block: u32,
    sessions: u64,
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn auto(percent: u8) -> LendLimits {
    LendLimits {
        max: LendMax::Auto,
        max_each: MaxEach::Percent(percent),
    }
}

impl Told {
    fn new(limits: LendLimits) -> Told {
        let members = ["b", "c"].map(|name| MemberSettings {
            name: name.parse().expect("a name"),
            lend: LendTo::Allowed,
        });
        let settings = NodeSettings {
            versions: VERSION_RANGE,
            cluster: "west".parse().expect("a name"),
            node: "a".parse().expect("a name"),
            incarnation: Incarnation(1),
            addresses: Addresses::default(),
            members: members.to_vec(),
            limits,
            borrow_max: 100,
            drain: None,
            presence: Presence::Here,
            topology: Topology::FullMesh,
        };
        let node = LendingNode::new(Duration::ZERO, settings).expect("good settings");
        let mut told = Told {
            node,
            now: Duration::ZERO,
            asked: Vec::new(),
            granted: Vec::new(),
            taken_back: 0,
            next_block: 0,
            sessions: 0,
        };
        told.connect(B, Incarnation(7));
        told.connect(C, Incarnation(8));
        told
    }

    /// A peer connects anew, as another run if its incarnation is another.
    fn connect(&mut self, peer: PeerId, incarnation: Incarnation) {
        let name = ["b", "c"][usize::from(peer.0)];
        self.sessions += 1;
        let connection = ConnectionId(2 * self.sessions + u64::from(peer.0));
        self.tell(LendingInput::Connected {
            connection,
            name: name.parse().expect("a name"),
            nonce: SessionNonce([1; 32]),
        });
        let hello = ControlMessage::Hello(Box::new(ControlHello {
            versions: VERSION_RANGE,
            cluster: "west".parse().expect("a name"),
            node: name.parse().expect("a name"),
            incarnation,
            session: SessionId(self.sessions),
            nonce: SessionNonce([2; 32]),
            addresses: Addresses::default(),
        }));
        self.tell(LendingInput::message(connection, hello));
    }

    fn tell(&mut self, input: LendingInput) {
        self.node.handle(self.now, input);
        while let Some(action) = self.node.poll_action() {
            match action {
                LendingAction::LendBlocks { peer, blocks } => self.lend(peer, blocks),
                LendingAction::TakeLent { blocks, .. } => self.taken_back += blocks,
                LendingAction::Send {
                    connection,
                    message: ControlMessage::Borrow(borrow),
                } => {
                    let peer = PeerId(connection.0 as u16 % 2);
                    self.asked.push((peer, borrow.blocks.get()));
                }
                LendingAction::Send {
                    message: ControlMessage::Grant(grant),
                    ..
                } => self.granted.push((grant.count.get(), grant.limit)),
                _ => {}
            }
        }
    }

    fn lend(&mut self, peer: PeerId, blocks: u32) {
        let first = self.next_block;
        self.next_block += blocks;
        let block = |block| LentBlock { block, opening: 0 };
        let blocks = (first..self.next_block).map(block).collect();
        self.tell(LendingInput::BlocksLent {
            peer,
            blocks,
            shortfall: LoanShortfall::NoMemory,
        });
    }

    /// The newest connection of a peer.
    fn hear(&mut self, peer: PeerId, message: ControlMessage) {
        let newest = (1..=self.sessions).rev().map(|n| 2 * n + u64::from(peer.0));
        for connection in newest {
            self.tell(LendingInput::message(
                ConnectionId(connection),
                message.clone(),
            ));
        }
    }

    /// A peer asks for blocks. Returns what it is granted.
    fn ask(&mut self, peer: PeerId, blocks: u32) -> (u32, Option<GrantLimit>) {
        let blocks = BlockCount::saturating(blocks);
        self.hear(peer, ControlMessage::Borrow(Borrow { blocks }));
        self.granted.pop().expect("an answer")
    }

    fn lendable(&mut self, blocks: u32) {
        self.tell(LendingInput::Lendable { blocks });
        self.tell(LendingInput::Tick);
    }

    fn want(&mut self, blocks: u32) {
        self.tell(LendingInput::Wanted { blocks });
        self.tell(LendingInput::Tick);
    }

    /// A peer says that it would lend so many blocks.
    fn offer(&mut self, peer: PeerId, blocks: u32) {
        let lendable = BlockCount::saturating(blocks);
        let report = LendReport {
            lendable,
            ..LendReport::default()
        };
        self.hear(peer, ControlMessage::Report(report));
    }

    /// A peer grants the first blocks of a lease.
    fn grant(&mut self, peer: PeerId, lease: u32, blocks: u32) {
        let grant = Grant {
            lease: LeaseId(lease),
            first: 0,
            count: BlockCount::saturating(blocks),
            limit: None,
        };
        self.hear(peer, ControlMessage::Grant(grant));
    }

    fn take(&mut self, blocks: u32, reason: RecallReason) {
        let all = self.node.loans().blocks_of(B);
        let blocks = all.take(blocks as usize).collect();
        self.tell(LendingInput::BlocksTaken { blocks, reason });
    }
}

#[test]
fn a_borrower_gets_its_share_of_one_moment_however_often_it_asks_between_two_measurements() {
    let mut a = Told::new(auto(50));
    a.lendable(124);
    let asked = [36, 46, 40, 40].map(|blocks| a.ask(B, blocks));
    let max_each = Some(GrantLimit::MaxEach);
    assert_eq!(
        asked,
        [(36, None), (26, max_each), (0, max_each), (0, max_each)]
    );
    assert_eq!(a.node.status().lendable, 62);
    a.lendable(62);
    assert_eq!(a.ask(B, 1), (0, max_each));
    assert_eq!(a.ask(C, 100), (62, Some(GrantLimit::Spare)));
}

#[test]
fn half_of_one_block_is_one_block() {
    let mut a = Told::new(LendLimits {
        max: LendMax::Blocks(1),
        max_each: MaxEach::Percent(50),
    });
    a.lendable(10);
    assert_eq!(a.ask(B, 5), (1, Some(GrantLimit::Max)));
    assert_eq!(a.ask(C, 5), (0, Some(GrantLimit::Max)));
}

#[test]
fn a_node_that_has_all_back_asks_others_at_once() {
    let mut a = Told::new(auto(100));
    a.lendable(10);
    assert_eq!(a.ask(B, 10), (10, None));
    a.offer(C, 50);
    a.want(30);
    assert_eq!((a.taken_back, a.asked.len()), (10, 0));
    a.take(10, RecallReason::Wanted);
    assert_eq!(a.asked, [(C, 20)]);
}

#[test]
fn a_want_of_one_block_asks_others_but_takes_nothing_back() {
    let mut a = Told::new(auto(100));
    a.offer(C, 50);
    a.lendable(10);
    assert_eq!(a.ask(B, 10), (10, None));
    a.want(1);
    assert_eq!((a.taken_back, a.asked.len()), (0, 0));
    let mut a = Told::new(auto(100));
    a.offer(C, 50);
    a.want(1);
    assert_eq!(a.asked, [(C, 1)]);
}

#[test]
fn a_node_that_needed_its_blocks_lends_nothing_new_for_ten_seconds() {
    let mut a = Told::new(auto(100));
    a.lendable(64);
    assert_eq!(a.ask(B, 40), (40, None));
    a.now = secs(1);
    a.take(32, RecallReason::Host);
    a.lendable(56);
    assert_eq!(a.ask(C, 10), (0, Some(GrantLimit::Wants)));
    assert_eq!(a.node.status().lendable, 0);
    a.now = Duration::from_millis(10_900);
    a.lendable(56);
    assert_eq!(a.ask(C, 10), (0, Some(GrantLimit::Wants)));
    a.now = secs(11);
    a.lendable(56);
    assert_eq!(a.ask(C, 10), (10, None));
}

#[test]
fn what_is_lost_or_returned_is_not_asked_for_again_before_the_want_is_measured() {
    let mut a = Told::new(auto(100));
    a.offer(B, 50);
    a.want(20);
    assert_eq!(std::mem::take(&mut a.asked), [(B, 20)]);
    a.grant(B, 1, 20);
    a.offer(C, 50);
    let range = IndexRange::new(0, 4).expect("a range");
    a.tell(LendingInput::BlocksReturned {
        peer: B,
        lease: LeaseId(1),
        ranges: IndexRanges::try_from(vec![range]).expect("one range"),
        reason: ReturnReason::NoRoom,
    });
    assert_eq!(a.asked, []);
    a.connect(B, Incarnation(9));
    assert_eq!((a.node.borrows().borrowed(), a.asked.len()), (0, 0));
    a.want(20);
    assert_eq!(a.asked, [(C, 20)]);
}

#[test]
fn blocks_of_leases_that_end_at_once_are_counted() {
    let mut a = Told::new(auto(100));
    a.offer(B, 50);
    a.want(20);
    a.grant(B, 1, 20);
    a.connect(B, Incarnation(9));
    let counters = &a.node.status().peers[0].counters;
    assert_eq!((counters.borrowed, counters.borrows_ended), (20, 20));
    let mut a = Told::new(auto(100));
    a.lendable(30);
    assert_eq!(a.ask(C, 12), (12, None));
    a.connect(C, Incarnation(9));
    let counters = &a.node.status().peers[1].counters;
    assert_eq!((counters.granted, counters.ended), (12, 12));
}

#[test]
fn the_status_shows_what_would_be_lent_under_the_settings() {
    let max = |blocks| LendLimits {
        max: LendMax::Blocks(blocks),
        max_each: MaxEach::Percent(100),
    };
    let mut a = Told::new(max(0));
    a.lendable(500);
    assert_eq!(a.node.status().lendable, 0);
    let mut a = Told::new(max(30));
    a.lendable(500);
    assert_eq!(a.node.status().lendable, 30);
    assert_eq!(a.ask(B, 10), (10, None));
    assert_eq!(a.node.status().lendable, 20);
    a.tell(LendingInput::Drain { within: secs(5) });
    assert_eq!(a.node.status().lendable, 0);
    a.tell(LendingInput::Resume);
    assert_eq!(a.node.status().lendable, 20);
    a.tell(LendingInput::RecallNow);
    assert_eq!(a.node.status().lendable, 0);
}
