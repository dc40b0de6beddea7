//! Stories of nodes that have connections on demand: vMCA's flows, and what becomes of them without a leader.

use std::time::Duration;

use sublet_lend::leader::{ClusterNodeState, ClusterStatus};
use sublet_lend::node::{IDLE_AFTER, LendingInput, ReturnReason};

use crate::world::{BLOCKS, Wiring, World, name_of, peer_of};

const A: usize = 0;
const LEADER: usize = 4;
const NODES: usize = 5;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Five calm nodes. The last one leads.
fn led(seed: u64) -> World {
    let mut world = World::wired(seed, NODES, Wiring::Leader(LEADER));
    world.is_calm = true;
    world.run(secs(5));
    world
}

/// The first of them has borrowed, all of one lender.
fn borrowed(seed: u64) -> (World, usize) {
    let mut world = led(seed);
    world.members[A].wanted = 16;
    world.run(secs(5));
    let lenders = lenders_of(&world, A);
    assert_eq!((owed(&world), lenders.len()), (16, 1));
    (world, lenders[0])
}

fn owed(world: &World) -> u32 {
    world.members[A].node.borrows().borrowed()
}

fn lent(world: &World, lender: usize) -> u32 {
    world.members[lender].node.loans().lent()
}

fn lenders_of(world: &World, borrower: usize) -> Vec<usize> {
    let node = &world.members[borrower].node;
    let others = (0..NODES).filter(|other| *other != borrower);
    others
        .filter(|other| node.borrows().borrowed_of(peer_of(borrower, *other)) > 0)
        .collect()
}

fn cluster(world: &World) -> ClusterStatus {
    let leader = &world.members[LEADER].node;
    leader.ledger().expect("it leads").status(world.now)
}

fn state_of(world: &World, node: usize) -> ClusterNodeState {
    let nodes = cluster(world).nodes;
    let found = nodes.iter().find(|one| one.name == name_of(node));
    found.expect("it is a member").state
}

fn followed(world: &World, node: usize) -> u64 {
    let status = world.members[node].node.status();
    status.following.expect("it follows").followed
}

/// V2, V3: Register, Statistics, Grant-Any, Grant-Fwd, Grant.
#[test]
fn who_wants_is_advised_and_no_needless_connection_is_there() {
    let (world, lender) = borrowed(1);
    assert_eq!(lent(&world, lender), 16);
    for node in 0..NODES {
        assert_eq!(state_of(&world, node), ClusterNodeState::Active);
        for other in node + 1..NODES {
            let is_needed = other == LEADER || (node, other) == (A, lender);
            let connections = world.connections_of(node, other);
            assert_eq!(connections, usize::from(is_needed), "{node} and {other}");
        }
    }
    assert!(followed(&world, A) >= 1);
    let status = cluster(&world);
    let row = &status.nodes[A];
    assert_eq!((row.borrowed, row.wanted), (16, 0));
    assert_eq!(status.nodes[lender].lent, 16);
    let advice = status.advice.last().expect("there was advice");
    assert_eq!(
        (&advice.borrower, &advice.lender),
        (&name_of(A), &name_of(lender))
    );
    let following = world.members[A].node.status().following;
    assert_eq!(following.expect("it follows").absent, Some(0));
}

/// V2: Return. An idle connection ends, and nothing ends with it.
#[test]
fn what_is_returned_leaves_an_idle_connection_that_ends_alone() {
    let (mut world, lender) = borrowed(2);
    world.members[A].wanted = 0;
    while owed(&world) > 0 {
        world.give_back(A, peer_of(A, lender), 16, ReturnReason::Unused);
        world.run(secs(1));
    }
    world.run(secs(2));
    assert_eq!(lent(&world, lender), 0);
    assert_eq!(world.connections_of(A, lender), 1);
    world.run(IDLE_AFTER * 2);
    assert_eq!(world.connections_of(A, lender), 0);
    assert_eq!(world.connections_of(A, LEADER), 1);
    assert_eq!(state_of(&world, A), ClusterNodeState::Active);
    // And it comes back when it is needed.
    world.members[A].wanted = 8;
    world.run(secs(10));
    assert_eq!(owed(&world), 8);
}

/// V2: Force-Return. V3: Leave-Req, Leaving, Leave-Notify, Enable-Node(x, 0).
#[test]
fn a_lender_that_leaves_has_all_back_and_others_lend() {
    let (mut world, lender) = borrowed(3);
    world.tell(lender, LendingInput::Leave { within: secs(5) });
    world.run(secs(1));
    assert_ne!(state_of(&world, lender), ClusterNodeState::Active);
    world.run(secs(6));
    assert_eq!(lent(&world, lender), 0);
    assert_eq!(world.members[lender].store.away(), 0);
    assert_eq!(state_of(&world, lender), ClusterNodeState::Gone);
    world.run(secs(20));
    assert_eq!(owed(&world), 16);
    assert!(!lenders_of(&world, A).contains(&lender));
}

/// V3: Enable-Node(x, 1) after a leave.
#[test]
fn who_left_is_active_again_once_it_joins() {
    let (mut world, lender) = borrowed(8);
    world.tell(lender, LendingInput::Leave { within: secs(5) });
    world.run(secs(30));
    assert_eq!(state_of(&world, lender), ClusterNodeState::Gone);
    world.tell(lender, LendingInput::Join);
    world.run(secs(30));
    assert_eq!(state_of(&world, lender), ClusterNodeState::Active);
    assert!(cluster(&world).alarms.is_empty());
}

