//! Nodes lend and borrow, take back, lose each other and meet again.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use sublet_lend::lender::LoanLookup;
use sublet_lend::node::{
    BorrowEnd, LendingChange, LendingInput, LoanEnd, RecallReason, ReturnReason,
};
use sublet_lend::wire::ConnectionClass;
use sublet_types::Pages;

use crate::peers::page_server::FindLentBlocks;

use super::authority::{TestAuthority, fingerprint};
use super::cluster::{BoundNode, TestNode, TestTime, connected, member, pair};
use super::relay::Relay;

fn two(time: &TestTime, authority: &TestAuthority) -> [TestNode; 2] {
    let tls = ["a", "b"].map(|node| authority.settings("blue", node));
    pair(time, tls)
}

#[test]
fn a_short_node_borrows_and_page_connections_can_prove_whose_they_are() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let [mut a, b] = two(&time, &authority);
    time.make_short(&mut a);
    let borrowed = a.borrowed();
    time.wait("both say the same", || {
        b.store.lent() == a.borrowed() && b.peer("a").lent == b.store.lent()
    });
    assert!(borrowed >= 4, "{borrowed}");
    let (here, there) = (a.plane.tables(), b.plane.tables());
    let (_, route) = here.far.routes().all().remove(0);
    assert!(!route.session.is_over());
    let (hello, keys) = route.session.next_hello(ConnectionClass::Read);
    let known = there
        .sessions
        .named(sublet_lend::ids::SessionId(hello.hello.session));
    let known = known.expect("the session that the hello names");
    assert_eq!(known.admit(&hello), Ok(keys));
    assert!(known.admit(&hello).is_err(), "it is replayed");
    let found = there.find(known.peer(), known.ours(), route.lease, 0);
    let LoanLookup::Lent(block) = found else {
        panic!("{found:?}");
    };
    let worker = b.worker();
    assert!(worker.write_lent(block, 0, |page| page.fill(9)));
    let beyond = there.find(known.peer(), known.ours(), route.lease, 1 << 20);
    assert_eq!(beyond, LoanLookup::Foreign);
}

/// A policy that asks other hosts is obeyed, though nothing was evicted. When it asks no more, what holds nothing goes
/// back.
#[test]
fn what_the_policy_asks_is_borrowed() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let [a, b] = two(&time, &authority);
    let wish = a.plane.tables().far.wish();
    wish.set(Some(Pages(3 * 512)));
    time.wait("three blocks", || b.store.lent() == 3 && a.borrowed() == 3);
    wish.set(Some(Pages(0)));
    time.wait("no more is wanted than there is", || {
        a.plane.tables().status().wanted == 3
    });
    let worker = a.worker();
    time.wait("all is given back", || {
        time.0.advance(Duration::from_millis(20));
        while worker.upkeep(a.clock.now()) {}
        a.borrowed() == 0 && b.store.lent() == 0
    });
    assert!(a.noticed(|change| matches!(
        change,
        LendingChange::Returned {
            reason: ReturnReason::Unused,
            ..
        }
    )));
}

#[test]
fn blocks_come_back_at_once_and_the_borrower_forgets_them() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let [mut a, b] = two(&time, &authority);
    time.make_short(&mut a);
    let worker = b.worker();
    assert_eq!(worker.take_back(1), 1);
    time.wait("the borrower has heard", || {
        a.noticed(|change| matches!(change, LendingChange::TakenByLender { blocks: 1, .. }))
    });
    assert!(b.noticed(|change| matches!(
        change,
        LendingChange::Recalled {
            blocks: 1,
            reason: RecallReason::Host,
            ..
        }
    )));
    b.plane.teller().tell(LendingInput::RecallNow);
    time.wait("all is back", || b.store.lent() == 0);
    time.wait("the borrower has nothing", || {
        a.borrowed() == 0 && a.plane.tables().far.routes().all().is_empty()
    });
}

#[test]
fn a_node_returns_what_its_lender_asks_for() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let [mut a, b] = two(&time, &authority);
    time.make_short(&mut a);
    let within = Duration::from_secs(3600);
    b.plane.teller().tell(LendingInput::Drain { within });
    time.wait("all is returned", || {
        b.store.lent() == 0 && a.borrowed() == 0
    });
    assert!(a.noticed(|change| matches!(change, LendingChange::Returned { .. })));
}

