//! One connection of a borrower, as a thread of the page server serves it.

use std::io;
use std::time::Instant;

use mio::net::TcpStream;
use sublet_lend::ids::SessionId;
use sublet_lend::wire::{
    ConnectionClass, HelloError, HelloReader, LenderChannel, NewestWrite, PAGES_MAX, RequestEvent,
    WireError,
};

use super::control_queries::{AdmitConnections, ConnectionRefused};
use super::page_service::{ArrivingWrite, PageService, ServedSession};
use crate::peers::byte_buffers::{InputBuffer, OutputBuffer, SocketProgress};

/// Bytes that one read of a read connection takes: some dozens of requests.
const READ_INPUT_BYTES: usize = 4 << 10;

/// Bytes that one read of a write connection takes: sixteen pages, which stay in the second cache.
const WRITE_INPUT_BYTES: usize = 64 << 10;

/// Pages that a connection gets before others have their turn: one request of the largest kind.
const TURN_PAGES_MAX: usize = PAGES_MAX;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServedConnectionEnd {
    /// The borrower closed it, or the network did.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The hello is none.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The connection is not let in.
    #[error(transparent)]
    Refused(#[from] ConnectionRefused),
    /// The borrower broke the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The borrower has given it up, and writes on another.
    #[error("the session has a newer connection for writes")]
    Replaced,
}

/// What a turn of a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnOutcome {
    /// The kernel reports when there is more to do.
    Idle,
    /// There is more to do, once others have had their turn.
    MoreDue,
}

/// A connection of a borrower.
pub(super) struct ServedConnection {
    socket: TcpStream,
    input: InputBuffer,
    output: OutputBuffer,
    opened_at: Instant,
    phase: ConnectionPhase,
}

enum ConnectionPhase {
    AwaitsHello(HelloReader),
    Serves(Box<ServedChannel>),
}

struct ServedChannel {
    from: ServedSession,
    class: ConnectionClass,
    channel: LenderChannel,
    /// The connection's number in its session.
    number: u64,
    newest_write: NewestWrite,
    write: Option<ArrivingWrite>,
}

/// Pages that a turn has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MovedPages(pub(super) usize);

impl ServedConnection {
    /// A connection that has said nothing yet.
    pub(super) fn new(socket: TcpStream, now: Instant) -> ServedConnection {
        ServedConnection {
            socket,
            input: InputBuffer::new(READ_INPUT_BYTES),
            output: OutputBuffer::default(),
            opened_at: now,
            phase: ConnectionPhase::AwaitsHello(HelloReader::default()),
        }
    }

    /// Its socket.
    pub(super) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// What it carries. `None` until its hello has come.
    pub(super) fn class(&self) -> Option<ConnectionClass> {
        match &self.phase {
            ConnectionPhase::AwaitsHello(_) => None,
            ConnectionPhase::Serves(served) => Some(served.class),
        }
    }

    /// Since when its hello has been awaited. `None` if it has come.
    pub(super) fn awaits_hello_since(&self) -> Option<Instant> {
        self.class().is_none().then_some(self.opened_at)
    }

    /// Whose it is. `None` until it was let in.
    pub(super) fn session(&self) -> Option<ServedSession> {
        match &self.phase {
            ConnectionPhase::AwaitsHello(_) => None,
            ConnectionPhase::Serves(served) => Some(served.from),
        }
    }

    /// Returns whether it belongs to a session.
    pub(super) fn is_of(&self, session: SessionId) -> bool {
        self.session().is_some_and(|from| from.session == session)
    }

    /// Serves until nothing is left, or its turn is over. A turn has at most one write, or the hello alone.
    pub(super) fn serve(
        &mut self,
        service: &PageService,
        sessions: &dyn AdmitConnections,
        incarnation: u64,
        moved: &mut MovedPages,
    ) -> Result<TurnOutcome, ServedConnectionEnd> {
        let mut in_turn = 0;
        loop {
            if let ConnectionPhase::Serves(served) = &mut self.phase
                && !served.channel.wants_input(self.output.unsent())
                && self.output.flush(&mut self.socket)? == SocketProgress::Blocked
            {
                return Ok(TurnOutcome::Idle);
            }
            if self.input.fill(&mut self.socket)? == SocketProgress::Blocked {
                self.output.flush(&mut self.socket)?;
                return Ok(TurnOutcome::Idle);
            }
            match &mut self.phase {
                ConnectionPhase::AwaitsHello(_) => {
                    self.receive_hello(sessions, incarnation)?;
                    if self.class().is_some() {
                        return Ok(TurnOutcome::MoreDue);
                    }
                }
                ConnectionPhase::Serves(served) => {
                    let pages = served.receive(service, &mut self.input, &mut self.output)?;
                    moved.0 += pages.0;
                    in_turn += pages.0;
                }
            }
            let turn_max = match self.class() {
                Some(ConnectionClass::Write) => 1,
                _ => TURN_PAGES_MAX,
            };
            if in_turn >= turn_max {
                self.output.flush(&mut self.socket)?;
                return Ok(TurnOutcome::MoreDue);
            }
        }
    }

