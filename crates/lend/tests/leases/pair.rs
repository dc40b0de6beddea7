//! Short stories of two nodes, each about one rule.

use std::time::Duration;

use sublet_lend::node::{LendingInput, LendingPhase, LinkState, RecallReason, ReturnReason};

use crate::world::{BLOCKS, World, peer_of};

const A: usize = 0;
const B: usize = 1;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Two calm nodes, of which the first has borrowed of the second.
fn borrowed(seed: u64) -> World {
    let mut world = World::new(seed, 2);
    world.is_calm = true;
    world.members[A].wanted = 16;
    world.run(secs(3));
    while lent(&world) == 0 {
        world.run(secs(1));
    }
    world
}

fn lent(world: &World) -> u32 {
    world.members[B].node.loans().lent()
}

fn owed(world: &World) -> u32 {
    world.members[A].node.borrows().borrowed()
}

#[test]
fn who_wants_gets() {
    let world = borrowed(1);
    assert_eq!((lent(&world), owed(&world)), (16, 16));
}

#[test]
fn a_recall_at_once_waits_for_nobody() {
    let mut world = borrowed(2);
    world.members[A].stopped_until = secs(1_000_000);
    world.take(B, 5, RecallReason::Host);
    assert_eq!(lent(&world), 11);
    assert_eq!(owed(&world), 16);
    world.members[A].stopped_until = Duration::ZERO;
    world.run(secs(20));
    assert_eq!(lent(&world), owed(&world));
}

#[test]
fn the_rest_of_a_notice_is_taken_from_who_does_not_answer() {
    let mut world = borrowed(3);
    world.members[A].stopped_until = secs(1_000_000);
    let within = Duration::from_millis(500);
    world.tell(B, LendingInput::Recall { blocks: 6, within });
    assert_eq!(lent(&world), 16);
    world.run(secs(1));
    assert_eq!(lent(&world), 10);
}

#[test]
fn a_drain_lasts_until_it_is_ended_and_a_recall_now_half_a_minute() {
    let mut world = borrowed(4);
    world.tell(B, LendingInput::Drain { within: secs(2) });
    world.run(secs(100));
    assert_eq!((lent(&world), owed(&world)), (0, 0));
    world.tell(B, LendingInput::Resume);
    world.run(secs(60));
    assert_eq!((lent(&world), owed(&world)), (16, 16));
    for _ in 0..2 {
        world.tell(B, LendingInput::RecallNow);
        world.run(secs(20));
        assert_eq!((lent(&world), owed(&world)), (0, 0));
    }
    world.run(secs(60));
    assert_eq!((lent(&world), owed(&world)), (16, 16));
}

#[test]
fn a_partition_that_heals_in_time_costs_nothing() {
    let mut world = borrowed(5);
    let leases: Vec<_> = world.members[B]
        .node
        .loans()
        .leases_of(peer_of(B, A))
        .collect();
    world.partitions.insert((A, B));
    world.run(secs(6));
    assert!(!world.members[A].store.suspended.is_empty());
    world.partitions.clear();
    world.run(secs(3));
    assert!(world.members[A].store.suspended.is_empty());
    let after: Vec<_> = world.members[B]
        .node
        .loans()
        .leases_of(peer_of(B, A))
        .collect();
    assert_eq!((leases, owed(&world)), (after, 16));
}

#[test]
fn a_partition_that_lasts_ends_the_leases_of_both_ends() {
    let mut world = borrowed(6);
    world.partitions.insert((A, B));
    world.run(secs(15));
    assert_eq!((lent(&world), owed(&world)), (0, 0));
    assert_eq!(world.members[B].store.away(), 0);
}

#[test]
fn a_denied_peer_loses_its_leases_at_once() {
    let mut world = borrowed(7);
    let peer = peer_of(B, A);
    world.tell(B, LendingInput::Deny { peer });
    assert_eq!((lent(&world), world.members[B].store.away()), (0, 0));
    world.run(secs(30));
    assert_eq!((lent(&world), owed(&world)), (0, 0));
    assert_eq!(
        world.members[B].node.status().peers[0].link,
        LinkState::Denied
    );
}

#[test]
fn who_wants_takes_its_own_back_before_it_asks() {
    let mut world = borrowed(8);
    world.members[B].wanted = 8;
    world.run(secs(4));
    assert!(lent(&world) < 16);
    world.members[A].wanted = 0;
    world.run(secs(100));
    // The judge of roles watched every step.
    assert_eq!(lent(&world), 0);
    assert!(world.members[B].node.borrows().borrowed() > 0);
}

