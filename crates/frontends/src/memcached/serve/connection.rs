//! One connection: a socket, the bytes on their way, and its session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sublet_types::TenantId;

use super::admitted_peer::AdmittedPeer;
use crate::memcached::connections::{ConnectionState, Peer};
use crate::memcached::instance::Instance;
use crate::memcached::outcome::LoopAction;
use crate::memcached::session::{Advance, Session};
use crate::serving::{
    BufferPool, ByteQueue, PeerGone, ReceiveOutcome, SendStatus, StopMode, Stream, Tenancies,
};
use crate::tenancy::Tenancy;

/// Reads from one connection before other connections get a turn: 1 MiB.
const READS_PER_TURN: usize = 16;

/// Rounds of replies to one connection's requests before other connections get a turn: about 1 MiB.
const WRITES_PER_TURN: usize = 4;

/// How long a client may pause in the middle of a large value or a long line while memory for these is short. After
/// that its connection closes.
const STALL_MAX: Duration = Duration::from_secs(5);

/// How a turn of a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemcachedTurnEnd {
    /// The connection waits for its client to send.
    Waiting,
    /// The connection waits for its client to read.
    Blocked,
    /// The connection has more to do, but others come first.
    Again,
    /// The connection watches. It needs a turn soon, whatever its socket does.
    Watch,
    /// The connection is over.
    Closed,
    /// The connection is over, and the process shall end.
    Shutdown(StopMode),
}

/// One connection.
pub(super) struct Connection {
    pub(super) stream: Stream,
    session: Session,
    admitted: AdmittedPeer,
    tenant: TenantId,
    inbox: ByteQueue,
    outbox: ByteQueue,
    next: LoopAction,
    /// Bytes that the inbox must hold before another call of the session is worthwhile.
    input_needed: usize,
    /// Input came since the last [`expect_input`](Connection::expect_input).
    got_input: bool,
    pub(super) last_input_at: Instant,
    pub(super) turn_is_due: bool,
    pub(super) was_blocked: bool,
    /// Bytes of its buffers that its worker has counted.
    pub(super) held_counted: usize,
}

impl Connection {
    pub(super) fn new(
        stream: Stream,
        admitted: AdmittedPeer,
        tenant: TenantId,
        now: Instant,
    ) -> Connection {
        Connection {
            session: Session::new(Arc::clone(admitted.instance()), Arc::clone(admitted.peer())),
            stream,
            admitted,
            tenant,
            inbox: ByteQueue::default(),
            outbox: ByteQueue::default(),
            next: LoopAction::Read { wanted: 1 },
            input_needed: 1,
            got_input: false,
            last_input_at: now,
            turn_is_due: false,
            was_blocked: false,
            held_counted: 0,
        }
    }

    pub(super) fn peer(&self) -> &Peer {
        self.admitted.peer()
    }

    pub(super) fn instance(&self) -> &Arc<Instance> {
        self.admitted.instance()
    }

    /// Returns whether nothing is under way: no reply is unsent, and no request is half received.
    pub(super) fn is_idle(&self) -> bool {
        self.inbox.is_empty() && self.outbox.is_empty()
    }

    /// Returns whether the connection sends nothing to its client until the client sends something.
    fn awaits_client(&self) -> bool {
        self.outbox.is_empty() && self.session.awaits_client()
    }

    /// Returns whether the connection holds memory that all connections share, for a value or a line that is still
    /// coming.
    pub(super) fn holds_shared_memory(&self) -> bool {
        self.session.holds_shared_memory()
    }

    /// Returns whether the connection may time out later. It does if it turns idle, or if it holds shared memory when
    /// that becomes short.
    pub(super) fn may_time_out(&self) -> bool {
        self.holds_shared_memory() || self.instance().settings.idle_timeout.is_some()
    }

    /// Returns when the connection closes if nothing comes until then; `None` while no timeout applies.
    pub(super) fn closes_at(&self) -> Option<Instant> {
        let stalls = self.holds_shared_memory() && self.instance().memory.is_short();
        let waits = [
            self.instance()
                .settings
                .idle_timeout
                .filter(|_| self.awaits_client()),
            stalls.then_some(STALL_MAX),
        ];
        let wait = waits.into_iter().flatten().min()?;
        Some(self.last_input_at + wait)
    }

    /// Records and counts that the connection is closed because it was idle.
    pub(super) fn set_idle_closed(&mut self) {
        self.session.set_idle_closed();
        self.instance().figures.idle_kicks.bump();
    }

