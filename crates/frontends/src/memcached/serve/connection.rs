//! One connection: a socket, what travels on it, and its session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sublet_types::TenantId;

use super::seat::Seat;
use crate::memcached::connections::Doing;
use crate::memcached::instance::Instance;
use crate::memcached::outcome::Next;
use crate::memcached::session::{Advance, Session};
use crate::serving::{BufferPool, ByteQueue, Came, Flow, Gone, Stream, Tenancies};
use crate::tenancy::Tenancy;

/// Reads of one connection before others get a turn: 1 MiB.
const READS_PER_TURN: usize = 16;

/// Rounds of replies that one connection's requests fill before others get a turn: about 1 MiB.
const WRITES_PER_TURN: usize = 4;

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

/// One connection.
pub(super) struct Connection {
    pub(super) stream: Stream,
    session: Session,
    seat: Seat,
    tenant: TenantId,
    inbox: ByteQueue,
    outbox: ByteQueue,
    next: Next,
    /// Bytes that the inbox must hold before it pays to ask the session again.
    enough: usize,
    /// Something came since it was last [expected](Connection::expect_input).
    heard: bool,
    pub(super) last_heard: Instant,
    pub(super) turn_is_due: bool,
    pub(super) was_blocked: bool,
    /// Memory of its buffers that its worker knows of.
    pub(super) held_counted: usize,
}

impl Connection {
    pub(super) fn new(stream: Stream, seat: Seat, tenant: TenantId, now: Instant) -> Connection {
        Connection {
            session: Session::new(Arc::clone(seat.instance()), Arc::clone(seat.peer())),
            stream,
            seat,
            tenant,
            inbox: ByteQueue::default(),
            outbox: ByteQueue::default(),
            next: Next::Read { wanted: 1 },
            enough: 1,
            heard: false,
            last_heard: now,
            turn_is_due: false,
            was_blocked: false,
            held_counted: 0,
        }
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
        self.instance().figures.idle_kicks.bump();
    }

    /// Memory of its buffers, bytes.
    pub(super) fn held(&self) -> usize {
        self.inbox.held() + self.outbox.held()
    }

    /// Nobody said so, but there may be something to read; a turn follows.
    pub(super) fn expect_input(&mut self) {
        self.stream.expect_input();
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
    pub(super) fn serve(
        &mut self,
        read: &mut [u8],
        pool: &mut BufferPool,
        tenancies: &Tenancies<Tenancy>,
    ) -> Result<Turn, Gone> {
        if matches!(self.next, Next::Yield | Next::Watch) {
            self.run(&[], pool, tenancies);
        }
        let (mut reads, mut writes) = (0, 0);
        loop {
            match self.next {
                Next::Yield => return Ok(Turn::Again),
                Next::Become(tenant) => {
                    self.tenant = tenant;
                    self.run(&[], pool, tenancies);
                    continue;
                }
                _ => {}
            }
            let waiting = &mut self.outbox.sending(pool);
            if self.stream.send(waiting)? == Flow::Blocked {
                self.seat.peer().set_doing(Doing::Writing);
                return Ok(Turn::Blocked);
            }
            match self.next {
                Next::Close => return Ok(Turn::Over),
                Next::Shutdown { graceful } => return Ok(Turn::Shutdown { graceful }),
                Next::Write if writes == WRITES_PER_TURN => return Ok(Turn::Again),
                Next::Write => {
                    self.run(&[], pool, tenancies);
                    writes += 1;
                }
                Next::Read { .. } | Next::Watch
                    if self.stream.is_readable() && reads == READS_PER_TURN =>
                {
                    return Ok(Turn::Again);
                }
                Next::Read { .. } | Next::Watch if self.stream.is_readable() => {
                    let figures = &self.seat.instance().figures;
                    match self.stream.receive(&mut [], read, figures)? {
                        Came::Nothing => {}
                        // Who sends nothing more has all that it asked for by now.
                        Came::End => return Err(Gone),
                        Came::Bytes(count) => {
                            self.heard = true;
                            self.run(&read[..count], pool, tenancies);
                        }
                    }
                    reads += 1;
                }
                Next::Watch => return Ok(Turn::Watch),
                Next::Read { .. } | Next::Yield | Next::Become(_) => return Ok(Turn::Rest),
            }
        }
    }

    /// Runs the requests that wait with what is `fresh`; where none wait, those of the worker's read buffer where they
    /// stand. What remains is kept.
    fn run(&mut self, fresh: &[u8], pool: &mut BufferPool, tenancies: &Tenancies<Tenancy>) {
        let waits = !self.inbox.is_empty();
        if waits && !fresh.is_empty() {
            self.inbox.push(pool, fresh);
            if self.inbox.len() < self.enough {
                return;
            }
        }
        let tenancy = tenancies.of(self.tenant);
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
}
