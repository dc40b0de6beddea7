//! A lender that lies, hangs or goes costs misses, never a wrong page.

use std::sync::Arc;
use std::time::Duration;

use sublet_lend::guard::{GuardChange, GuardState};
use sublet_lend::ids::{LeaseId, PeerId, SessionId};

use super::SESSION;
use super::borrower::{Got, LEASE, PATIENT, TestBorrower, fetcher, session};
use super::fake_lender::{FakeLender, Lie};
use crate::peers::page_faults::{CountedFaults, FaultParty, PageFault};
use crate::peers::page_fetcher::{FetchNews, FetchOutcome, GoneCause, SocketReadiness};
use crate::wait_until::wait_until;

const BLOCKS: u32 = 2;

/// A borrower whose pages a lender has, which was honest up to now.
fn pair() -> (FakeLender, TestBorrower) {
    let lender = FakeLender::start();
    let borrower = TestBorrower::new(lender.address, LeaseId(1), BLOCKS);
    borrower.fill(0);
    (lender, borrower)
}

/// Each lie ends in the gets' being misses, with its cause, and honest answers are believed afterwards.
#[test]
fn lies_are_misses() {
    let forged = [Lie::Altered, Lie::Swapped];
    let forged = forged.map(|lie| (lie, GoneCause::Forged));
    let others = [
        (Lie::Absent, GoneCause::Absent),
        (Lie::Refuses, GoneCause::Refused),
    ];
    let (lender, mut borrower) = pair();
    let away = borrower.away();
    let mut batches = away.chunks(8);
    for (lie, cause) in forged.into_iter().chain(others) {
        lender.lie(lie);
        let batch = batches.next().expect("pages");
        let got = borrower.fetch(batch);
        assert!(
            got.iter().all(|got| *got == Got::Gone(cause)),
            "{lie:?}: {got:?}"
        );
        let news = borrower.ledger.take_news();
        let reported: &[_] = match cause {
            GoneCause::Forged => &[FetchNews::Forger { lender: PeerId(0) }],
            _ => &[],
        };
        assert_eq!(news, reported, "{lie:?}");
        for (index, _) in batch {
            assert_eq!(
                borrower.get(*index),
                Got::Miss,
                "{lie:?}: it is gone for good"
            );
        }
        lender.lie(Lie::Honest);
        let batch = batches.next().expect("pages");
        let got = borrower.fetch(batch);
        let put = batch.iter().map(|(index, _)| Got::Fetched((*index).into()));
        assert_eq!(got, put.collect::<Vec<_>>(), "after {lie:?}");
    }
}

/// Where a write was lost, its bytes may have come late. A lender that gives them is no liar, but it is if it gives wrong
/// bytes there again.
#[test]
fn what_a_lost_write_may_have_brought_is_not_forged() {
    let (lender, mut borrower) = pair();
    let away = borrower.away();
    let lost = &away[..8];
    let route = borrower.routes.find(LEASE).expect("a route");
    lost.iter()
        .for_each(|(_, ticket)| route.lost_writes.add(ticket.address));
    // It stays with the lease in the next session.
    borrower.route_by(session(lender.address, PATIENT, SESSION));
    lender.lie(Lie::Altered);
    let tickets: Vec<_> = lost.iter().map(|(_, ticket)| *ticket).collect();
    for cause in [GoneCause::Overwritten, GoneCause::Forged] {
        borrower.fetcher.fetch(&tickets, |n, outcome| {
            assert_eq!(outcome, FetchOutcome::Gone(cause), "{n}");
        });
        let is_reported = !borrower.ledger.take_news().is_empty();
        assert_eq!(is_reported, cause == GoneCause::Forged);
    }
    let got = borrower.fetch(&away[8..16]);
    assert!(got.iter().all(|got| *got == Got::Gone(GoneCause::Forged)));
    assert_eq!(borrower.ledger.take_news().len(), 1);
}

/// A read that is overtaken brings the page that came into the place after it. An honest lender that gives it is no
/// liar, however often.
#[test]
fn a_read_that_was_overtaken_is_not_forged() {
    let (_lender, mut borrower) = pair();
    let before = borrower.away();
    borrower.fill(1_000_000);
    borrower.fill(2_000_000);
    let tickets: Vec<_> = before.iter().map(|(_, ticket)| *ticket).collect();
    let mut overwritten = 0;
    borrower
        .fetcher
        .fetch(&tickets, |_, outcome| match outcome {
            FetchOutcome::Gone(GoneCause::Overwritten) => overwritten += 1,
            FetchOutcome::Gone(GoneCause::Forged) => panic!("the lender is honest"),
            _ => {}
        });
    assert!(overwritten > 3, "{overwritten}");
    assert_eq!(borrower.ledger.take_news(), []);
}

