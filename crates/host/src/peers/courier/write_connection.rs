//! The courier's connection to a lender.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use sublet_lend::wire::{
    AnswerEvent, BorrowerChannel, ConnectionClass, PageSet, WRITES_IN_FLIGHT_MAX, WireError,
};
use sublet_store::{LeaseSlot, SendOutcome, Worker};

use super::courier_figures::CarriedCounters;
use super::write_message::{BATCH_PAGES_MAX, SealedPage, WriteMessage};
use crate::peers::byte_buffers::{InputBuffer, SocketProgress};
use crate::peers::lease_routes::LeaseRoute;
use crate::peers::lender_session::LenderSession;
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
    /// The lender left a write unanswered.
    #[error("the lender answered nothing for {} ms", SILENCE_MAX.as_millis())]
    Silent,
}

/// A write that is not answered.
struct UnansweredWrite {
    pages: Vec<SealedPage>,
    sent_at: Instant,
}

/// A connection to a lender. Its memory is fixed.
pub(super) struct WriteConnection {
    socket: TcpStream,
    channel: BorrowerChannel,
    input: InputBuffer,
    opened_at: Instant,
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
            opened_at: now,
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
            let sent_at = now;
            self.unanswered
                .push_back(UnansweredWrite { pages, sent_at });
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
            self.receive(worker, counters)?;
        }
        let waits_since = match self.unanswered.front() {
            Some(write) => Some(write.sent_at),
            None => (!self.is_connected).then_some(self.opened_at),
        };
        let waits =
            waits_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        match waits > SILENCE_MAX {
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

    fn receive(&mut self, worker: &Worker, counters: &CarriedCounters) -> Result<(), WireError> {
        let mut unused = self.input.unused();
        while let AnswerEvent::Answered { answer, .. } = self.channel.receive(&mut unused)? {
            let write = self.unanswered.pop_front();
            let mut write = write.expect("the channel knows an unanswered request");
            settle(worker, counters, &mut write.pages, answer.pages());
            self.spare_pages.push(write.pages);
        }
        let left = unused.len();
        self.input.leave(left);
        Ok(())
    }

    /// Ends the connection. All that is not answered is settled as lost.
    pub(super) fn disconnect(mut self, worker: &Worker, counters: &CarriedCounters) {
        // The lender must get nothing more of these writes from this side.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
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
