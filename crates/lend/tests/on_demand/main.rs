//! A node with connections on demand, spoken to by hand: whose advice counts, whom it draws, and members that come and
//! go.

mod told;
mod views;

use std::time::Duration;

use sublet_lend::control::{ControlMessage, HeldCounts, MembersUpdate, Ping};
use sublet_lend::ids::Term;
use sublet_lend::leader::{ClusterNodeState, GONE_SHOWN_FOR};
use sublet_lend::node::{
    IDLE_AFTER, LEADER_SILENT_AFTER, LEADS_UNHEARD_MAX, LeaderNaming, LendingInput, LendingNode,
    LendingPhase, LinkState, MembersChange, PEERS_MAX, STANDS_DOWN_FOR, Topology,
};

use crate::told::{Told, advice, member, name, secs, settings};

#[test]
fn advice_of_the_named_leader_counts_and_of_nobody_else() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["a", "b", "l"]);
    m.pass(secs(1));
    assert_eq!(m.called, ["l"]);
    let leader = m.up("l");
    let other = m.accepted("b");
    m.greet(other, "b", 9);
    m.want(10);
    m.hear(other, advice(9, "a", 10));
    m.pass_with(secs(1), &[leader]);
    assert!(m.called.is_empty());
    assert_eq!(m.ignored(), 1);
    m.hear(leader, advice(1, "a", 7));
    m.pass_with(secs(1), &[leader]);
    assert_eq!(m.called, ["a"]);
    let lender = m.up("a");
    assert_eq!(m.asked, [(lender, 7)]);
    m.grant(lender, 7);
    assert_eq!(m.node.borrows().borrowed(), 7);
}

#[test]
fn advice_for_others_and_for_who_wants_nothing_asks_nobody() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["a", "l"]);
    m.pass(secs(1));
    let leader = m.up("l");
    m.hear(leader, advice(1, "a", 7));
    m.pass_with(secs(1), &[leader]);
    m.want(5);
    let ControlMessage::Advise(mut for_other) = advice(1, "a", 7) else {
        unreachable!("it is advice");
    };
    for_other.borrower = name("z");
    m.hear(leader, ControlMessage::Advise(for_other));
    m.pass_with(secs(1), &[leader]);
    assert!(m.called.is_empty());
    m.hear(leader, advice(1, "a", 7));
    m.pass_with(secs(1), &[leader]);
    m.up("a");
    assert_eq!(m.asked.len(), 1);
    assert_eq!(m.asked[0].1, 5, "it asks for no more than it wants");
}

/// The judge Calm: no leader of an older term is obeyed.
#[test]
fn a_lower_term_than_the_highest_seen_is_ignored() {
    let mut m = Told::new(LeaderNaming::Elected, &["a", "k", "l"]);
    let elect = |m: &mut Told, leader: &str, term| {
        let leader = Some(name(leader));
        let term = Term(term);
        m.tell(LendingInput::Leader { leader, term });
        m.pass(Duration::from_millis(200));
    };
    elect(&mut m, "l", 5);
    let leader = m.up("l");
    m.want(10);
    elect(&mut m, "k", 4);
    assert!(m.called.is_empty(), "an outcome of an earlier election");
    m.hear(leader, advice(4, "a", 3));
    m.pass_with(secs(1), &[leader]);
    assert!(m.called.is_empty(), "advice of an earlier term");
    elect(&mut m, "k", 8);
    m.hear(leader, advice(5, "a", 3));
    m.hear(leader, advice(9, "a", 3));
    m.pass_with(secs(1), &[leader]);
    assert_eq!(m.called, ["k"], "advice of one that leads no more");
    assert_eq!(m.ignored(), 4);
    let next = m.up("k");
    m.hear(next, advice(8, "a", 3));
    m.pass_with(secs(1), &[leader, next]);
    assert_eq!(m.called, ["a"]);
}

