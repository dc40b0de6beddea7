//! The courier's connection to a lender.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt::set_socket_linger;
use sublet_lend::wire::{
    AnswerEvent, BorrowerChannel, ConnectionClass, PageSet, WRITES_IN_FLIGHT_MAX, WireError,
};
use sublet_store::{LeaseSlot, SendOutcome, Worker};

use super::courier_figures::CarriedCounters;
use super::write_message::{BATCH_PAGES_MAX, SealedPage, WriteMessage};
use crate::peers::byte_buffers::{InputBuffer, SocketProgress};
use crate::peers::lease_routes::LeaseRoute;
use crate::peers::lender_session::LenderSession;
use crate::peers::lost_writes::LostWrites;
use crate::peers::outgoing_socket::{SILENCE_MAX, begin_connect};

/// Bytes that one read takes: more answers than can be under way.
const INPUT_BYTES: usize = 1 << 10;

/// Why a connection to a lender ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteConnectionEnd {
    /// The lender closed it, or the network did.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The lender broke the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The lender answered none of the writes that it has.
    #[error("the lender answered nothing for {} ms", SILENCE_MAX.as_millis())]
    Silent,
}

/// A write that is not answered.
struct UnansweredWrite {
    pages: Vec<SealedPage>,
    lost_writes: Arc<LostWrites>,
}

/// A connection to a lender. Its memory is fixed.
pub(super) struct WriteConnection {
    socket: TcpStream,
    channel: BorrowerChannel,
    input: InputBuffer,
    /// Since when the lender has answered nothing, while it had something to answer.
    silent_since: Instant,
    /// Whether the socket has taken the hello.
    is_connected: bool,
    /// Messages that are not sent, the oldest first.
    unsent: VecDeque<WriteMessage>,
    /// Writes that are not answered, the oldest first.
    unanswered: VecDeque<UnansweredWrite>,
    spare_messages: Vec<WriteMessage>,
    spare_pages: Vec<Vec<SealedPage>>,
}

impl WriteConnection {
    /// Begins to connect, with a hello to be sent.
    ///
    /// # Errors
    ///
    /// The kernel has no socket, or no way leads to the lender.
    pub(super) fn open(session: &LenderSession, now: Instant) -> io::Result<WriteConnection> {
        let (hello, keys) = session.next_hello(ConnectionClass::Write);
        let mut message = WriteMessage::new();
        message.set_hello(&hello.encode());
        Ok(WriteConnection {
            socket: begin_connect(session.address())?,
            channel: BorrowerChannel::new(ConnectionClass::Write, keys, session.incarnation()),
            input: InputBuffer::new(INPUT_BYTES),
            silent_since: now,
            is_connected: false,
            unsent: VecDeque::from([message]),
            unanswered: VecDeque::with_capacity(WRITES_IN_FLIGHT_MAX),
            spare_messages: Vec::new(),
            spare_pages: Vec::new(),
        })
    }