    fn receive_hello(
        &mut self,
        sessions: &dyn AdmitConnections,
        incarnation: u64,
    ) -> Result<(), ServedConnectionEnd> {
        let ConnectionPhase::AwaitsHello(reader) = &mut self.phase else {
            return Ok(());
        };
        let mut input = self.input.unused();
        let message = reader.receive(&mut input)?;
        let left = input.len();
        self.input.leave(left);
        let Some(message) = message else {
            return Ok(());
        };
        let admitted = sessions.admit(&message)?;
        let class = message.hello.class;
        let write = match class {
            ConnectionClass::Read => None,
            ConnectionClass::Write => {
                self.input.grow(WRITE_INPUT_BYTES);
                Some(ArrivingWrite::new())
            }
        };
        self.phase = ConnectionPhase::Serves(Box::new(ServedChannel {
            from: ServedSession {
                peer: admitted.peer,
                session: admitted.session,
            },
            class,
            channel: LenderChannel::new(class, admitted.keys, incarnation),
            number: message.hello.connection,
            newest_write: admitted.newest_write,
            write,
        }));
        Ok(())
    }
}

impl ServedChannel {
    /// Takes what has come, up to the end of one request, and answers that. Returns the pages that it moved.
    fn receive(
        &mut self,
        service: &PageService,
        input: &mut InputBuffer,
        output: &mut OutputBuffer,
    ) -> Result<MovedPages, ServedConnectionEnd> {
        let mut unused = input.unused();
        let moved = loop {
            let event = self.channel.receive(&mut unused)?;
            if self.write.is_some() && self.newest_write.is_after(self.number) {
                return Err(ServedConnectionEnd::Replaced);
            }
            match (event, &mut self.write) {
                (RequestEvent::Read(request), _) => {
                    let (channel, out) = (&mut self.channel, output.bytes());
                    let present = service.read(self.from, request, channel, out);
                    // A request for what is not here costs a turn as well.
                    break MovedPages(present.max(1));
                }
                (RequestEvent::WriteBegins(request), Some(write)) => write.begin(request),
                (RequestEvent::PageBytes { page, span, bytes }, Some(write)) => {
                    service.take_page_bytes(self.from, write, page, span, bytes);
                }
                (RequestEvent::WriteComplete(request), Some(write)) => {
                    service.end_write(self.from, write, &mut self.channel, output.bytes());
                    break MovedPages(request.pages);
                }
                (RequestEvent::Idle, _) | (_, None) => break MovedPages(0),
            }
        };
        let left = unused.len();
        input.leave(left);
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::Arc;

    use sublet_frontends::tenancy::Clock;
    use sublet_lend::wire::{PAGE_BYTES, UNSENT_BYTES_MAX};
    use sublet_types::Bytes;

    use super::*;
    use crate::peers::tests::{
        LENDER_INCARNATION, OneSession, RawConnection, ranges, reads_without_bound, store,
    };

    /// Whoever asks and reads no answer is read from no further than the bound.
    #[test]
    fn answers_that_nobody_reads_are_bounded() {
        let store = store(Bytes::mib(16), 0);
        let worker = store.worker().expect("a worker");
        let sessions = OneSession::new();
        let grant = sessions.lend(&worker, 1);
        let block = sessions.block(&grant, grant.first);
        for place in 0..64 {
            assert!(worker.write_lent(block, place, |page| page.fill(1)));
        }
        let counters = Arc::default();
        let service = PageService::new(worker, Clock::start(), sessions.clone(), counters);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut raw = RawConnection::open(address, ConnectionClass::Read, 1, LENDER_INCARNATION);
        raw.socket.set_nonblocking(true).expect("set");
        let (socket, _) = listener.accept().expect("accepted");
        socket.set_nonblocking(true).expect("set");
        let now = Clock::start().monotonic().now();
        let mut served = ServedConnection::new(TcpStream::from_std(socket), now);
        let (mut moved, mut largest, mut asked) = (MovedPages::default(), 0, 0usize);
        let pages = ranges(&[(grant.first, 0, 64)]);
        let mut requests = reads_without_bound(grant.lease.0, &pages);
        let mut unsent: Vec<u8> = Vec::new();
        for _ in 0..20_000 {
            if unsent.is_empty() {
                unsent = requests.next().expect("without end");
                asked += 1;
            }
            if let Ok(sent) = raw.socket.write(&unsent) {
                unsent.drain(..sent);
            }
            let turn = served.serve(&service, &*sessions, LENDER_INCARNATION, &mut moved);
            turn.expect("the connection stays");
            largest = largest.max(served.output.unsent());
        }
        assert!(
            moved.0 > 0 && moved.0 < asked * PAGES_MAX,
            "{moved:?} of {asked}"
        );
        assert!(largest > UNSENT_BYTES_MAX, "{largest}");
        assert!(
            largest <= UNSENT_BYTES_MAX + (PAGES_MAX + 1) * PAGE_BYTES,
            "{largest}"
        );
    }
}