    /// Returns the memory of its buffers, in bytes.
    pub(super) fn held(&self) -> usize {
        self.inbox.held() + self.outbox.held()
    }

    /// Marks the socket as readable although the kernel did not report it. The caller then gives the connection a turn.
    pub(super) fn expect_input(&mut self) {
        self.stream.expect_input();
        self.got_input = false;
    }

    /// Returns whether the expected input had come. If so, sets the time of the last input to `now`.
    pub(super) fn got_expected_input(&mut self, now: Instant) -> bool {
        if self.got_input {
            self.last_input_at = now;
        }
        self.got_input
    }

    /// Sends, reads and runs requests until the socket or fairness stops it.
    pub(super) fn serve(
        &mut self,
        read: &mut [u8],
        pool: &mut BufferPool,
        tenancies: &Tenancies<Tenancy>,
    ) -> Result<MemcachedTurnEnd, PeerGone> {
        if matches!(self.next, LoopAction::Yield | LoopAction::Watch) {
            self.run(&[], pool, tenancies);
        }
        let (mut reads, mut writes) = (0, 0);
        loop {
            match self.next {
                LoopAction::Yield => return Ok(MemcachedTurnEnd::Again),
                LoopAction::SwitchTenant(tenant) => {
                    self.tenant = tenant;
                    self.run(&[], pool, tenancies);
                    continue;
                }
                _ => {}
            }
            let waiting = &mut self.outbox.as_send_queue(pool);
            if self.stream.send(waiting)? == SendStatus::Blocked {
                self.admitted.peer().set_state(ConnectionState::Writing);
                return Ok(MemcachedTurnEnd::Blocked);
            }
            match self.next {
                LoopAction::Close => return Ok(MemcachedTurnEnd::Closed),
                LoopAction::Shutdown(mode) => {
                    return Ok(MemcachedTurnEnd::Shutdown(mode));
                }
                LoopAction::Write if writes == WRITES_PER_TURN => {
                    return Ok(MemcachedTurnEnd::Again);
                }
                LoopAction::Write => {
                    self.run(&[], pool, tenancies);
                    writes += 1;
                }
                LoopAction::Read { .. } | LoopAction::Watch
                    if self.stream.is_readable() && reads == READS_PER_TURN =>
                {
                    return Ok(MemcachedTurnEnd::Again);
                }
                LoopAction::Read { .. } | LoopAction::Watch if self.stream.is_readable() => {
                    let figures = &self.admitted.instance().figures;
                    match self.stream.receive(&mut [], read, figures)? {
                        ReceiveOutcome::WouldBlock => {}
                        // A client that sends nothing more has received all replies by now.
                        ReceiveOutcome::Eof => return Err(PeerGone),
                        ReceiveOutcome::Bytes(count) => {
                            self.got_input = true;
                            self.run(&read[..count], pool, tenancies);
                        }
                    }
                    reads += 1;
                }
                LoopAction::Watch => return Ok(MemcachedTurnEnd::Watch),
                LoopAction::Read { .. } | LoopAction::Yield | LoopAction::SwitchTenant(_) => {
                    return Ok(MemcachedTurnEnd::Waiting);
                }
            }
        }
    }

    /// Runs the waiting requests together with the `fresh` bytes. If none wait, the fresh bytes are run where they
    /// stand, in the worker's read buffer. The rest of the input is kept.
    fn run(&mut self, fresh: &[u8], pool: &mut BufferPool, tenancies: &Tenancies<Tenancy>) {
        let waits = !self.inbox.is_empty();
        if waits && !fresh.is_empty() {
            self.inbox.push(pool, fresh);
            if self.inbox.len() < self.input_needed {
                return;
            }
        }
        let tenancy = tenancies.of(self.tenant);
        let out = self.outbox.tail(pool);
        let input = if waits { self.inbox.waiting() } else { fresh };
        let Advance { consumed, next } = self.session.advance(input, out, &tenancy);
        self.outbox.consume(pool, 0);
        if waits {
            self.inbox.consume(pool, consumed);
        } else if consumed < fresh.len() {
            self.inbox.push(pool, &fresh[consumed..]);
        }
        self.next = next;
        self.input_needed = match next {
            LoopAction::Read { wanted } => self.inbox.len() + wanted.max(1),
            _ => 0,
        };
        if consumed > 0 && self.session.is_authenticated() {
            self.admitted.mark_spoken();
        }
    }
}