#[test]
fn who_leaves_takes_all_and_gives_all() {
    let mut world = borrowed(9);
    world.tell(A, LendingInput::Leave { within: secs(5) });
    world.run(secs(7));
    assert_eq!(
        (lent(&world), owed(&world), world.members[B].store.away()),
        (0, 0, 0)
    );
    let mut world = borrowed(10);
    world.tell(B, LendingInput::Leave { within: secs(5) });
    world.run(secs(7));
    assert_eq!(
        (lent(&world), owed(&world), world.members[B].store.away()),
        (0, 0, 0)
    );
}

#[test]
fn who_left_lends_and_borrows_again_once_it_joins() {
    for leaver in [A, B] {
        let mut world = borrowed(12);
        world.tell(leaver, LendingInput::Leave { within: secs(5) });
        world.run(secs(30));
        assert_eq!(
            world.members[leaver].node.status().phase,
            LendingPhase::Left
        );
        assert_eq!((lent(&world), owed(&world)), (0, 0));
        world.tell(leaver, LendingInput::Join);
        world.members[A].wanted = 8;
        world.run(secs(60));
        assert_eq!(owed(&world), 8, "{leaver}");
    }
}

/// Whoever says again that it leaves, with less time, parts sooner.
#[test]
fn a_leave_can_be_hurried_and_joined_before_its_end() {
    let mut world = borrowed(13);
    // The lender stops, so that nothing comes back to it or from it.
    world.members[B].stopped_until = world.now + secs(20);
    let phase = |world: &World| world.members[A].node.status().phase;
    world.tell(A, LendingInput::Leave { within: secs(3600) });
    assert!(matches!(phase(&world), LendingPhase::Leaving { .. }));
    world.tell(A, LendingInput::Leave { within: secs(0) });
    world.run(secs(1));
    assert_eq!(phase(&world), LendingPhase::Left);

    let mut world = borrowed(14);
    world.tell(A, LendingInput::Leave { within: secs(3600) });
    world.tell(A, LendingInput::Join);
    assert_eq!(phase(&world), LendingPhase::Lending);
    world.run(secs(60));
    assert_eq!(owed(&world), lent(&world));
    assert!(owed(&world) > 0);
}

#[test]
fn borrowers_that_die_leave_nothing_behind() {
    let mut world = borrowed(11);
    for _ in 0..10_000 {
        world.restart(A);
        world.members[A].wanted = 16;
        world.run(Duration::from_millis(1500));
        let leases = world.members[B]
            .node
            .loans()
            .leases_of(peer_of(B, A))
            .count();
        assert!(leases <= 1, "{leases} leases");
        assert!(lent(&world) <= BLOCKS as u32 / 2);
    }
    assert!(world.members[B].node.status().peers[0].counters.granted > 50_000);
    world.members[A].wanted = 0;
    world.restart(A);
    world.run(secs(15));
    assert_eq!((lent(&world), world.members[B].store.away()), (0, 0));
}

#[test]
fn a_grant_that_was_lost_comes_home_when_nobody_claims_it() {
    let mut world = borrowed(12);
    world.members[A].wanted = 30;
    while lent(&world) == 16 {
        world.step();
    }
    world.members[A].wanted = 16;
    world.cut(A, B);
    world.run(secs(5));
    assert_eq!((lent(&world), owed(&world)), (30, 16));
    world.run(secs(15));
    assert_eq!((lent(&world), owed(&world)), (16, 16));
    assert_eq!(
        world.members[B].node.status().peers[0].counters.unclaimed,
        14
    );
}

#[test]
fn what_was_returned_or_taken_while_the_connection_was_lost_is_found_out() {
    let mut world = borrowed(13);
    world.partitions.insert((A, B));
    world.run(secs(3));
    world.give_back(A, peer_of(A, B), 4, ReturnReason::Unused);
    world.take(B, 3, RecallReason::Host);
    world.members[A].wanted = 0;
    let given = 16 - owed(&world);
    assert!((1..=4).contains(&given));
    world.run(secs(3));
    world.partitions.clear();
    world.run(secs(4));
    assert!(owed(&world) <= lent(&world));
    world.run(secs(15));
    assert_eq!(lent(&world), owed(&world));
    assert!(lent(&world) >= 9);
}
