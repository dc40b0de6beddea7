use std::net::{SocketAddr, TcpListener};

use mio::Waker;
use sublet_frontends::tenancy::Clock;
use sublet_lend::wire::{ConnectionClass, PAGES_MAX};
use sublet_types::Bytes;

use super::*;
use crate::peers::page_server::ServingRate;
use crate::peers::tests::{LENDER_INCARNATION, OneSession, RawConnection, page_of, ranges, store};
use crate::wait_until::wait_until;

const READERS: u64 = 5;

/// A thread that the test drives by hand, and where borrowers connect.
struct DrivenThread {
    thread: ServingThread,
    listener: TcpListener,
    address: SocketAddr,
}

impl DrivenThread {
    fn new(service: PageService, sessions: Arc<OneSession>, rate: ServingRate) -> DrivenThread {
        let poll = Poll::new().expect("an epoll");
        let waker = Waker::new(poll.registry(), INBOX).expect("a waker");
        let budget = ServingBudget::new(CpuShare::Unbounded, rate, Duration::ZERO);
        let shared = SharedService {
            sessions,
            budget: Arc::new(Mutex::new(budget)),
            cpu: CpuShare::Unbounded,
            origin: Instant::now(),
            incarnation: LENDER_INCARNATION,
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        DrivenThread {
            thread: ServingThread::new(poll, ThreadInbox::new(waker), service, shared),
            address: listener.local_addr().expect("bound"),
            listener,
        }
    }

    /// A connection whose hello was received.
    fn open(&mut self, class: ConnectionClass, number: u64) -> RawConnection {
        let raw = RawConnection::open(self.address, class, number, LENDER_INCARNATION);
        let (socket, _) = self.listener.accept().expect("accepted");
        self.thread.add(socket);
        wait_until("the hello is there", || {
            self.look();
            self.thread.hellos_awaited == 0
        });
        raw
    }

    /// What the thread does before a round.
    fn look(&mut self) {
        let looked = self.thread.look(Duration::ZERO);
        looked.expect("the kernel reports");
        self.thread.note_events();
        self.thread.serve_hellos();
    }

    fn moved(&self) -> (u64, u64) {
        let figures = self.thread.service.counters().figures();
        (figures.pages_read, figures.pages_written)
    }
}

/// However many readers there are, a small rate is overdrawn by one turn, and a write has every other one.
#[test]
fn a_round_ends_when_the_rate_is_spent_and_a_write_has_the_next_turn() {
    let store = store(Bytes::mib(16), 0);
    let worker = store.worker().expect("a worker");
    let sessions = OneSession::new();
    let grant = sessions.lend(&worker, 1);
    let block = sessions.block(&grant, grant.first);
    for place in 0..PAGES_MAX as u16 {
        assert!(worker.write_lent(block, place, |page| page.fill(1)));
    }
    let service = PageService::new(worker, Clock::start(), sessions.clone(), Arc::default());
    let rate = ServingRate::BytesPerSecond(1);
    let mut driven = DrivenThread::new(service, sessions, rate);
    let (lease, all) = (grant.lease.0, ranges(&[(grant.first, 0, PAGES_MAX as u16)]));
    let mut readers: Vec<_> = (0..READERS)
        .map(|reader| driven.open(ConnectionClass::Read, 1 + reader))
        .collect();
    let mut writer = driven.open(ConnectionClass::Write, 1 + READERS);
    let one = ranges(&[(grant.first, 9, 1)]);
    for _ in 0..2 {
        for reader in &mut readers {
            reader.send(lease, &all, &[]).expect("sent");
        }
        writer.send(lease, &one, &page_of(2)).expect("sent");
    }
    wait_until("all are due", || {
        driven.look();
        let connections = driven.thread.connections.iter_mut().flatten();
        connections
            .map(|queued| queued.connection.socket().peek(&mut [0]))
            .all(|there| there.is_ok())
    });
    let (mut read, mut written) = (0, 0);
    for turn in 0..4 {
        driven.thread.serve_round();
        match turn % 2 {
            0 => read += PAGES_MAX as u64,
            _ => written += 1,
        }
        assert_eq!(driven.moved(), (read, written), "turn {turn}");
    }
}
