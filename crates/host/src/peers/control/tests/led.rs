//! Nodes that hear of each other while they run, and that a leader advises.

use std::time::Duration;

use sublet_lend::control::ViewState;
use sublet_lend::node::{
    LeaderNaming, LendingInput, LendingPhase, OnDemandSettings, PEERS_MAX, Topology,
};
use sublet_policy::placement::PlacementChoice;
use sublet_types::Pages;

use super::super::ChangedMembers;
use super::authority::TestAuthority;
use super::cluster::{BoundNode, TestNode, TestTime, member};

/// Three nodes that know nobody yet. All follow `c`.
fn three(time: &TestTime, authority: &TestAuthority) -> [TestNode; 3] {
    let bound = ["a", "b", "c"].map(BoundNode::new);
    let ports = bound.each_ref().map(|node| node.address().port());
    let nodes = bound.map(|node| {
        let tls = authority.settings("blue", node.name);
        let topology = Topology::OnDemand(OnDemandSettings {
            leader: LeaderNaming::Fixed("c".parse().expect("a name")),
            placement: PlacementChoice::default(),
            rack: None,
            seed: u64::from(node.name.as_bytes()[0]),
        });
        node.start_in(time.0, tls, Vec::new(), topology)
    });
    for node in &nodes {
        let others = ["a", "b", "c"].iter().zip(ports);
        let others = others.filter(|(name, _)| **name != node.name);
        let added = others.map(|(name, port)| member(name, port)).collect();
        let removed = Vec::new();
        let changed = ChangedMembers { added, removed };
        node.plane.teller().change_members(changed);
    }
    nodes
}

/// Lets a node want blocks, and waits until it has them.
fn borrow(time: &TestTime, node: &TestNode, blocks: u32) {
    let wish = node.plane.tables().far.wish();
    wish.set(Some(Pages(u64::from(blocks) * 512)));
    time.wait("borrowed", || node.borrowed() >= blocks);
    wish.set(Some(Pages(0)));
}

#[test]
fn who_is_short_borrows_as_its_leader_advises_and_shows_how_that_sees_the_cluster() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let [a, b, c] = three(&time, &authority);
    borrow(&time, &a, 3);
    assert_eq!(b.store.lent() + c.store.lent(), a.borrowed());
    let following = || a.plane.tables().status().following.expect("on demand");
    assert!(following().followed > 0, "{:?}", following());
    assert_eq!(
        following().leader.map(|it| it.to_string()),
        Some("c".to_owned())
    );
    let shown = || {
        a.plane.teller().tell(LendingInput::AskView);
        let view = a.plane.tables().told_view()?;
        let of_a = view.nodes.iter().find(|node| node.name.as_str() == "a")?;
        let all = view
            .nodes
            .iter()
            .all(|node| node.state == ViewState::Active);
        let is_whole = view.nodes.len() == 3 && all && view.placement == "spread";
        Some(is_whole && of_a.borrowed.get() == a.borrowed() && !view.advice.is_empty())
    };
    time.wait("the leader's view is there", || shown() == Some(true));
    assert!(a.plane.tables().with_ledger(|_| ()).is_none());
    assert!(c.plane.tables().with_ledger(|_| ()).is_some());
}

#[test]
fn a_node_that_left_has_nothing_of_others_and_comes_back_when_it_joins() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let [a, b, c] = three(&time, &authority);
    borrow(&time, &a, 3);
    let phase = |node: &TestNode| node.plane.tables().status().phase;
    for node in [&b, &c] {
        let within = Duration::from_secs(3600);
        node.plane.teller().tell(LendingInput::Leave { within });
        time.wait("it has left", || phase(node) == LendingPhase::Left);
        assert_eq!(node.store.lent(), 0);
    }
    time.wait("nothing is borrowed", || a.borrowed() == 0);
    for node in [&b, &c] {
        node.plane.teller().tell(LendingInput::Join);
        time.wait("it is there again", || phase(node) == LendingPhase::Lending);
    }
    borrow(&time, &a, 2);
}

/// Tables by number hold more peers than a full mesh has.
#[test]
fn members_beyond_a_mesh_have_their_own_numbers() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let [a, ..] = three(&time, &authority);
    let many = PEERS_MAX + 50;
    let added = (0..many).map(|n| member(&format!("n{n}"), 1)).collect();
    a.plane.teller().change_members(ChangedMembers {
        added,
        removed: Vec::new(),
    });
    let members = &a.plane.tables().members;
    time.wait("all are known", || members.numbers().len() == many + 2);
    let last = members.numbers().pop().expect("there are some");
    let name = members.name(last).map(|name| name.to_string());
    assert_eq!(name, Some(format!("n{}", many - 1)));
}
