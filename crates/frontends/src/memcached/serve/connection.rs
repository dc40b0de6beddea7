//! One connection: a socket, what travels on it, and its session.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use sublet_types::TenantId;

use super::buffers::{BufferPool, Desk, Queue};
use super::floor::Floor;
use super::seat::Seat;
use crate::doors::{Veil, socket};
use crate::memcached::connections::Doing;
use crate::memcached::instance::Instance;
use crate::memcached::outcome::Next;
use crate::memcached::session::{Advance, Session};

/// Reads of one connection before others get a turn: 1 MiB.
const READS_PER_TURN: usize = 16;

/// Rounds of replies that one connection's requests fill before others get a turn: about 1 MiB.
const WRITES_PER_TURN: usize = 4;

/// What a closing connection's client may still have sent: it is read, lest the kernel answers with a
/// reset that overtakes the last reply.
const LAST_WORDS_MAX: usize = 256 << 10;

/// Who has stopped in the middle of a large value or a long line for this long gives way where memory for such is short.
const STALL_MAX: Duration = Duration::from_secs(5);

/// How a turn of a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It waits for its client.
    Rest,
    /// It waits for its client to read.
    Blocked,
    /// It has more to do, but it is the others' turn.
    Again,
    /// It watches: it wants a turn soon, whatever its socket does.
    Watch,
    /// It is over.
    Over,
    /// It is over, and so shall the process be.
    Shutdown {
        /// Whether connections may finish first.
        graceful: bool,
    },
}

/// What the kernel said of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    pub(super) readable: bool,
    /// It hung up, or something urgent came: a short read may leave something.
    pub(super) odd: bool,
}

/// The other side is gone, or its socket is of no more use.
pub(super) struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Gone {
        Gone
    }
}

/// Whether a socket took or gave all it could.
#[derive(PartialEq, Eq)]
enum Flow {
    Open,
    Blocked,
}

/// One connection.
pub(super) struct Connection {
    socket: Arc<OwnedFd>,
    veil: Option<Box<Veil>>,
    session: Session,
    seat: Seat,
    tenant: TenantId,
    inbox: Queue,
    outbox: Queue,
    next: Next,
    /// Bytes that the inbox must hold before it pays to ask the session again.
    enough: usize,
    readable: bool,
    odd: bool,
    is_unix: bool,
    /// Something came since it was last [expected](Connection::expect_input).
    heard: bool,
    pub(super) last_heard: Instant,
    pub(super) turn_is_due: bool,
    pub(super) was_blocked: bool,
    /// Memory of its buffers that its worker knows of.
    pub(super) held_counted: usize,
}

