//! Pages that the courier carries come back by the fetcher, or are missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sublet_lend::ids::{PeerId, SessionId};

use super::borrower::{Got, LEASE, PAGES, PATIENT, TestBorrower, session};
use super::lender::TestLender;
use super::{PEER, SESSION, content_of};
use crate::peers::courier::{Courier, CourierFigures};
use crate::peers::lease_routes::LeaseRoute;
use crate::peers::page_fetcher::{FetchOutcome, GoneCause};
use crate::peers::page_server::{ServedPages, ServingRate};
use crate::wait_until::wait_until;

const BLOCKS: u32 = 4;

fn pair(threads: usize) -> (TestLender, TestBorrower) {
    let lender = TestLender::start(BLOCKS, threads, ServingRate::Unbounded);
    let borrower = TestBorrower::new(lender.address, lender.grant.lease, BLOCKS);
    (lender, borrower)
}

#[test]
fn pages_come_back_as_they_were_put() {
    for threads in [1, 3] {
        let (lender, mut borrower) = pair(threads);
        borrower.fill(0);
        let at_lenders = borrower.at_lenders();
        assert!(at_lenders >= 500, "{at_lenders}");
        let courier = borrower.courier.as_ref().expect("it runs");
        let carried = courier.figures();
        assert_eq!((carried.pages_lost, carried.connections_lost), (0, 0));
        assert_eq!(lender.server.figures().pages_written, carried.pages_taken);
        assert_eq!(courier.figures_of(PEER), carried, "there is one lender");
        assert_eq!(courier.figures_of(PeerId(1)), CourierFigures::default());
        assert_eq!(lender.server.served(PEER).written, carried.pages_taken);
        assert_eq!(lender.server.served(PeerId(1)), ServedPages::default());

        let away = borrower.away();
        assert_eq!(away.len() as u64, at_lenders);
        for batch in away.chunks(64).take(20) {
            let got = borrower.fetch(batch);
            let put = batch.iter().map(|(index, _)| Got::Fetched((*index).into()));
            assert_eq!(got, put.collect::<Vec<_>>());
        }
        let served = lender.server.figures();
        assert_eq!(served.pages_read as usize, away.len().min(20 * 64));
        assert_eq!((served.pages_absent, served.requests_refused), (0, 0));
        assert_eq!(lender.server.served(PEER).read, served.pages_read);
    }
}

/// Whatever the order of the tickets and however many come twice, each gets its own page.
#[test]
fn a_batch_in_any_order_brings_each_its_page() {
    let (_lender, mut borrower) = pair(1);
    borrower.fill(0);
    let away = borrower.away();
    let mut batch: Vec<_> = away.iter().step_by(9).take(50).copied().collect();
    batch.reverse();
    let twice: Vec<_> = batch.iter().chain(&batch[..14]).collect();
    let tickets: Vec<_> = twice.iter().map(|(_, ticket)| *ticket).collect();
    let mut got = vec![None; twice.len()];
    borrower.fetcher.fetch(&tickets, |n, outcome| {
        if let FetchOutcome::Page(page) = outcome {
            assert_eq!(got[n].replace(content_of(page)), None, "answered once");
        }
    });
    let put = twice.iter().map(|(index, _)| Some(u64::from(*index)));
    assert!(got.into_iter().eq(put));
}

