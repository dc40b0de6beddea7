//! A borrower that claims what it was not lent, breaks the protocol, or spends more than it may.

use std::net::TcpListener;
use std::time::Duration;

use sublet_lend::wire::{Answer, ConnectionClass, HELLO_BYTES, PageSet};

use super::lender::TestLender;
use super::raw_connection::{RawConnection, connect, hello, is_closed, ranges};
use super::{LENDER_INCARNATION, content_of, page_of};
use crate::peers::page_faults::{FaultParty, PageFault};
use crate::peers::page_server::ServingRate;
use crate::wait_until::wait_until;

const BLOCKS: u32 = 2;

fn lender() -> TestLender {
    TestLender::start(BLOCKS, 1, ServingRate::Unbounded)
}

fn open(lender: &TestLender, class: ConnectionClass, number: u64) -> RawConnection {
    RawConnection::open(lender.address, class, number, LENDER_INCARNATION)
}

#[test]
fn what_was_never_lent_is_refused_both_ways() {
    let lender = lender();
    let lease = lender.grant.lease.0;
    let mut writes = open(&lender, ConnectionClass::Write, 1);
    let mut reads = open(&lender, ConnectionClass::Read, 2);
    let mine = ranges(&[(lender.grant.first, 3, 1)]);
    writes.send(lease, &mine, &page_of(7)).expect("sent");
    let taken = writes.receive().expect("answered").0;
    assert_eq!(taken, Answer::Pages(PageSet(1)));
    let foreign = [
        (lease + 1, ranges(&[(lender.grant.first, 3, 1)])),
        (u32::MAX, ranges(&[(lender.grant.first, 3, 1)])),
        (lease, ranges(&[(lender.grant.first + BLOCKS, 3, 1)])),
        (lease, ranges(&[(u32::MAX, 511, 1)])),
    ];
    for (lease, pages) in &foreign {
        writes.send(*lease, pages, &page_of(8)).expect("sent");
        assert_eq!(writes.receive().expect("answered").0, Answer::Refused);
        reads.send(*lease, pages, &[]).expect("sent");
        let (answer, bytes) = reads.receive().expect("answered");
        assert_eq!((answer, bytes.len()), (Answer::Refused, 0));
    }
    let mixed = ranges(&[(lender.grant.first, 3, 1), (u32::MAX, 0, 1)]);
    reads.send(lease, &mixed, &[]).expect("sent");
    let (answer, bytes) = reads.receive().expect("answered");
    assert_eq!((answer, bytes.len()), (Answer::Refused, 0));
    let figures = lender.server.figures();
    assert_eq!(figures.requests_refused, 2 * foreign.len() as u64 + 1);
    assert_eq!(figures.pages_written, 1);
    reads.send(lease, &mine, &[]).expect("sent");
    let (answer, bytes) = reads.receive().expect("answered");
    assert_eq!((answer, content_of(&bytes)), (Answer::Pages(PageSet(1)), 7));
}

/// However a write is cut on its way, its pages are what was sent, and only pages that were written are read.
#[test]
fn a_write_in_pieces_is_whole() {
    let lender = lender();
    let lease = lender.grant.lease.0;
    let mut writes = open(&lender, ConnectionClass::Write, 1);
    let mut reads = open(&lender, ConnectionClass::Read, 2);
    let (first, second) = (lender.grant.first, lender.grant.first + 1);
    let pages = ranges(&[(second, 500, 12), (first, 0, 3)]);
    let bytes: Vec<u8> = (0..15).flat_map(|n| page_of(1000 * n)).collect();
    for piece in [1, 100, 4095, 4097, 15 * 4096] {
        let mut out = Vec::new();
        writes
            .channel
            .request(lease, &pages, &mut out)
            .expect("room");
        out.extend_from_slice(&bytes);
        for piece in out.chunks(piece.max(out.len() / 200)) {
            std::io::Write::write_all(&mut writes.socket, piece).expect("sent");
        }
        let taken = writes.receive().expect("answered").0;
        assert_eq!(taken, Answer::Pages(PageSet::first(15)));
        let asked = ranges(&[(first, 0, 4), (second, 498, 14)]);
        reads.send(lease, &asked, &[]).expect("sent");
        let (answer, read) = reads.receive().expect("answered");
        let present = PageSet(0b111 | 0xfff << 6);
        assert_eq!(answer, Answer::Pages(present));
        let order = (12..15).chain(0..12);
        let sent: Vec<u64> = order.map(|n| 1000 * n).collect();
        let read: Vec<u64> = read.chunks(4096).map(content_of).collect();
        assert_eq!(read, sent);
    }
}

#[test]
fn strangers_and_replays_are_not_let_in() {
    let lender = lender();
    let good = hello(ConnectionClass::Read, 1);
    let mut forged = good;
    forged.proof[0] ^= 1;
    let mut other_session = good;
    other_session.hello.session += 1;
    let strangers: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &forged.encode(),
        &other_session.encode(),
        &[0; HELLO_BYTES],
    ];
    for stranger in strangers {
        assert!(is_closed(connect(lender.address, stranger)));
    }
    let mut kept = open(&lender, ConnectionClass::Read, 1);
    let pages = ranges(&[(lender.grant.first, 0, 1)]);
    kept.send(lender.grant.lease.0, &pages, &[]).expect("sent");
    let answer = kept.receive().expect("answered").0;
    assert_eq!(answer, Answer::Pages(PageSet::default()));
    assert!(
        is_closed(connect(lender.address, &good.encode())),
        "a replay"
    );
    assert_eq!(lender.server.figures().connections_refused, 5);
    let address = kept.socket.peer_addr().expect("connected").ip();
    let faults: Vec<_> = lender
        .sessions
        .faults
        .take()
        .into_iter()
        .map(|it| (it.party, it.fault, it.count))
        .collect();
    let party = Some(FaultParty::Address(address));
    let expected = [
        (party, PageFault::BadHello, 2),
        (party, PageFault::NotAdmitted, 3),
    ];
    assert_eq!(faults, expected);
    assert_eq!(lender.sessions.open(), 1);
    drop(kept);
    wait_until("it is closed", || lender.sessions.open() == 0);
}

