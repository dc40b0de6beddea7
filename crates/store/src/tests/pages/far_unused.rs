//! Far blocks that nobody uses go back.

use std::ops::Range;

use super::far::{Fixture, LEASE, ROOM, settings};
use super::lender::{FakeLender, FetchAnswer};
use super::*;
use crate::borrowing::{Borrowing, LeaseSlot};

/// Does the chores of some seconds.
fn look(store: &Arc<Store>, seconds: Range<u32>) {
    let worker = store.worker().expect("a worker");
    for second in seconds {
        while worker.upkeep(Second(NOW.0 + second)) {}
    }
}

/// The blocks that can go back.
fn idle(store: &Store) -> u64 {
    store.figures().far.idle.0 / BLOCK as u64
}

fn borrowed(store: &Store) -> u64 {
    store.figures().far.borrowed.0 / BLOCK as u64
}

/// A block that nobody read for ten minutes goes back to its lender.
#[test]
fn blocks_that_nobody_reads_go_back() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM + 40);
    let (read, _) = fixture.away(ROOM);
    let worker = &fixture.client.worker;
    let soon = Second(NOW.0 + 599);
    while worker.upkeep(soon) {}
    assert_eq!(fixture.store().take_returned(), []);
    let key = fixture.client.key(1, read);
    let GetOutcome::Away(ticket) = worker.get_page(fixture.client.tenant, key, soon, |_| {}) else {
        panic!("still at the lender");
    };
    let page = fixture
        .lender
        .fetch(&ticket, FetchAnswer::Honest)
        .expect("there");
    worker.arrived(fixture.client.tenant, key, &ticket, &page, soon, |_| {});
    // They are dropped in one second, and swept by the next.
    for second in [600, 601] {
        while worker.upkeep(Second(NOW.0 + second)) {}
    }
    let returned = fixture.store().take_returned();
    assert!(returned.len() >= 2, "{returned:?}");
    let is_read = |back: &(LeaseSlot, u32)| back.1 == ticket.address.index;
    assert!(!returned.iter().any(is_read), "it was read: {returned:?}");
}

/// However they went: flushed, with their pool, or with their tenant.
#[test]
fn blocks_whose_pages_are_gone_are_idle_after_two_looks_and_go_back() {
    type Removal = fn(&Fixture);
    let flush: Removal = |fixture| {
        fixture.client.flush_object(1);
    };
    let end_pool: Removal = |fixture| {
        let client = &fixture.client;
        assert!(client.worker.destroy_pool(client.tenant, client.pool, NOW));
    };
    let forbid: Removal = |fixture| {
        let ann = fixture.client.tenant;
        fixture.store().set_borrowing(ann, Borrowing::Forbidden);
    };
    for remove in [flush, end_pool, forbid] {
        let mut fixture = Fixture::new(KEEPING, 6);
        fixture.fill(ROOM + 40);
        let store = Arc::clone(fixture.store());
        look(&store, 1..4);
        let in_use = fixture.client.figures().held_at_lenders.0 / 16;
        assert_eq!(idle(&store), 6 - in_use - 1, "one is kept ready");
        remove(&fixture);
        look(&store, 4..6);
        assert_eq!(idle(&store), 6, "two looks later");
        assert_eq!(store.give_back_idle(2), 2, "no more than are asked for");
        look(&store, 6..7);
        assert_eq!((store.take_returned().len(), borrowed(&store)), (2, 4));
        assert_eq!(store.give_back_idle(u32::MAX), 4);
        look(&store, 7..8);
        assert_eq!((store.take_returned().len(), borrowed(&store)), (4, 0));
        assert_eq!(idle(&store), 0);
    }
}