/// The leader told of its next term before the store did. Then the store says that nobody leads. Terms are the store's.
#[test]
fn that_nobody_leads_counts_though_the_leader_told_of_a_later_term() {
    let mut m = Told::new(LeaderNaming::Elected, &["a", "l"]);
    m.tell(LendingInput::Leader {
        leader: Some(name("l")),
        term: Term(5),
    });
    m.pass(Duration::from_millis(200));
    let leader = m.up("l");
    m.hear(leader, advice(8, "z", 1));
    m.tell(LendingInput::Leader {
        leader: None,
        term: Term(5),
    });
    let following = || m.node.status().following.expect("on demand");
    assert_eq!((following().leader, following().term), (None, Term(5)));
    m.hear(leader, advice(9, "a", 3));
    assert_eq!(m.ignored(), 1, "it leads no more");
}

/// A leader that lies about its term binds those that follow it while it is named, and its successors never.
#[test]
fn the_highest_of_all_terms_is_forgotten_with_the_leader_that_told_it() {
    let elect = |m: &mut Told, leader: &str, term| {
        let leader = Some(name(leader));
        let term = Term(term);
        m.tell(LendingInput::Leader { leader, term });
        m.pass(Duration::from_millis(200));
    };
    let poisoned = || {
        let mut m = Told::new(LeaderNaming::Elected, &["a", "k", "l"]);
        elect(&mut m, "l", 5);
        let leader = m.up("l");
        m.hear(leader, advice(u64::MAX, "a", 1));
        m.hear(leader, advice(5, "a", 1));
        assert_eq!(m.ignored(), 1, "it takes its own terms back");
        (m, leader)
    };
    let (mut m, before) = poisoned();
    elect(&mut m, "k", 6);
    let leader = m.up("k");
    m.want(10);
    m.hear(leader, advice(6, "a", 3));
    m.pass_with(secs(1), &[before, leader]);
    assert_eq!((m.ignored(), &*m.called), (1, &["a".to_owned()][..]));

    let (mut m, _) = poisoned();
    elect(&mut m, "m", 6);
    let term = m.node.ledger().map(|ledger| ledger.term());
    assert_eq!(term, Some(Term(6)), "it leads itself");

    // Advice that came late is of a lower term than that of the election, though this leader told none yet.
    let (mut m, leader) = poisoned();
    elect(&mut m, "l", 7);
    m.hear(leader, advice(6, "a", 3));
    assert_eq!(m.ignored(), 2);
    m.hear(leader, advice(7, "a", 3));
    assert_eq!(m.ignored(), 2);
}

/// A leader knows of the one before it, and of all that went while it followed.
#[test]
fn a_new_leader_shows_who_was_a_member_before_it_led() {
    let mut m = Told::new(LeaderNaming::Elected, &["a", "b", "l"]);
    m.pass(secs(5));
    let removed = |names: &[&str]| {
        LendingInput::Members(MembersChange {
            added: Vec::new(),
            removed: names.iter().map(|text| name(text)).collect(),
        })
    };
    m.tell(removed(&["a", "l", "z"]));
    m.pass(secs(5));
    m.tell(removed(&["l"]));
    m.tell(LendingInput::Leader {
        leader: Some(name("m")),
        term: Term(6),
    });
    m.pass(secs(1));
    let shown = |m: &Told| {
        let ledger = m.node.ledger().expect("it leads");
        let gone = ledger.status(m.now).nodes.into_iter();
        let gone = gone.filter(|node| node.state == ClusterNodeState::Gone);
        let gone = gone.map(|node| (node.name.as_str().to_owned(), node.since));
        gone.collect::<Vec<_>>()
    };
    let expected = [("a".to_owned(), secs(5)), ("l".to_owned(), secs(5))];
    assert_eq!(shown(&m), expected);
    m.tell(LendingInput::Members(MembersChange {
        added: vec![member("a")],
        removed: Vec::new(),
    }));
    assert_eq!(shown(&m), expected[1..]);
    m.now += GONE_SHOWN_FOR;
    assert_eq!(shown(&m), []);
}

