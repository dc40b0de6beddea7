//! Nodes that lend to one another over a network that delays, cuts and heals, while nodes stop and begin anew.

mod driver;
mod judges;
mod luck;
mod on_demand;
mod pair;
mod store;
mod world;

use std::time::Duration;

use sublet_lend::node::{LendingInput, RecallReason, ReturnReason};
use world::{BLOCKS, Wiring, World, peer_of};

/// Each run has at least this many judged steps.
const STEPS: u64 = 200_000;

fn chaos(world: &mut World) {
    let members = world.members.len() as u64;
    let luck = &mut world.luck;
    let (member, other) = (luck.below(members) as usize, luck.below(members) as usize);
    let (amount, millis) = (luck.below(BLOCKS as u64) as u32, luck.millis(0, 3000));
    match luck.below(100) {
        0..=14 => world.members[member].wanted = 0,
        15..=22 => world.members[member].wanted = amount,
        23..=49 => world.members[0].wanted = amount,
        50..=59 => world.take(member, amount / 4, RecallReason::Host),
        60..=64 => world.tell(
            member,
            LendingInput::Recall {
                blocks: amount,
                within: millis,
            },
        ),
        65..=66 => world.tell(member, LendingInput::RecallNow),
        67 => world.tell(member, LendingInput::Drain { within: millis }),
        68..=71 => world.tell(member, LendingInput::Resume),
        72 => world.restart(member),
        73..=75 => world.members[member].stopped_until = world.now + millis * 4,
        _ if member == other => {}
        76..=80 => world.give_back(
            member,
            peer_of(member, other),
            amount / 4,
            ReturnReason::Unused,
        ),
        81..=84 => {
            world
                .partitions
                .insert((member.min(other), member.max(other)));
        }
        85..=91 => {
            world
                .partitions
                .remove(&(member.min(other), member.max(other)));
        }
        92..=95 => world.cut(member, other),
        96 => world.tell(
            member,
            LendingInput::Deny {
                peer: peer_of(member, other),
            },
        ),
        97..=98 => world.tell(
            member,
            LendingInput::Allow {
                peer: peer_of(member, other),
            },
        ),
        _ => world.tell(
            member,
            LendingInput::Distrust {
                peer: peer_of(member, other),
            },
        ),
    }
}

/// Heals everything. One node alone wants something for a while, and then no more than it has.
fn quieten(world: &mut World) {
    world.is_calm = true;
    world.partitions.clear();
    for member in 0..world.members.len() {
        world.members[member].stopped_until = Duration::ZERO;
        world.members[member].wanted = if member == 0 { 40 } else { 0 };
        world.tell(member, LendingInput::Resume);
        for other in (0..world.members.len()).filter(|other| *other != member) {
            world.tell(
                member,
                LendingInput::Allow {
                    peer: peer_of(member, other),
                },
            );
        }
    }
    world.run(Duration::from_secs(120));
    world.members[0].wanted = 0;
    world.run(Duration::from_secs(25));
}

/// What is lent is what is borrowed, and each store has the rest.
fn books(world: &World) {
    for lender in 0..world.members.len() {
        for borrower in (0..world.members.len()).filter(|other| *other != lender) {
            let lent = world.members[lender]
                .node
                .loans()
                .lent_to(peer_of(lender, borrower));
            let borrowed = world.members[borrower]
                .node
                .borrows()
                .borrowed_of(peer_of(borrower, lender));
            assert_eq!(
                lent, borrowed,
                "{lender} lends {borrower} another number than that borrows"
            );
        }
        let member = &world.members[lender];
        assert_eq!(
            member.store.away(),
            member.node.loans().lent(),
            "a block is lost"
        );
        let borrowed: u32 = member
            .store
            .borrowed
            .values()
            .map(|indices| indices.count())
            .sum();
        assert_eq!(
            borrowed,
            member.node.borrows().borrowed(),
            "the store lost a borrowed block"
        );
    }
}

fn run(seed: u64, members: usize, wiring: Wiring) {
    let mut world = World::wired(seed, members, wiring);
    let (mut rounds, mut lent_after_quiet) = (0u64, 0u64);
    while world.judges.steps < STEPS {
        world.is_calm = false;
        for _ in 0..200 {
            for _ in 0..5 + world.luck.below(150) {
                world.step();
            }
            chaos(&mut world);
        }
        quieten(&mut world);
        books(&world);
        rounds += 1;
        let lent: u32 = world
            .members
            .iter()
            .map(|member| member.node.loans().lent())
            .sum();
        lent_after_quiet += u64::from(lent);
    }
    let (found, gone) = (world.judges.found, world.judges.gone);
    println!(
        "seed {seed}: {rounds} rounds, {found} lookups found a block, {gone} none, {lent_after_quiet} blocks lent"
    );
    assert!(found > 1000 && gone > 1000, "the run was idle");
    assert!(lent_after_quiet > 0, "nothing was lent when all was quiet");
}

#[test]
fn two_nodes_agree_whatever_happens() {
    (0..2).for_each(|seed| run(seed, 2, Wiring::FullMesh));
}

#[test]
fn three_nodes_agree_whatever_happens() {
    (100..103).for_each(|seed| run(seed, 3, Wiring::FullMesh));
}

#[test]
fn nodes_that_follow_a_leader_agree_whatever_happens() {
    run(200, 2, Wiring::Leader(1));
    run(201, 3, Wiring::Leader(2));
}

#[test]
fn nodes_without_a_leader_agree_whatever_happens() {
    run(300, 3, Wiring::Leaderless);
}