    /// Its socket, and what it waits for.
    pub(super) fn awaited(&self) -> (BorrowedFd<'_>, PollFlags) {
        let events = match self.unsent.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        };
        (self.socket.as_fd(), events)
    }

    /// Returns whether pages may be taken out of the outbox for it.
    pub(super) fn has_room(&self) -> bool {
        self.is_connected && self.channel.has_room()
    }

    /// Takes pages of a lease out of the outbox. Returns how many. They are sent by `exchange`.
    pub(super) fn take(
        &mut self,
        worker: &Worker,
        lease: LeaseSlot,
        route: &LeaseRoute,
        now: Instant,
    ) -> usize {
        let mut message = self.spare_messages.pop().unwrap_or_else(WriteMessage::new);
        let new_pages = || Vec::with_capacity(BATCH_PAGES_MAX);
        let mut pages = self.spare_pages.pop().unwrap_or_else(new_pages);
        message.fill_from_outbox(worker, lease, route, &mut self.channel, &mut pages);
        let taken = pages.len();
        if taken > 0 {
            self.unsent.push_back(message);
            if self.unanswered.is_empty() {
                self.silent_since = now;
            }
            self.unanswered.push_back(UnansweredWrite {
                pages,
                lost_writes: Arc::clone(&route.lost_writes),
            });
        } else {
            self.spare_messages.push(message);
            self.spare_pages.push(pages);
        }
        taken
    }

    /// Sends what the socket takes, and settles what the lender has answered.
    ///
    /// # Errors
    ///
    /// The connection is at its end. `disconnect` must follow.
    pub(super) fn exchange(
        &mut self,
        worker: &Worker,
        counters: &CarriedCounters,
        now: Instant,
    ) -> Result<(), WriteConnectionEnd> {
        self.send()?;
        while self.is_connected && self.input.fill(&mut self.socket)? == SocketProgress::More {
            self.receive(worker, counters, now)?;
        }
        // A lender that is held back answers one write after another. The last may wait for long.
        let is_waited_for = !self.unanswered.is_empty() || !self.is_connected;
        let silence = now.saturating_duration_since(self.silent_since);
        match is_waited_for && silence > SILENCE_MAX {
            true => Err(WriteConnectionEnd::Silent),
            false => Ok(()),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while let Some(message) = self.unsent.front_mut() {
            if message.send(&mut self.socket)? == SocketProgress::Blocked {
                return Ok(());
            }
            self.is_connected = true;
            self.spare_messages.extend(self.unsent.pop_front());
        }
        Ok(())
    }

    fn receive(
        &mut self,
        worker: &Worker,
        counters: &CarriedCounters,
        now: Instant,
    ) -> Result<(), WireError> {
        let mut unused = self.input.unused();
        while let AnswerEvent::Answered { answer, .. } = self.channel.receive(&mut unused)? {
            let write = self.unanswered.pop_front();
            let mut write = write.expect("the channel knows an unanswered request");
            self.silent_since = now;
            settle(worker, counters, &mut write.pages, answer.pages());
            self.spare_pages.push(write.pages);
        }
        let left = unused.len();
        self.input.leave(left);
        Ok(())
    }

    /// Ends the connection. All that is not answered is settled as lost.
    pub(super) fn disconnect(mut self, worker: &Worker, counters: &CarriedCounters) {
        for write in &self.unanswered {
            let places = write.pages.iter().map(|sealed| sealed.page.address);
            places.for_each(|address| write.lost_writes.add(address));
        }
        // The lender must get nothing more of these writes from this side: what the kernel has of them goes with the
        // socket. If it cannot be set, the lender throws them away when the next connection comes.
        let _ = set_socket_linger(&self.socket, Some(Duration::ZERO));
        drop(self.socket);
        for mut write in self.unanswered.drain(..) {
            settle(worker, counters, &mut write.pages, PageSet::default());
        }
    }
}