/// A node that others cannot reach wins elections all the same. It lets them lead, and does not count sleep.
#[test]
fn an_elected_leader_to_whom_nobody_reports_stands_down_for_a_minute() {
    let elected = |members: &[&str]| {
        let mut m = Told::new(LeaderNaming::Elected, members);
        let leader = Some(name("m"));
        let term = Term(5);
        m.tell(LendingInput::Leader { leader, term });
        m
    };
    let report = || ControlMessage::ClusterReport(Box::default());
    let mut m = elected(&["a", "b"]);
    m.pass(LEADS_UNHEARD_MAX - secs(1));
    assert!(m.node.may_lead());
    let member = m.accepted("a");
    m.greet(member, "a", 7);
    m.hear(member, report());
    m.pass_with(LEADS_UNHEARD_MAX - secs(1), &[member]);
    assert!(m.node.may_lead(), "it was reported to");
    m.pass_with(secs(2), &[member]);
    assert!(!m.node.may_lead(), "a connection is no report");
    let nobody = LendingInput::Leader {
        leader: None,
        term: Term(5),
    };
    m.tell(nobody);
    m.pass(STANDS_DOWN_FOR - secs(2));
    assert!(!m.node.may_lead());
    m.pass(secs(3));
    assert!(m.node.may_lead());

    let mut m = elected(&["a", "b"]);
    m.pass(secs(1));
    m.now += LEADS_UNHEARD_MAX * 2;
    m.pass(secs(1));
    assert!(m.node.may_lead(), "it slept");

    let mut m = elected(&[]);
    m.pass(LEADS_UNHEARD_MAX * 2);
    assert!(m.node.may_lead(), "nobody is there to report");

    let mut m = Told::new(LeaderNaming::Fixed(name("m")), &["a", "b"]);
    m.pass(LEADS_UNHEARD_MAX * 2);
    assert!(m.node.may_lead(), "nobody else can");
}

#[test]
fn another_run_of_a_named_leader_begins_with_its_own_terms() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["a", "l"]);
    m.pass(secs(1));
    let leader = m.up("l");
    m.want(10);
    m.hear(leader, advice(7, "a", 3));
    m.hear(leader, advice(6, "a", 3));
    assert_eq!(m.ignored(), 1);
    m.tell(LendingInput::Ended { connection: leader });
    m.pass(secs(1));
    let leader = m.reached("l");
    m.greet(leader, "l", 8);
    m.hear(leader, advice(1, "a", 3));
    assert_eq!(m.ignored(), 1);
}

/// What is granted to a node that has begun to leave goes back at once. It does not stay for the whole notice.
#[test]
fn a_grant_that_comes_while_a_node_leaves_goes_back() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["a", "l"]);
    m.pass(secs(1));
    let leader = m.up("l");
    m.want(7);
    m.hear(leader, advice(1, "a", 7));
    m.pass_with(secs(1), &[leader]);
    let lender = m.up("a");
    m.grant(lender, 7);
    m.want(10);
    m.hear(leader, advice(1, "a", 3));
    m.pass_with(secs(1), &[leader, lender]);
    assert_eq!(m.asked, [(lender, 7), (lender, 3)]);
    m.tell(LendingInput::Leave { within: secs(60) });
    assert_eq!(m.returns, [7]);
    m.grant_from(lender, 7, 3);
    assert_eq!(m.returns[1..], [10]);
    m.give_back("a", 0, 7);
    m.pass_with(secs(1), &[leader, lender]);
    let leaves = |m: &Told| matches!(m.node.status().phase, LendingPhase::Leaving { .. });
    assert!(leaves(&m), "it still has what came late");
    m.give_back("a", 7, 3);
    m.pass_with(secs(1), &[leader, lender]);
    assert_eq!(m.node.status().phase, LendingPhase::Left);
}