impl Connection {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        veil: Option<Veil>,
        seat: Seat,
        tenant: TenantId,
        now: Instant,
    ) -> Connection {
        let is_unix = socket_domain(&socket).is_ok_and(|domain| domain == AddressFamily::UNIX);
        Connection {
            session: Session::new(Arc::clone(seat.instance()), Arc::clone(seat.peer())),
            socket,
            veil: veil.map(Box::new),
            seat,
            tenant,
            inbox: Queue::default(),
            outbox: Queue::default(),
            next: Next::Read { wanted: 1 },
            enough: 1,
            readable: true,
            odd: false,
            is_unix,
            heard: false,
            last_heard: now,
            turn_is_due: false,
            was_blocked: false,
            held_counted: 0,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn instance(&self) -> &Arc<Instance> {
        self.seat.instance()
    }

    /// Nothing is under way: no reply unsent, no request half received.
    pub(super) fn is_idle(&self) -> bool {
        self.inbox.is_empty() && self.outbox.is_empty()
    }

    /// Nothing is on its way to its client, nor will be until that says something.
    fn awaits_client(&self) -> bool {
        self.outbox.is_empty() && self.session.awaits_client()
    }

    /// It holds memory that all connections share, for what is still coming.
    pub(super) fn holds_shared_memory(&self) -> bool {
        self.session.holds_shared_memory()
    }

    /// It stays now, and may have to leave later: it turns idle, or memory becomes short while it holds some.
    pub(super) fn may_have_to_leave(&self) -> bool {
        self.holds_shared_memory() || self.instance().settings.idle_timeout.is_some()
    }

    /// When it is to be closed if nothing comes until then; `None` while it may stay.
    pub(super) fn leaves_at(&self) -> Option<Instant> {
        let stalls = self.holds_shared_memory() && self.instance().memory.is_short();
        let waits = [
            self.instance()
                .settings
                .idle_timeout
                .filter(|_| self.awaits_client()),
            stalls.then_some(STALL_MAX),
        ];
        let wait = waits.into_iter().flatten().min()?;
        Some(self.last_heard + wait)
    }

    /// Hears that it is closed because it was idle.
    pub(super) fn note_idle(&mut self) {
        self.session.note_idle();
        self.instance()
            .figures
            .idle_kicks
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Memory of its buffers, bytes.
    pub(super) fn held(&self) -> usize {
        self.inbox.held() + self.outbox.held()
    }

    /// Notes what the kernel said; a turn follows.
    pub(super) fn notice(&mut self, readiness: Readiness) {
        self.readable |= readiness.readable | readiness.odd;
        self.odd |= readiness.odd;
    }

    /// Nobody said so, but there may be something to read; a turn follows.
    pub(super) fn expect_input(&mut self) {
        self.readable = true;
        self.heard = false;
    }

    /// Whether what was expected had come, by `now`.
    pub(super) fn has_heard(&mut self, now: Instant) -> bool {
        if self.heard {
            self.last_heard = now;
        }
        self.heard
    }

    /// Sends, reads and runs requests until the socket or fairness stops it.
    pub(super) fn serve(&mut self, desk: &mut Desk, floor: &Floor) -> Result<Turn, Gone> {
        if matches!(self.next, Next::Yield | Next::Watch) {
            self.run(&[], &mut desk.pool, floor);
        }
        let (mut reads, mut writes) = (0, 0);
        loop {
            match self.next {
                Next::Yield => return Ok(Turn::Again),
                Next::Become(tenant) => {
                    self.tenant = tenant;
                    self.run(&[], &mut desk.pool, floor);
                    continue;
                }
                _ => {}
            }
            if self.send(&mut desk.pool)? == Flow::Blocked {
                self.seat.peer().set_doing(Doing::Writing);
                return Ok(Turn::Blocked);
            }
            match self.next {
                Next::Close => return Ok(Turn::Over),
                Next::Shutdown { graceful } => return Ok(Turn::Shutdown { graceful }),
                Next::Write if writes == WRITES_PER_TURN => return Ok(Turn::Again),
                Next::Write => {
                    self.run(&[], &mut desk.pool, floor);
                    writes += 1;
                }
                Next::Read { .. } | Next::Watch if self.readable && reads == READS_PER_TURN => {
                    return Ok(Turn::Again);
                }
                Next::Read { .. } | Next::Watch if self.readable => {
                    let count = self.read(&mut desk.read)?;
                    if count > 0 {
                        self.run(&desk.read[..count], &mut desk.pool, floor);
                    }
                    reads += 1;
                }
                Next::Watch => return Ok(Turn::Watch),
                Next::Read { .. } | Next::Yield | Next::Become(_) => return Ok(Turn::Rest),
            }
        }
    }

    /// Writes what waits to be sent.
    fn send(&mut self, pool: &mut BufferPool) -> Result<Flow, Gone> {
        while !self.outbox.is_empty() {
            let waiting = self.outbox.waiting();
            let sent = match &mut self.veil {
                None => socket::send(&self.socket, waiting),
                Some(veil) => veil.write(&self.socket, waiting),
            };
            match sent {
                Ok(count) => self.outbox.finish(pool, count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Flow::Blocked);
                }
                Err(error) => return Err(error.into()),
            }
        }
        match &mut self.veil {
            None => Ok(Flow::Open),
            Some(veil) => match veil.flush(&self.socket)? {
                true => Ok(Flow::Open),
                false => Ok(Flow::Blocked),
            },
        }
    }

    /// Reads from the socket; 0 when there is nothing now.
    fn read(&mut self, space: &mut [u8]) -> Result<usize, Gone> {
        let read = match &mut self.veil {
            None if self.is_unix => socket::receive_from_unix(&self.socket, space),
            None => socket::receive(&self.socket, space).map(|count| (count, false)),
            Some(veil) => {
                let read = veil.read(&self.socket, space, &self.seat.instance().figures);
                read.map(|count| (count, true))
            }
        };
        match read {
            Ok((0, _)) => Err(Gone),
            Ok((count, cut)) => {
                // A short read emptied the socket, and the kernel tells when more comes. Not so after
                // a hang-up, which it told already, nor at urgent bytes or files, which end a read early, nor
                // through TLS, which keeps bytes of its own.
                let emptied = count < space.len() && !self.odd && !cut;
                self.readable = !emptied;
                self.heard = true;
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(0)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Runs the requests that wait with what is `fresh`; where none wait, those of the worker's read buffer where they
    /// stand. What remains is kept.
    fn run(&mut self, fresh: &[u8], pool: &mut BufferPool, floor: &Floor) {
        let waits = !self.inbox.is_empty();
        if waits && !fresh.is_empty() {
            self.inbox.push(pool, fresh);
            if self.inbox.len() < self.enough {
                return;
            }
        }
        let tenancy = floor.tenancy(self.tenant);
        let out = self.outbox.tail(pool);
        let input = if waits { self.inbox.waiting() } else { fresh };
        let Advance { consumed, next } = self.session.advance(input, out, &tenancy);
        self.outbox.finish(pool, 0);
        if waits {
            self.inbox.finish(pool, consumed);
        } else if consumed < fresh.len() {
            self.inbox.push(pool, &fresh[consumed..]);
        }
        self.next = next;
        self.enough = match next {
            Next::Read { wanted } => self.inbox.len() + wanted.max(1),
            _ => 0,
        };
        if consumed > 0 && self.session.is_known() {
            self.seat.keep();
        }
    }

    /// Reads what a client still says whose connection is over, lest the last reply is lost.
    pub(super) fn hear_last_words(&mut self, space: &mut [u8]) {
        if let Some(veil) = &mut self.veil {
            veil.close(&self.socket);
        }
        let mut heard = 0;
        while heard < LAST_WORDS_MAX {
            match socket::receive(&self.socket, space) {
                Ok(count) if count > 0 => heard += count,
                _ => return,
            }
        }
    }
}