/// A block in which one page is left is in use. So is one that pages only pass through.
#[test]
fn blocks_in_use_are_not_idle() {
    let mut fixture = Fixture::new(KEEPING, 1);
    fixture.fill(ROOM + 10);
    let store = Arc::clone(fixture.store());
    let (left, _) = fixture.away(ROOM + 10);
    for index in (0..ROOM + 10).filter(|index| *index != left) {
        fixture.client.flush(1, index);
    }
    look(&store, 1..5);
    assert_eq!((fixture.at_lenders(), idle(&store)), (1, 0));
    fixture.client.flush(1, left);
    for round in 5..9 {
        fixture.fill(ROOM + 10);
        assert!(fixture.at_lenders() > 0);
        fixture.client.flush_object(1);
        assert_eq!(fixture.at_lenders(), 0);
        look(&store, round..round + 1);
        assert_eq!(idle(&store), 0, "round {round}");
    }
    look(&store, 9..10);
    assert_eq!((idle(&store), store.give_back_idle(9)), (1, 1));
}

/// A block into which a page is on its way is no idle one. What is found idle and is used again stays.
#[test]
fn what_comes_into_an_idle_block_keeps_it() {
    let mut fixture = Fixture::new(KEEPING, 1);
    fixture.fill(ROOM + 10);
    fixture.client.flush_object(1);
    let store = Arc::clone(fixture.store());
    look(&store, 1..3);
    assert_eq!(idle(&store), 1);
    (0..ROOM + 1).for_each(|index| assert!(fixture.client.put(1, index, 7).is_stored()));
    assert_eq!(fixture.at_lenders(), 1, "in the outbox");
    assert_eq!(store.give_back_idle(1), 0);
    look(&store, 3..6);
    assert_eq!(idle(&store), 0);
    fixture.client.flush_object(1);
    look(&store, 6..9);
    assert_eq!(idle(&store), 0, "the write is not answered yet");
    fixture.lender.settle_all(&fixture.client.worker, LEASE);
    look(&store, 9..11);
    assert_eq!(idle(&store), 1);
}

/// Of ready blocks those are idle that nobody needed between two looks, and those of far lenders go first.
#[test]
fn ready_blocks_that_nobody_needed_go_back_the_far_ones_first() {
    const FAR: LeaseSlot = LeaseSlot(1);
    let (store, _) = store_with(5, settings(8));
    let mut lender = FakeLender::new();
    assert!(lender.lend(&store, LEASE, 3) && lender.lend(&store, FAR, 3));
    look(&store, 1..2);
    assert_eq!(idle(&store), 0, "they have just come");
    look(&store, 2..3);
    assert_eq!(idle(&store), 6);
    assert!(lender.lend(&store, LEASE, 2));
    look(&store, 3..4);
    assert_eq!(idle(&store), 6, "two more have just come");
    store.recall(LEASE, std::slice::from_ref(&(0..3)));
    assert_eq!(idle(&store), 5, "no more than there are");
    assert_eq!(store.give_back_idle(4), 4);
    let mut returned = store.take_returned();
    returned.sort_unstable_by_key(|(lease, index)| (lease.0, *index));
    let lost = returned.iter().filter(|(lease, _)| *lease == FAR);
    assert_eq!((lost.count(), returned.len()), (3, 4));
    assert_eq!(borrowed(&store), 1);
}

/// A tenant that takes ready blocks and gives them up again needs them, though all are ready whenever somebody looks.
#[test]
fn blocks_that_a_tenant_needs_now_and_then_are_not_idle() {
    let mut fixture = Fixture::new(KEEPING, 4);
    let store = Arc::clone(fixture.store());
    let ann = fixture.client.tenant;
    look(&store, 1..3);
    assert_eq!(idle(&store), 4);
    for second in 3..6 {
        fixture.fill(ROOM + 40);
        let held = fixture.client.figures().held_at_lenders.0 / 16;
        assert!(held >= 2, "{held}");
        for borrowing in [false, true] {
            store.set_borrowing(ann, borrowing.into());
            fixture.sweep();
        }
        assert_eq!(store.lease_figures(LEASE).ready, 4);
        look(&store, second..second + 1);
        assert_eq!(idle(&store), 4 - held);
    }
}