#[test]
fn without_advice_two_are_drawn_and_the_freer_is_asked() {
    let mut m = Told::new(LeaderNaming::Nobody, &["a", "b", "c", "d"]);
    m.pass(secs(2));
    assert!(m.called.is_empty());
    m.want(10);
    m.pass(Duration::from_millis(300));
    let called = m.called.clone();
    assert_eq!(called.len(), 2);
    let first = m.up(&called[0]);
    m.offer(first, 30);
    m.pass_with(Duration::from_millis(100), &[first]);
    assert!(m.asked.is_empty(), "both are waited for");
    let second = m.up(&called[1]);
    m.offer(second, 40);
    m.pass_with(Duration::from_millis(200), &[first, second]);
    assert_eq!(m.asked, [(second, 10)]);
    m.grant(second, 10);
    m.pass_with(secs(3), &[first, second]);
    assert_eq!(m.asked.len(), 1);
}

#[test]
fn one_answer_must_do_after_a_while_and_a_refusal_draws_again() {
    let mut m = Told::new(LeaderNaming::Nobody, &["a", "b"]);
    m.want(10);
    m.pass(Duration::from_millis(300));
    let only = m.up("a");
    m.offer(only, 4);
    m.pass_with(secs(4), &[only]);
    assert_eq!(m.asked, [(only, 4)]);
    m.grant(only, 0);
    m.called.clear();
    m.tell(LendingInput::ConnectFailed { peer: m.peer("b") });
    m.pass_with(secs(3), &[only]);
    let second = m.up("b");
    m.offer(second, 8);
    m.pass_with(secs(4), &[only, second]);
    let asked_of_second = m.asked.iter().any(|(lender, _)| *lender == second);
    assert!(asked_of_second, "{:?}", m.asked);
}

/// The other side ends an idle connection. That is no sign that it is not well.
#[test]
fn a_session_that_ends_is_no_dial_in_vain() {
    let mut m = Told::new(LeaderNaming::Nobody, &["a", "b"]);
    let connection = m.accepted("b");
    m.greet(connection, "b", 9);
    m.tell(LendingInput::Ended { connection });
    let failed = |m: &Told, name: &str| {
        let status = m.node.status();
        let mut peers = status.peers.iter();
        let peer = peers.find(|peer| peer.name.as_str() == name);
        peer.expect("a member").failed_dials
    };
    assert_eq!(failed(&m, "b"), 0);
    m.want(10);
    m.pass(Duration::from_millis(800));
    assert!(m.called.contains(&"b".to_owned()), "{:?}", m.called);
    m.tell(LendingInput::ConnectFailed { peer: m.peer("b") });
    assert_eq!(failed(&m, "b"), 1);
}

#[test]
fn members_that_refuse_a_connection_are_not_waited_for() {
    let mut m = Told::new(LeaderNaming::Nobody, &["a", "b", "c", "d"]);
    m.want(10);
    m.pass(Duration::from_millis(300));
    let dead = std::mem::take(&mut m.called);
    assert_eq!(dead.len(), 2);
    for name in &dead {
        let peer = m.peer(name);
        m.tell(LendingInput::ConnectFailed { peer });
    }
    m.pass(Duration::from_millis(1200));
    let others: Vec<&String> = m
        .called
        .iter()
        .filter(|name| !dead.contains(name))
        .collect();
    assert_eq!(others.len(), 2, "{:?} after {dead:?}", m.called);
}