/// Pages under wrong numbers are forged, and the one that is missing is absent.
#[test]
fn pages_under_wrong_numbers_are_forged() {
    let (lender, mut borrower) = pair();
    lender.lie(Lie::Shifted);
    let got = borrower.fetch(&borrower.away()[..8]);
    assert_eq!(got[0], Got::Gone(GoneCause::Absent));
    assert!(
        got[1..]
            .iter()
            .all(|got| *got == Got::Gone(GoneCause::Forged)),
        "{got:?}"
    );
}

#[test]
fn a_page_of_before_is_forged() {
    let (lender, mut borrower) = pair();
    borrower.fill(1_000_000);
    borrower.fill(2_000_000);
    let is_older = |(_, ticket): &&(u32, sublet_store::AwayTicket)| {
        lender.has_older(ticket.address.index, ticket.address.place)
    };
    let away = borrower.away();
    let older: Vec<_> = away.iter().filter(is_older).take(16).copied().collect();
    assert!(!older.is_empty(), "frames were used again");
    lender.lie(Lie::Old);
    let got = borrower.fetch(&older);
    assert!(
        got.iter().all(|got| *got == Got::Gone(GoneCause::Forged)),
        "{got:?}"
    );
}

/// A connection that broke is opened anew after a pause, and the pages that were not asked for are still there.
#[test]
fn connections_that_break_are_opened_anew() {
    let (lender, mut borrower) = pair();
    let away = borrower.away();
    let mut batches = away.chunks(8);
    for (lie, cause) in [
        (Lie::Truncated, GoneCause::Unreachable),
        (Lie::Closes, GoneCause::Unreachable),
        (Lie::Replayed, GoneCause::BrokenProtocol),
    ] {
        lender.lie(lie);
        let got = borrower.fetch(batches.next().expect("pages"));
        assert!(
            got.iter().all(|got| *got == Got::Gone(cause)),
            "{lie:?}: {got:?}"
        );
        lender.lie(Lie::Honest);
        let batch = batches.next().expect("pages");
        wait_until("the next connection", || {
            let tickets = [batch[0].1];
            let mut is_there = false;
            borrower.fetcher.fetch(&tickets, |_, outcome| {
                is_there = matches!(outcome, FetchOutcome::Page(_));
            });
            is_there
        });
        let got = borrower.fetch(batch);
        let put = batch.iter().map(|(index, _)| Got::Fetched((*index).into()));
        assert_eq!(got, put.collect::<Vec<_>>(), "after {lie:?}");
    }
}

/// What a lender does wrong is reported, and one that breaks the protocol again and again is a liar.
#[test]
fn a_lender_that_breaks_the_protocol_again_and_again_is_a_liar() {
    let (lender, mut borrower) = pair();
    let away = borrower.away();
    let tickets = [away[0].1];
    let faults = Arc::clone(borrower.ledger.faults());
    let counted = |fault, count| CountedFaults {
        party: Some(FaultParty::Peer(PeerId(0))),
        fault,
        count,
    };
    lender.lie(Lie::Refuses);
    let refused = Got::Gone(GoneCause::Refused);
    assert_eq!(borrower.fetch(&away[1..9]), [refused; 8]);
    assert_eq!(faults.take(), [counted(PageFault::ReadRefused, 1)]);
    lender.lie(Lie::Replayed);
    for round in 1..4 {
        wait_until("the next connection breaks", || {
            let mut is_broken = false;
            borrower.fetcher.fetch(&tickets, |_, outcome| {
                is_broken = outcome == FetchOutcome::Gone(GoneCause::BrokenProtocol);
            });
            is_broken
        });
        assert_eq!(faults.take(), [counted(PageFault::BrokenProtocol, 1)]);
        let reported: &[_] = match round {
            3 => &[FetchNews::Forger { lender: PeerId(0) }],
            _ => &[],
        };
        assert_eq!(borrower.ledger.take_news(), reported, "round {round}");
    }
}

/// The courier reports a lender that breaks the protocol of writes. Again and again, it is a liar.
#[test]
fn a_lender_that_breaks_the_protocol_of_writes_is_reported() {
    let lender = FakeLender::start();
    lender.lie(Lie::Replayed);
    let borrower = TestBorrower::new(lender.address, LeaseId(1), BLOCKS);
    let faults = Arc::clone(borrower.ledger.faults());
    for index in 0..4096 {
        borrower.put(index, index.into());
        borrower.evict_ahead();
    }
    let broken = (Some(FaultParty::Peer(PeerId(0))), PageFault::BrokenProtocol);
    wait_until("it is reported", || {
        let faults = faults.take();
        faults.iter().any(|it| (it.party, it.fault) == broken)
    });
    let mut puts = 4096..;
    wait_until("it is a liar", || {
        let index = puts.next().expect("without end");
        borrower.put(index, index.into());
        borrower.evict_ahead();
        borrower.ledger.take_news() == [FetchNews::Forger { lender: PeerId(0) }]
    });
}

