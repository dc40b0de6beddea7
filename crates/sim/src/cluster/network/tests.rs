use super::*;
use crate::cluster::messages::{
    LentPlace, MessageEnd, PageMessage, ReadRequest, RequestTag, WriteRequest,
};
use sublet_lend::ids::LeaseId;

const A: NodeRun = NodeRun {
    node: NodeNumber(0),
    run: 0,
};
const B: NodeRun = NodeRun {
    node: NodeNumber(1),
    run: 0,
};

fn at(millis: u64) -> VirtualInstant {
    VirtualInstant::START + VirtualDuration::micros(1000 * millis)
}

/// A network that is driven to the end of its alarms, and what each run got.
struct DrivenNetwork {
    network: Network,
    alarms: Vec<(VirtualInstant, NetworkAlarm)>,
    now: VirtualInstant,
    got: Vec<(NodeRun, Delivery)>,
}

impl DrivenNetwork {
    fn new(seed: u64) -> DrivenNetwork {
        let mut network = Network::new(NetworkSpeed::default(), SimRng::seeded(seed));
        network.start(A);
        network.start(B);
        DrivenNetwork {
            network,
            alarms: Vec::new(),
            now: VirtualInstant::START,
            got: Vec::new(),
        }
    }

    /// Runs until a time.
    fn run_to(&mut self, until: VirtualInstant) {
        loop {
            self.alarms.extend(self.network.take_alarms());
            self.alarms.sort_by_key(|(at, _)| *at);
            let is_due = |(at, _): &&(VirtualInstant, NetworkAlarm)| *at <= until;
            let Some(&(at, alarm)) = self.alarms.first().filter(is_due) else {
                break;
            };
            self.alarms.remove(0);
            self.now = self.now.max(at);
            match alarm {
                NetworkAlarm::Arrival(id, side) => {
                    let to = self.network.end_of(id, side);
                    for delivery in self.network.arrivals(self.now, id, side) {
                        self.got.push((to.expect("an end"), delivery));
                    }
                }
                NetworkAlarm::Unacknowledged(id, side) => {
                    let ended = self.network.end_unacknowledged(self.now, id, side);
                    self.got.extend(ended.map(|run| (run, Delivery::End)));
                }
            }
        }
        self.now = until;
    }

    fn say(&mut self, id: ConnectionId, from: NodeRun, word: &str) {
        let lines = Payload::Lines(word.as_bytes().to_vec());
        self.network.send(self.now, id, from, lines);
    }