#[test]
fn a_named_leader_has_a_quarter_of_a_minute_and_impossible_advice_has_not() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["a", "b", "l"]);
    m.want(10);
    m.pass(LEADER_SILENT_AFTER - secs(1));
    assert_eq!(m.called, ["l"]);
    m.pass(secs(2));
    assert!(m.called.len() > 1, "{:?}", m.called);

    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["a", "b", "l"]);
    m.pass(secs(1));
    let leader = m.up("l");
    m.want(10);
    m.hear(leader, advice(1, "a", 10));
    m.pass_with(Duration::from_millis(200), &[leader]);
    let lender = m.up("a");
    m.grant(lender, 0);
    m.pass_with(Duration::from_millis(500), &[leader, lender]);
    assert!(m.called.is_empty());
    m.hear(leader, advice(1, "a", 10));
    m.pass_with(secs(2), &[leader, lender]);
    assert!(m.called.contains(&"b".to_owned()), "{:?}", m.called);
}

/// The call of the lender ends neither well nor ill, and the leader names it each second.
#[test]
fn advice_that_comes_again_gives_a_lender_that_is_not_reached_no_more_time() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["a", "b", "l"]);
    m.pass(secs(1));
    let leader = m.up("l");
    m.want(10);
    for second in 0..8 {
        let is_called = m.called.contains(&"b".to_owned());
        assert!(second > 5 || !is_called, "after {second} s");
        m.hear(leader, advice(1, "a", 10));
        m.pass_with(secs(1), &[leader]);
    }
    assert_eq!(m.called, ["a", "b"]);
}

/// A leader whose election store is gone leads no more, and answers pings all the same.
#[test]
fn a_leader_that_lives_and_leads_no_more_is_silent() {
    let list = |revision| {
        let to = revision;
        let from = revision - 1;
        let term = Term(3);
        ControlMessage::Members(Box::new(MembersUpdate {
            term,
            from,
            to,
            ..MembersUpdate::default()
        }))
    };
    let mut m = Told::new(LeaderNaming::Elected, &["a", "b", "l"]);
    let leader = Some(name("l"));
    let term = Term(3);
    m.tell(LendingInput::Leader { leader, term });
    m.pass(secs(1));
    let leader = m.up("l");
    m.want(10);
    for revision in 1..4 {
        m.hear(leader, list(revision));
        m.pass_with(LEADER_SILENT_AFTER - secs(1), &[leader]);
        assert!(m.called.is_empty(), "{:?}", m.called);
    }
    m.pass_with(secs(2), &[leader]);
    assert!(!m.called.is_empty());
}

/// A lender that counts a lease pings often. A borrower that counts none says so in pings of its own, or never.
#[test]
fn who_answers_pings_sends_some_as_well() {
    let mut m = Told::new(LeaderNaming::Nobody, &["a"]);
    let lender = m.accepted("a");
    m.greet(lender, "a", 7);
    m.pinged.clear();
    for tag in 0..50 {
        let held = HeldCounts::default();
        m.hear(lender, ControlMessage::Ping(Ping { tag, held }));
        m.pass(Duration::from_millis(200));
    }
    assert_eq!(m.pinged, [lender, lender]);
}

/// Both ends called at once. That of the lesser name stays, whichever comes first.
#[test]
fn of_two_calls_at_once_that_of_the_lesser_name_stays() {
    for (peer, stays_ours) in [("a", false), ("z", true)] {
        let mut m = Told::new(LeaderNaming::Fixed(name(peer)), &[peer]);
        m.pass(secs(1));
        let ours = m.reached(peer);
        let theirs = m.accepted(peer);
        let closed = if stays_ours { theirs } else { ours };
        assert_eq!(m.closed, [closed], "ours was first, {peer}");

        let mut m = Told::new(LeaderNaming::Fixed(name(peer)), &[peer]);
        m.pass(secs(1));
        let theirs = m.accepted(peer);
        let ours = m.reached(peer);
        let closed = if stays_ours { theirs } else { ours };
        assert_eq!(m.closed, [closed], "theirs was first, {peer}");
        // Much later, a new connection means that the peer has lost the old one.
        m.greet(if stays_ours { ours } else { theirs }, peer, 7);
        m.pass_with(secs(10), &[ours, theirs]);
        let anew = m.accepted(peer);
        assert!(!m.closed.contains(&anew));
        assert_eq!(m.closed.len(), 2);
    }
}