/// A lender that takes its blocks back gives each page or says that it is gone.
#[test]
fn a_recall_amid_reads_is_the_page_or_a_miss() {
    let (lender, mut borrower) = pair(1);
    borrower.fill(0);
    let away = borrower.away();
    let is_recalled = Arc::new(AtomicBool::new(false));
    let (store, recalled) = (lender.worker.store().clone(), is_recalled.clone());
    let recall = std::thread::spawn(move || {
        let worker = store.worker().expect("a worker");
        while worker.take_back(1) > 0 {
            std::thread::yield_now();
        }
        recalled.store(true, Ordering::Release);
    });
    for batch in away.chunks(8) {
        let after = is_recalled.load(Ordering::Acquire);
        for (got, (index, _)) in borrower.fetch(batch).into_iter().zip(batch) {
            match got {
                Got::Fetched(content) => {
                    assert_eq!(content, u64::from(*index));
                    assert!(!after, "the lender has nothing any more");
                }
                // On a busy machine, an answer may be late.
                Got::Gone(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    recall.join().expect("it ends");
    let got = borrower.fetch(&away);
    assert!(got.iter().all(|got| matches!(got, Got::Gone(_))), "{got:?}");
    borrower.put(0, 77);
    assert_eq!(borrower.get(0), Got::Here(77));
}

/// Blocks that went back and were lent anew show nothing of what they held.
#[test]
fn nothing_of_an_old_lease_is_read_under_a_new_one() {
    let (lender, mut borrower) = pair(1);
    borrower.fill(0);
    let away = borrower.away();
    assert_eq!(lender.worker.take_back(BLOCKS), BLOCKS);
    let taken = lender.worker.store().drain_taken_back();
    lender.sessions.loans.lock().mark_taken(&taken);
    let again = lender.sessions.lend(&lender.worker, BLOCKS);
    let route = borrower.routes.find(LEASE).expect("a route");
    let lease = again.lease;
    borrower.routes.set(LEASE, LeaseRoute { lease, ..route });
    let got = borrower.fetch(&away[..64]);
    assert!(
        got.iter().all(|got| *got == Got::Gone(GoneCause::Absent)),
        "{got:?}"
    );
}

/// A session that was replaced reads nothing, and the next one reads all.
#[test]
fn only_the_present_session_reads() {
    let (lender, mut borrower) = pair(1);
    borrower.fill(0);
    let away = borrower.away();
    assert!(matches!(borrower.fetch(&away[..1])[0], Got::Fetched(_)));
    let next = SessionId(SESSION.0 + 1);
    lender.sessions.renew(next);
    let got = borrower.fetch(&away[1..2])[0];
    assert_eq!(
        got,
        Got::Gone(GoneCause::Refused),
        "its connection is of the old session"
    );
    borrower.route_by(session(lender.address, PATIENT, next));
    assert!(matches!(borrower.fetch(&away[2..3])[0], Got::Fetched(_)));
    wait_until("both are open", || lender.sessions.open() == 2);
    lender.server.end_session(next);
    wait_until("both are closed", || lender.sessions.open() == 0);
    let got = borrower.fetch(&away[3..4])[0];
    assert_eq!(got, Got::Gone(GoneCause::Unreachable));
}

/// When the lease has ended, nothing waits for it any more.
#[test]
fn pages_for_a_lease_without_a_route_are_lost() {
    let (_lender, mut borrower) = pair(1);
    borrower.fill(0);
    let away = borrower.away();
    borrower.worker.store().end_lease(LEASE);
    borrower.routes.remove(LEASE);
    wait_until("the outbox is empty", || borrower.outbound() == 0);
    let got = borrower.fetch(&away[..1])[0];
    assert_eq!(got, Got::Gone(GoneCause::LeaseEnded));
    for index in 0..PAGES {
        assert!(matches!(borrower.get(index), Got::Here(_) | Got::Miss));
    }
}

/// A lease may begin and end before the courier looks. It leaves nothing in the outbox.
#[test]
fn pages_of_a_lease_that_the_courier_never_saw_are_lost() {
    let (_lender, mut borrower) = pair(1);
    borrower.courier = None;
    let mut index = 0;
    while borrower.outbound() == 0 {
        assert!(index < PAGES, "none is evicted");
        borrower.put(index, 7);
        borrower.evict_ahead();
        index += 1;
    }
    let store = borrower.worker.store();
    store.end_lease(LEASE);
    borrower.routes.remove(LEASE);
    let courier = Courier::start(store, &borrower.routes, borrower.ledger.faults());
    borrower.courier = Some(courier.expect("it starts"));
    wait_until("the outbox is empty", || borrower.outbound() == 0);
}

/// While the control connection is lost, nobody waits for the lender, and what was evicted makes room for others.
#[test]
fn a_lender_whose_session_is_over_is_not_asked() {
    let (_lender, mut borrower) = pair(1);
    borrower.fill(0);
    let away = borrower.away();
    let route = borrower.routes.find(LEASE).expect("a route");
    route.session.close();
    assert_eq!(borrower.fetch(&away[..1]), [Got::NotAsked]);
    let courier = borrower.courier.as_ref().expect("a courier");
    let lost_before = courier.figures().pages_lost;
    borrower.fill(7);
    let courier = borrower.courier.as_ref().expect("a courier");
    assert!(courier.figures().pages_lost > lost_before);
}