/// A lender that is away, or that lets no further connection in, was asked nothing. Its pages stay where they are.
#[test]
fn a_lender_that_lets_nobody_in_was_not_asked() {
    let (lender, mut borrower) = pair();
    let batch = &borrower.away()[..8];
    let nobody = ([127, 0, 0, 1], 1).into();
    borrower.route_by(session(nobody, PATIENT, SESSION));
    for _ in 0..2 {
        assert_eq!(borrower.fetch(batch), [Got::NotAsked; 8]);
    }
    // It closes at the first request of a new connection.
    lender.lie(Lie::Closes);
    borrower.route_by(session(lender.address, PATIENT, SESSION));
    assert_eq!(borrower.fetch(batch), [Got::NotAsked; 8]);
    lender.lie(Lie::Honest);
    let put = batch.iter().map(|(index, _)| Got::Fetched((*index).into()));
    let put: Vec<_> = put.collect();
    wait_until("the next connection", || borrower.fetch(batch) == put);
}

/// A silent lender costs some time-outs. Then it is not asked, and its pages stay where they are.
#[test]
fn a_silent_lender_is_asked_no_more() {
    let (lender, mut borrower) = pair();
    let quick = session(lender.address, Duration::ZERO, SessionId(SESSION.0));
    borrower.route_by(quick);
    borrower.fetcher = fetcher(&borrower.routes, &borrower.ledger, Duration::from_millis(1));
    lender.lie(Lie::Silent);
    let away = borrower.away();
    let mut late = 0;
    for page in away.chunks(1) {
        match borrower.fetch(page)[0] {
            Got::Gone(GoneCause::Late) => late += 1,
            Got::NotAsked => break,
            other => panic!("{other:?}"),
        }
    }
    assert!((1..100).contains(&late), "{late}");
    let guards = borrower.ledger.guards();
    let guards: Vec<_> = guards.iter().map(|it| (it.lender, it.state)).collect();
    assert_eq!(guards, [(PeerId(0), GuardState::Shut)]);
    assert!(matches!(
        &borrower.ledger.take_news()[..],
        [FetchNews::Guard {
            change: GuardChange::Shut { .. },
            ..
        }]
    ));
}

/// Answers that come too late are thrown away, and the next ones are believed.
#[test]
fn late_answers_are_thrown_away() {
    let (lender, mut borrower) = pair();
    let quick = session(lender.address, Duration::ZERO, SessionId(SESSION.0));
    borrower.route_by(quick);
    borrower.fetcher = fetcher(&borrower.routes, &borrower.ledger, Duration::from_secs(60));
    let away = borrower.away();
    let (mut late, mut fetched) = (0, 0);
    for batch in away.chunks(16).take(20) {
        for (got, (index, _)) in borrower.fetch(batch).into_iter().zip(batch) {
            match got {
                Got::Fetched(content) => {
                    assert_eq!(content, u64::from(*index));
                    fetched += 1;
                }
                Got::Gone(GoneCause::Late) | Got::NotAsked => late += 1,
                other => panic!("{other:?}"),
            }
        }
        borrower.fetcher.poll(SocketReadiness::Unknown);
    }
    assert_eq!(late + fetched, 320);
}

/// Writes that a lender refuses, leaves unanswered, or breaks off are lost, and nothing waits for them.
#[test]
fn a_connection_that_ends_settles_all_as_lost() {
    for lie in [Lie::Refuses, Lie::Closes, Lie::Silent] {
        let lender = FakeLender::start();
        lender.lie(lie);
        let mut borrower = TestBorrower::new(lender.address, LeaseId(1), BLOCKS);
        let mut puts = 0;
        while lender.writes() == 0 {
            borrower.put(puts, puts.into());
            borrower.evict_ahead();
            puts += 1;
        }
        if lie == Lie::Silent {
            let before = borrower.outbound();
            // Ending the courier ends its connections.
            drop(borrower.courier.take());
            assert!(borrower.outbound() < before);
            continue;
        }
        wait_until("all is settled", || borrower.outbound() == 0);
        let figures = borrower.courier.as_ref().expect("it runs").figures();
        assert_eq!(
            (figures.pages_taken, figures.pages_lost > 0),
            (0, true),
            "{lie:?}"
        );
        assert_eq!(borrower.at_lenders(), 0);
    }
}

/// A put never waits: a lender that hangs leaves the outbox full, and what it has no room for is dropped.
#[test]
fn a_put_does_not_wait_for_a_lender_that_hangs() {
    let lender = FakeLender::start();
    lender.lie(Lie::Silent);
    let borrower = TestBorrower::new(lender.address, LeaseId(1), BLOCKS);
    for index in 0..4096 {
        borrower.put(index, index.into());
        borrower.evict_ahead();
    }
    assert!(borrower.outbound() <= 512);
}