    /// What a run got: words, and `.` for the end of a connection.
    fn words(&self, run: NodeRun) -> String {
        let of_run = self.got.iter().filter(|(to, _)| *to == run);
        let words = of_run.map(|(_, delivery)| match delivery {
            Delivery::Payload(Payload::Lines(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Delivery::Payload(Payload::Pages(_)) => "#".to_owned(),
            Delivery::End => ".".to_owned(),
        });
        words.collect()
    }
}

#[test]
fn a_stream_keeps_its_order_and_others_may_overtake_it() {
    let (mut overtaken, mut order) = (0, 0);
    for seed in 0..50 {
        let mut driven = DrivenNetwork::new(seed);
        let first = driven.network.open([A, B], ChannelClass::Read);
        let second = driven.network.open([A, B], ChannelClass::Write);
        for (id, word) in [(first, "a"), (second, "x"), (first, "b"), (first, "c")] {
            driven.say(id, A, word);
        }
        driven.run_to(at(10));
        let words = driven.words(B);
        let of_first: String = words.chars().filter(|word| *word != 'x').collect();
        assert_eq!(of_first, "abc", "seed {seed}");
        overtaken += u32::from(words.starts_with('x'));
        order += u32::from(words.starts_with('a'));
    }
    assert!(overtaken > 5 && order > 5, "{overtaken} and {order}");
}

#[test]
fn what_a_cut_holds_up_comes_when_it_heals_in_time() {
    let mut driven = DrivenNetwork::new(1);
    let id = driven.network.open([A, B], ChannelClass::Control);
    driven
        .network
        .links()
        .disturb(A.node, B.node, LinkFault::Cut);
    driven.say(id, A, "hello");
    driven.say(id, B, "hi");
    driven.run_to(at(800));
    assert_eq!(
        (driven.words(A).as_str(), driven.words(B).as_str()),
        ("hi", "")
    );
    driven.network.links().heal(A.node, B.node);
    driven.run_to(at(3000));
    assert_eq!(driven.words(B), "hello");
    assert_eq!(driven.words(A), "hi");
}

/// The end that sent learns of a cut after a second, whichever direction is cut. The other learns of it when it sends
/// something that arrives.
#[test]
fn a_cut_ends_the_senders_end_and_leaves_the_other_half_open() {
    for (from, to) in [(A, B), (B, A)] {
        let mut driven = DrivenNetwork::new(2);
        let id = driven.network.open([A, B], ChannelClass::Control);
        driven
            .network
            .links()
            .disturb(from.node, to.node, LinkFault::Cut);
        driven.say(id, A, "hello");
        driven.run_to(at(900));
        assert_eq!(driven.words(A), "");
        driven.run_to(at(1500));
        assert_eq!(driven.words(A), ".");
        driven.network.links().heal(from.node, to.node);
        driven.run_to(at(5000));
        assert!(!driven.words(B).contains('.'), "it is half open");
        driven.say(id, B, "are you there?");
        driven.run_to(at(6000));
        assert!(driven.words(B).ends_with('.'));
        assert_eq!(driven.words(A), ".");
    }
}

#[test]
fn a_process_that_ends_is_noticed_and_a_host_without_power_only_when_it_is_asked() {
    let mut driven = DrivenNetwork::new(3);
    let id = driven.network.open([A, B], ChannelClass::Control);
    driven.network.crash(driven.now, B, CrashKind::Process);
    driven.run_to(at(100));
    assert_eq!(driven.words(A), ".");

    let mut driven = DrivenNetwork::new(4);
    let other = driven.network.open([A, B], ChannelClass::Control);
    assert_eq!(id, other, "numbers are those of the network");
    driven.network.crash(driven.now, B, CrashKind::Host);
    driven.network.links().turn_off(B.node);
    driven.run_to(at(5000));
    assert_eq!(driven.words(A), "");
    driven.network.links().turn_on(B.node);
    driven.say(other, A, "hello");
    driven.run_to(at(6000));
    assert_eq!(driven.words(A), ".");
}

#[test]
fn who_is_let_in_by_nobody_learns_of_it() {
    let mut driven = DrivenNetwork::new(5);
    driven.network.links().refuse(B.node);
    assert!(!driven.network.accepts(A.node, B.node));
    let id = driven.network.open([A, B], ChannelClass::Read);
    driven.say(id, A, "hello");
    driven.run_to(at(10));
    assert_eq!(
        (driven.words(A).as_str(), driven.words(B).as_str()),
        (".", "")
    );
    driven.network.links().admit(B.node);
    assert!(driven.network.accepts(A.node, B.node));
}

#[test]
fn a_connection_that_breaks_amid_a_message_brings_a_part_of_it() {
    let place = |place| LentPlace { index: 0, place };
    let write = WriteRequest {
        tag: RequestTag(1),
        lease: LeaseId(1),
        pages: (0..32).map(|n| (place(n), [0; 16])).collect(),
        ends: MessageEnd::Whole,
    };
    let mut parts = Vec::new();
    for seed in 0..50 {
        let mut driven = DrivenNetwork::new(seed);
        let id = driven.network.open([A, B], ChannelClass::Write);
        let message = PageMessage::Write(write.clone());
        driven.network.send(driven.now, id, A, message.into());
        driven.say(id, A, "never");
        driven.network.break_amid(driven.now, id);
        driven.run_to(at(10));
        assert_eq!(driven.words(A), ".");
        assert!(["#.", "."].contains(&driven.words(B).as_str()));
        let first = driven.got.iter().find(|(to, _)| *to == B);
        if let Some((_, Delivery::Payload(Payload::Pages(message)))) = first {
            let PageMessage::Write(part) = &**message else {
                panic!("{message:?}");
            };
            assert_eq!(part.ends, MessageEnd::Cut);
            assert_eq!(part.pages[..], write.pages[..part.pages.len()]);
            parts.push(part.pages.len());
        }
    }
    assert!(parts.iter().min() < Some(&8) && parts.iter().max() > Some(&24));
    let read = ReadRequest {
        tag: RequestTag(1),
        lease: LeaseId(1),
        places: vec![place(0)],
    };
    assert_eq!(Payload::from(PageMessage::Read(read)).cut(0.9), None);
}

#[test]
fn a_stall_and_the_bandwidth_hold_up_what_follows() {
    let mut driven = DrivenNetwork::new(6);
    let id = driven.network.open([A, B], ChannelClass::Control);
    let stalled = LinkFault::Stalled(at(500));
    driven.network.links().disturb(A.node, B.node, stalled);
    driven.say(id, A, "late");
    driven.run_to(at(499));
    assert_eq!(driven.words(B), "");
    driven.run_to(at(510));
    assert_eq!(driven.words(B), "late");
    // Ten milliseconds of the link's bandwidth.
    let much = Payload::Lines(vec![b'm'; 12_500_000]);
    driven.network.send(driven.now, id, A, much);
    driven.run_to(at(519));
    assert_eq!(driven.words(B), "late");
    driven.run_to(at(530));
    assert_eq!(driven.words(B).len(), 12_500_004);
    assert_eq!(driven.network.sent.control, 12_500_004);
}

#[test]
fn what_has_not_left_when_a_connection_is_aborted_never_comes() {
    for (kind, expected) in [(CloseKind::Graceful, "late."), (CloseKind::Abort, ".")] {
        let mut driven = DrivenNetwork::new(7);
        let id = driven.network.open([A, B], ChannelClass::Control);
        let stalled = LinkFault::Stalled(at(500));
        driven.network.links().disturb(A.node, B.node, stalled);
        driven.say(id, A, "late");
        driven.network.close(driven.now, id, A, kind);
        driven.run_to(at(600));
        assert_eq!(driven.words(B), expected);
    }
}