#[test]
fn an_idle_connection_ends_after_a_minute_and_is_not_made_again() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["a", "l"]);
    m.pass(secs(1));
    let leader = m.up("l");
    let idle = m.accepted("a");
    m.greet(idle, "a", 9);
    m.pass_with(IDLE_AFTER - secs(1), &[leader, idle]);
    assert!(m.closed.is_empty());
    m.pass_with(secs(2), &[leader, idle]);
    assert_eq!(m.closed, [idle]);
    m.pass_with(secs(60), &[leader]);
    assert!(m.called.is_empty());
    assert!(matches!(m.link("l"), LinkState::Up { .. }));
}

#[test]
fn members_come_and_go_while_it_runs() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["l"]);
    m.pass(secs(1));
    let leader = m.up("l");
    m.want(10);
    m.hear(leader, advice(1, "n", 10));
    m.pass_with(secs(1), &[leader]);
    assert!(m.called.is_empty(), "it is no member yet");
    m.tell(LendingInput::Members(MembersChange {
        added: vec![member("n"), member("m"), member("o")],
        removed: Vec::new(),
    }));
    assert_eq!(m.node.status().peers.len(), 3, "its own name is left out");
    m.hear(leader, advice(1, "n", 10));
    m.pass_with(secs(1), &[leader]);
    let lender = m.up("n");
    m.grant(lender, 10);

    let removed = |names: &[&str]| {
        LendingInput::Members(MembersChange {
            added: Vec::new(),
            removed: names.iter().map(|text| name(text)).collect(),
        })
    };
    m.tell(removed(&["n", "o"]));
    m.pass_with(secs(70), &[leader, lender]);
    assert_eq!(m.node.borrows().borrowed(), 10, "leases go on");
    assert!(m.closed.is_empty());
    m.tell(LendingInput::Ended { connection: lender });
    m.pass_with(secs(11), &[leader]);
    assert_eq!(m.node.borrows().borrowed(), 0);
    assert_eq!(m.node.status().peers.len(), 1);
    let stranger = m.accepted("n");
    assert_eq!(m.closed, [stranger]);

    let before = m.node.peer_named(&name("n"));
    m.tell(LendingInput::Members(MembersChange {
        added: vec![member("n")],
        removed: Vec::new(),
    }));
    assert_eq!(
        m.node.peer_named(&name("n")),
        before,
        "a name keeps its number"
    );
    let back = m.accepted("n");
    assert!(!m.closed.contains(&back));
}

#[test]
fn a_leader_that_becomes_a_member_later_is_followed() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["a"]);
    m.pass(secs(1));
    assert!(m.called.is_empty());
    m.tell(LendingInput::Members(MembersChange {
        added: vec![member("l")],
        removed: Vec::new(),
    }));
    m.pass(secs(1));
    assert_eq!(m.called, ["l"]);
}

#[test]
fn members_beyond_the_bound_of_a_full_mesh_are_refused_and_counted() {
    let texts: Vec<String> = (0..PEERS_MAX).map(|n| format!("n{n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let settings = settings(&texts, Topology::FullMesh);
    let mut node = LendingNode::new(Duration::ZERO, settings).expect("as many as there may be");
    let mut change = |added: &[&str], removed: &[&str]| {
        let change = MembersChange {
            added: added.iter().map(|text| member(text)).collect(),
            removed: removed.iter().map(|text| name(text)).collect(),
        };
        node.handle(Duration::ZERO, LendingInput::Members(change));
        (node.status().peers.len(), node.status().members_refused)
    };
    assert_eq!(change(&["a", "n0"], &[]), (PEERS_MAX, 1));
    assert_eq!(change(&["a", "b"], &["n0"]), (PEERS_MAX, 2));
}