/// Settles the pages of a write, of which the lender took some.
fn settle(
    worker: &Worker,
    counters: &CarriedCounters,
    pages: &mut Vec<SealedPage>,
    taken: PageSet,
) {
    for (ordinal, sealed) in pages.drain(..).enumerate() {
        let outcome = match taken.contains(ordinal) {
            true => {
                CarriedCounters::bump(&counters.pages_taken);
                SendOutcome::Taken(sealed.tag)
            }
            false => {
                CarriedCounters::bump(&counters.pages_lost);
                SendOutcome::Lost
            }
        };
        worker.settle(sealed.page, outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;

    use sublet_lend::ids::LeaseId;
    use sublet_lend::wire::{Answer, HELLO_BYTES, HelloMessage, LenderChannel, RequestEvent};
    use sublet_store::FarAddress;

    use super::*;
    use crate::peers::tests::{
        LEASE, LENDER_INCARNATION, PATIENT, SESSION, TestBorrower, session, session_keys,
    };
    use crate::wait_until::wait_until;

    const WRITES: usize = 3;

    /// A lender that answers when the test says so.
    struct ScriptedLender {
        socket: TcpStream,
        channel: LenderChannel,
        came: Vec<u8>,
    }

    impl ScriptedLender {
        fn accept(listener: &TcpListener) -> ScriptedLender {
            let (mut socket, _) = listener.accept().expect("accepted");
            let mut hello = [0; HELLO_BYTES];
            socket.read_exact(&mut hello).expect("a hello");
            let hello = HelloMessage::decode(&hello).expect("a hello").hello;
            let keys = session_keys().connection_keys(&hello);
            ScriptedLender {
                socket,
                channel: LenderChannel::new(hello.class, keys, LENDER_INCARNATION),
                came: Vec::new(),
            }
        }

        /// Answers the oldest write.
        fn answer(&mut self) {
            loop {
                let mut unused = &self.came[..];
                let event = self.channel.receive(&mut unused).expect("a write");
                let pages = match event {
                    RequestEvent::WriteComplete(request) => Some(request.pages),
                    _ => None,
                };
                let is_idle = event == RequestEvent::Idle;
                let used = self.came.len() - unused.len();
                self.came.drain(..used);
                if let Some(pages) = pages {
                    let answer = Answer::Pages(PageSet::first(pages));
                    let answer = self.channel.answer(answer).expect("it suits");
                    return self.socket.write_all(&answer).expect("sent");
                }
                if is_idle {
                    let mut more = [0; 1 << 14];
                    let read = self.socket.read(&mut more).expect("the borrower is there");
                    self.came.extend_from_slice(&more[..read]);
                }
            }
        }
    }

    /// A lender's rate may let the last of many writes wait for longer than a silent lender may be silent.
    #[test]
    fn a_lender_is_silent_only_if_it_answers_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        // Its courier finds nobody there.
        let mut borrower = TestBorrower::new(([127, 0, 0, 1], 1).into(), LeaseId(1), 2);
        drop(borrower.courier.take());
        for index in 0..4096 {
            borrower.put(index, index.into());
            borrower.evict_ahead();
        }
        let (worker, counters) = (&borrower.worker, CarriedCounters::default());
        let route = borrower.routes.find(LEASE).expect("a route");
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let session = session(address, PATIENT, SESSION);
        let mut connection = WriteConnection::open(&session, began).expect("a socket");
        wait_until("it is connected", || {
            let exchanged = connection.exchange(worker, &counters, began);
            exchanged.expect("it stays");
            connection.has_room()
        });
        let mut lender = ScriptedLender::accept(&listener);
        for _ in 0..WRITES {
            let taken = connection.take(worker, LEASE, &route, began);
            assert_eq!(taken, BATCH_PAGES_MAX);
        }
        let exchanged = connection.exchange(worker, &counters, began);
        exchanged.expect("it stays");
        for (answered, millis) in [(1, 900), (2, 1800)] {
            lender.answer();
            wait_until("the answer is there", || {
                let exchanged = connection.exchange(worker, &counters, at(millis));
                exchanged.expect("it stays");
                connection.unanswered.len() == WRITES - answered
            });
        }
        let exchanged = connection.exchange(worker, &counters, at(2700));
        exchanged.expect("it has 100 ms more");
        let end = connection.exchange(worker, &counters, at(2801));
        assert!(matches!(end, Err(WriteConnectionEnd::Silent)), "{end:?}");

        let unanswered = connection.unanswered.iter();
        let lost = unanswered.flat_map(|write| &write.pages);
        let lost: Vec<_> = lost.map(|sealed| sealed.page.address).collect();
        assert_eq!(lost.len(), BATCH_PAGES_MAX);
        let outbound = borrower.outbound() as usize;
        connection.disconnect(worker, &counters);
        assert_eq!(borrower.outbound() as usize, outbound - lost.len());
        let is_lost = |address: &FarAddress| route.lost_writes.excuse(*address);
        assert!(lost.iter().all(is_lost));
        // What the kernel had of it goes with the connection.
        let mut rest = [0; 1 << 14];
        let end = loop {
            match lender.socket.read(&mut rest) {
                Ok(0) => break None,
                Ok(_) => {}
                Err(error) => break Some(error.kind()),
            }
        };
        assert_eq!(end, Some(ErrorKind::ConnectionReset));
    }
}