/// The leader's view is shown by any node, in parts.
#[test]
fn a_follower_shows_how_its_leader_sees_the_cluster() {
    let (mut world, lender) = borrowed(9);
    assert_eq!(world.members[A].node.told_view(), None);
    world.tell(A, LendingInput::AskView);
    world.run(secs(1));
    let view = world.members[A].node.told_view().expect("an answer");
    let shown: Vec<_> = view.nodes.iter().map(|node| node.name.clone()).collect();
    let status = cluster(&world);
    let known: Vec<_> = status.nodes.iter().map(|node| node.name.clone()).collect();
    assert_eq!(shown, known);
    assert_eq!(view.nodes[A].borrowed.get(), owed(&world));
    assert_eq!(view.nodes[lender].lent.get(), lent(&world, lender));
    assert_eq!(view.advice.len(), status.advice.len());
    assert_eq!((view.term, &*view.placement), (status.term, "spread"));
}

/// The leader hears the lender, and goes on to name it.
#[test]
fn a_lender_that_cannot_be_reached_does_not_starve_who_is_advised_to_ask_it() {
    for seed in 20..30 {
        let (_, named) = borrowed(seed);
        let mut world = led(seed);
        world.partitions.insert((A, named));
        for other in (0..NODES).filter(|other| ![A, named].contains(other)) {
            // The one that is named has the most.
            world.members[other].store.blocks.truncate(BLOCKS - 8);
        }
        world.run(secs(2));
        world.members[A].wanted = 16;
        world.run(secs(60));
        assert_eq!(owed(&world), 16, "seed {seed}");
        assert!(!lenders_of(&world, A).contains(&named));
        assert!(followed(&world, A) > 0, "seed {seed}");
    }
}

/// V3: Recovery. V4: Invalidate: what a node had of an earlier run is void at once.
#[test]
fn a_lender_that_begins_anew_owes_nothing_and_is_active_again() {
    let (mut world, lender) = borrowed(4);
    world.restart(lender);
    world.run(secs(3));
    assert_eq!(world.members[lender].store.away(), lent(&world, lender));
    world.run(secs(30));
    assert_eq!(state_of(&world, lender), ClusterNodeState::Active);
    assert_eq!(owed(&world), 16);
    assert!(cluster(&world).alarms.is_empty());
}

/// V5: the leader fails and comes back. Leases go on, and borrowers ask two members that they draw.
#[test]
fn without_the_leader_leases_go_on_and_borrowers_look_for_themselves() {
    let (mut world, lender) = borrowed(5);
    let leases = |world: &World| -> Vec<_> {
        let loans = world.members[lender].node.loans();
        loans.leases_of(peer_of(lender, A)).collect()
    };
    let before = leases(&world);
    world.members[LEADER].stopped_until = world.now + secs(30);
    world.run(secs(5));
    world.members[A].wanted = 20;
    world.run(secs(5));
    assert_eq!((owed(&world), leases(&world)), (16, before));
    world.run(secs(20));
    assert_eq!(owed(&world), 20);
    world.run(secs(20));
    assert_eq!(state_of(&world, A), ClusterNodeState::Active);
    let followed_before = followed(&world, 2);
    world.members[2].wanted = 6;
    world.run(secs(45));
    assert!(followed(&world, 2) > followed_before);
    assert_eq!(world.members[2].node.borrows().borrowed(), 6);
}

/// V5: another run of the leader has its ledger from reports alone.
#[test]
fn a_leader_that_begins_anew_knows_all_again() {
    let (mut world, lender) = borrowed(6);
    world.restart(LEADER);
    world.run(secs(8));
    let status = cluster(&world);
    assert_eq!(status.nodes[A].borrowed, 16);
    assert_eq!(status.nodes[lender].lent, 16);
    world.members[A].wanted = 18;
    world.run(secs(4));
    assert_eq!(owed(&world), 18);
}

#[test]
fn nobody_named_means_that_two_members_are_asked() {
    let mut world = World::wired(7, NODES, Wiring::Leaderless);
    world.is_calm = true;
    world.run(secs(5));
    assert!(world.connections.is_empty());
    world.members[A].wanted = 10;
    world.run(secs(5));
    assert_eq!(owed(&world), 10);
    assert!(world.connections.len() <= 2);
    world.run(IDLE_AFTER * 2);
    assert_eq!(world.connections.len(), 1);
}

/// Both ends of a pair with a lease call each other when the network heals.
#[test]
fn of_two_connections_at_once_one_stays_with_all_leases() {
    for seed in 0..40 {
        let (mut world, lender) = borrowed(100 + seed);
        world.partitions.insert((A, lender));
        world.run(secs(3) + Duration::from_millis(37 * seed));
        world.partitions.clear();
        world.run(secs(4));
        assert_eq!(world.connections_of(A, lender), 1, "seed {seed}");
        assert_eq!((owed(&world), lent(&world, lender)), (16, 16));
        assert!(world.members[A].store.suspended.is_empty());
    }
}

/// 0.3 kB/s for each connection and 0.5 kB/s besides, in bytes of lines.
#[test]
fn signs_of_life_and_reports_take_little() {
    let (mut world, lender) = borrowed(8);
    world.sent_bytes.clear();
    world.run(secs(60));
    for node in 0..NODES {
        let others = (0..NODES).filter(|other| *other != node);
        let connections: usize = others.map(|other| world.connections_of(node, other)).sum();
        let sent = world.sent_bytes[&node] / 60;
        println!("{node}: {connections} connections, {sent} bytes a second");
        assert!(sent <= 300 * connections + 500, "{node} sent {sent} bytes");
        if node != LEADER && node != A && node != lender {
            assert!(sent <= 250, "{node} sent {sent} bytes to its leader alone");
        }
    }
}