#[test]
fn a_broken_protocol_ends_the_connection() {
    let lender = lender();
    let lease = lender.grant.lease.0;
    let pages = ranges(&[(lender.grant.first, 0, 1)]);
    let mut other_run = RawConnection::open(lender.address, ConnectionClass::Read, 1, 99);
    other_run.send(lease, &pages, &[]).expect("sent");
    assert!(is_closed(other_run.socket));
    let mut replayed = open(&lender, ConnectionClass::Read, 2);
    let mut out = Vec::new();
    replayed
        .channel
        .request(lease, &pages, &mut out)
        .expect("room");
    let twice = [out.clone(), out].concat();
    std::io::Write::write_all(&mut replayed.socket, &twice).expect("sent");
    let broken = || lender.server.figures().connections_broken;
    wait_until("both are broken", || broken() == 2);
    wait_until("both are closed", || lender.sessions.open() == 0);
}

/// A borrower that opens another connection for writes has given the first one up, and with it all that it has yet to
/// bring: its frames may hold other pages by now.
#[test]
fn an_old_write_connection_writes_nothing_after_a_new_one() {
    let lender = TestLender::start(BLOCKS, 2, ServingRate::Unbounded);
    let lease = lender.grant.lease.0;
    let pages = ranges(&[(lender.grant.first, 0, 2)]);
    let both = |content| [page_of(content), page_of(content + 1)].concat();
    let mut old = open(&lender, ConnectionClass::Write, 1);
    old.send(lease, &pages, &both(10)).expect("sent");
    old.receive().expect("answered");
    let mut late = Vec::new();
    old.channel.request(lease, &pages, &mut late).expect("room");
    late.extend_from_slice(&both(20));
    let (begun, rest) = late.split_at(late.len() - 5000);
    std::io::Write::write_all(&mut old.socket, begun).expect("sent");
    let mut new = open(&lender, ConnectionClass::Write, 2);
    new.send(lease, &pages, &both(30)).expect("sent");
    new.receive().expect("answered");
    // The lender may have closed it.
    let _ = std::io::Write::write_all(&mut old.socket, rest);
    assert!(is_closed(old.socket));
    let mut reads = open(&lender, ConnectionClass::Read, 3);
    reads.send(lease, &pages, &[]).expect("sent");
    let (_, read) = reads.receive().expect("answered");
    let read: Vec<u64> = read.chunks(4096).map(content_of).collect();
    assert_eq!(read, [30, 31]);
    let figures = lender.server.figures();
    assert_eq!(
        (figures.connections_broken, figures.connections_refused),
        (0, 0)
    );
}

/// Nobody needs a certificate to connect and say nothing.
#[test]
fn silent_connections_keep_no_borrower_out() {
    let lender = lender();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let pages = ranges(&[(lender.grant.first, 0, 1)]);
    let mut silent = Vec::new();
    for number in 1..=7 {
        for _ in 0..50 {
            silent.push(connect(address, &[]));
            lender.server.adopt(listener.accept().expect("accepted").0);
        }
        // Whoever came before it was taken over before it.
        let mut reads = open(&lender, ConnectionClass::Read, number);
        reads.send(lender.grant.lease.0, &pages, &[]).expect("sent");
        let answer = reads.receive().expect("answered").0;
        assert_eq!(answer, Answer::Pages(PageSet::default()));
    }
    drop(silent);
}

/// When the rate is spent, replies wait. The first request overdraws it for longer than any test lasts.
#[test]
fn replies_wait_when_the_rate_is_spent() {
    let lender = TestLender::start(BLOCKS, 1, ServingRate::BytesPerSecond(1));
    let lease = lender.grant.lease.0;
    let mut writes = open(&lender, ConnectionClass::Write, 1);
    let pages = ranges(&[(lender.grant.first, 0, 1)]);
    writes.send(lease, &pages, &page_of(1)).expect("sent");
    writes.receive().expect("answered");
    let limit = Some(Duration::from_millis(50));
    writes.socket.set_read_timeout(limit).expect("set");
    writes.send(lease, &pages, &page_of(1)).expect("sent");
    assert!(writes.receive().is_err());
    assert_eq!(lender.server.figures().pages_written, 1);
}

/// A spent rate keeps no hello waiting: whoever says it in time is let in, and is not taken for silent.
#[test]
fn hellos_are_received_when_the_rate_is_spent() {
    let lender = TestLender::start(BLOCKS, 1, ServingRate::BytesPerSecond(1));
    let mut writes = open(&lender, ConnectionClass::Write, 1);
    let pages = ranges(&[(lender.grant.first, 0, 1)]);
    let lease = lender.grant.lease.0;
    writes.send(lease, &pages, &page_of(1)).expect("sent");
    writes.receive().expect("answered");
    // Something that waits for the rate.
    writes.send(lease, &pages, &page_of(1)).expect("sent");
    let _later: Vec<_> = (2..12)
        .map(|number| open(&lender, ConnectionClass::Read, number))
        .collect();
    wait_until("all are let in", || lender.sessions.open() == 11);
    let figures = lender.server.figures();
    assert_eq!((figures.connections_refused, figures.pages_written), (0, 1));
}