#[test]
fn a_cut_connection_resumes_with_its_leases() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let ([mut a, b], relay) = relayed(&time, &authority);
    time.make_short(&mut a);
    time.wait("both say the same", || b.store.lent() == a.borrowed());
    let before = a.plane.tables().far.routes().all();
    relay.cut();
    time.wait("suspended", || {
        before[0].1.session.is_over() && !b.is_up_with("a")
    });
    assert!(a.plane.tables().sessions.is_empty());
    relay.heal();
    time.wait("resumed", || {
        let routes = a.plane.tables().far.routes().all();
        a.is_up_with("b")
            && routes
                .first()
                .is_some_and(|(_, route)| !route.session.is_over())
    });
    let after = a.plane.tables().far.routes().all();
    assert_eq!(
        (after[0].0, after[0].1.lease),
        (before[0].0, before[0].1.lease)
    );
    assert!(Arc::ptr_eq(&after[0].1.key, &before[0].1.key));
    assert!(a.far_blocks() >= 4);
    assert!(b.store.lent() >= 4);
}

#[test]
fn a_connection_that_stays_cut_ends_the_leases_on_both_sides() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let ([mut a, b], relay) = relayed(&time, &authority);
    time.make_short(&mut a);
    relay.cut();
    time.wait("both have lost each other", || {
        !a.is_up_with("b") && !b.is_up_with("a")
    });
    time.0.advance(Duration::from_secs(11));
    time.wait("nothing is left", || {
        b.store.lent() == 0 && a.borrowed() == 0
    });
    assert!(a.plane.tables().far.routes().all().is_empty());
    let is_away = |change: &LendingChange| match change {
        LendingChange::LoanEnded { reason, .. } => *reason == LoanEnd::Away,
        LendingChange::BorrowEnded { reason, .. } => *reason == BorrowEnd::Away,
        _ => false,
    };
    assert!(a.noticed(is_away) && b.noticed(is_away));
}

/// `a` reaches `b` through a relay.
fn relayed(time: &TestTime, authority: &TestAuthority) -> ([TestNode; 2], Relay) {
    let (a, b) = (BoundNode::new("a"), BoundNode::new("b"));
    let relay = Relay::to(b.address().port());
    let to_a = a.member();
    let [tls_a, tls_b] = ["a", "b"].map(|node| authority.settings("blue", node));
    let a = a.start(time.0, tls_a, vec![member("b", relay.port())]);
    let b = b.start(time.0, tls_b, vec![to_a]);
    let nodes = [a, b];
    connected(time, &nodes);
    (nodes, relay)
}

#[test]
fn three_nodes_lend_to_one() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let bound = ["a", "b", "c"].map(BoundNode::new);
    let rows = [0, 1, 2].map(|n: usize| bound[n].member());
    let mut nodes = bound.map(|node| {
        let others = rows.iter().filter(|row| row.name.as_str() != node.name);
        let others = others.cloned().collect();
        let tls = authority.settings("blue", node.name);
        node.start(time.0, tls, others)
    });
    connected(&time, &nodes);
    time.make_short(&mut nodes[0]);
    let [a, b, c] = &nodes;
    time.wait("both lenders agree with the borrower", || {
        b.store.lent() + c.store.lent() == a.borrowed() && a.far_blocks() == a.borrowed()
    });
}

#[test]
fn a_peer_that_is_denied_loses_its_leases_and_comes_back_when_it_is_not() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let tls = ["a", "b"].map(|node| authority.settings("blue", node));
    let mut of_b = tls[1].clone();
    let of_a = fingerprint(&tls[0]);
    let [mut a, b] = pair(&time, tls);
    time.make_short(&mut a);
    of_b.denied = vec![of_a];
    b.plane.reload(&of_b).expect("reloaded");
    time.wait("shut out", || b.store.lent() == 0 && a.borrowed() == 0);
    assert!(b.noticed(|change| *change == LendingChange::Denied));
    assert!(!b.is_up_with("a"));
    of_b.denied.clear();
    b.plane.reload(&of_b).expect("reloaded");
    // The lender had said that it refuses, which lasts a minute at the other end.
    time.0.advance(Duration::from_secs(61));
    connected(&time, &[a, b]);
}

#[test]
fn a_connection_that_carries_pages_is_handed_on_unread() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let b = BoundNode::new("b");
    let address = b.address();
    let b = b.start(time.0, authority.settings("blue", "b"), Vec::new());
    let mut client = TcpStream::connect(address).expect("connected");
    client.write_all(b"SBLD").expect("sent");
    time.wait("handed on", || !b.page_connections.lock().is_empty());
    let mut taken = b.page_connections.lock().remove(0);
    let mut first = [0; 4];
    taken.set_nonblocking(false).expect("set");
    taken.read_exact(&mut first).expect("read");
    assert_eq!(&first, b"SBLD");
}
