//! One connection: a socket, and a ring after the client has greeted.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::socket_peercred;
use sublet_client::ring::hello::{self, HELLO_BYTES, Hello};
use sublet_client::ring::{CloseReason, DaemonEnd, Rejection};

use super::group::Group;
use crate::clock::MonotonicClock;
use crate::ring::page_operations::PageOperations;
use crate::ring::session::{RingTurnEnd, Session, SessionResources};
use crate::serving::{GroupPermit, PeerState};

/// Why a connection ends.
pub(super) enum Disconnect {
    /// The client hung up, or was rejected already.
    Silent,
    /// The daemon tells the client why.
    WithReason(CloseReason),
}

/// How far a greeting has come.
pub(super) enum GreetingProgress {
    /// More bytes are to come.
    Unfinished,
    /// The connection has its ring now.
    Complete,
}

/// What the connection is at present.
enum ConnectionPhase<R> {
    Greeting {
        bytes: [u8; HELLO_BYTES],
        got: usize,
    },
    Serving(Box<EstablishedRing<R>>),
}

/// A connection's ring, and the doorbell that its client rings.
struct EstablishedRing<R> {
    session: Session<R>,
    doorbell: OwnedFd,
}

/// One connection. It uses a tenancy of its worker.
pub(super) struct Connection<P: PageOperations> {
    phase: ConnectionPhase<P::Removal>,
    socket: Arc<OwnedFd>,
    permit: GroupPermit<Group>,
    pages: Rc<P>,
    pub(super) since: Instant,
    pub(super) turn_is_due: bool,
    /// Whether the worker polls the ring without being rung.
    pub(super) is_awake: bool,
    /// How often the worker has found the ring empty since it last found work.
    pub(super) empty_polls: u32,
}

impl<P: PageOperations> Connection<P> {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        permit: GroupPermit<Group>,
        pages: Rc<P>,
        now: Instant,
    ) -> Connection<P> {
        Connection {
            phase: ConnectionPhase::Greeting {
                bytes: [0; HELLO_BYTES],
                got: 0,
            },
            socket,
            permit,
            pages,
            since: now,
            turn_is_due: false,
            is_awake: false,
            empty_polls: 0,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn group(&self) -> &Group {
        self.permit.group()
    }

    /// The doorbell that the client rings, after the greeting.
    pub(super) fn doorbell(&self) -> Option<&OwnedFd> {
        match &self.phase {
            ConnectionPhase::Greeting { .. } => None,
            ConnectionPhase::Serving(ring) => Some(&ring.doorbell),
        }
    }

    /// The daemon's end of the ring, after the greeting.
    pub(super) fn ring(&self) -> Option<&DaemonEnd> {
        match &self.phase {
            ConnectionPhase::Greeting { .. } => None,
            ConnectionPhase::Serving(ring) => Some(ring.session.end()),
        }
    }

    /// Reads the socket, and acts on what the kernel reports of the client.
    pub(super) fn read_socket(
        &mut self,
        peer_state: PeerState,
    ) -> Result<GreetingProgress, Disconnect> {
        let ConnectionPhase::Greeting { bytes, got } = &mut self.phase else {
            return check_hang_up(&self.socket, peer_state).map(|()| GreetingProgress::Unfinished);
        };
        while *got < HELLO_BYTES {
            match receive(&self.socket, &mut bytes[*got..])? {
                Some(count) => {
                    *got += count;
                    self.permit.mark_begun();
                }
                None => return Ok(GreetingProgress::Unfinished),
            }
        }
        let hello = Hello::of(bytes).map_err(|rejection| self.reject(rejection))?;
        match self.make_ring(hello) {
            Ok(ring) => {
                self.phase = ConnectionPhase::Serving(Box::new(ring));
                self.permit.mark_spoken();
                Ok(GreetingProgress::Complete)
            }
            Err(error) if is_gone(&error) => Err(Disconnect::Silent),
            Err(error) => {
                let peer = socket_peercred(&self.socket).ok();
                let pid = peer.map(|peer| tracing::field::display(peer.pid));
                tracing::debug!(pid, %error, "the daemon cannot make a client's ring and refuses the client, which may connect again; it serves the others");
                self.group().figures.refused_exhausted.bump();
                Err(self.reject(Rejection::Exhausted))
            }
        }
    }

    /// Answers the requests in the ring.
    pub(super) fn serve_turn(&mut self, clock: MonotonicClock) -> Result<RingTurnEnd, Disconnect> {
        let group = self.permit.group();
        let ConnectionPhase::Serving(ring) = &mut self.phase else {
            return Ok(RingTurnEnd::Drained);
        };
        let resources = SessionResources {
            pages: &*self.pages,
            settings: &group.settings,
            joined_pools: &group.joined_pools,
            unclaimed_pools: &group.unclaimed_pools,
            figures: &group.figures,
            clock,
            socket: &self.socket,
        };
        ring.session.serve_turn(&resources).map_err(|garbage| {
            let peer = socket_peercred(&self.socket).ok();
            let pid = peer.map(|peer| tracing::field::display(peer.pid));
            tracing::debug!(pid, %garbage, "a client's ring has an impossible index; the daemon closes the connection and serves the others");
            Disconnect::WithReason(CloseReason::Garbage)
        })
    }

    /// Tells the client why the connection ends, and ends the pools that end with it. Returns the removals to carry
    /// out, and through which tenancy.
    pub(super) fn close(mut self, end: Disconnect) -> (Rc<P>, Vec<P::Removal>) {
        let left = match &mut self.phase {
            ConnectionPhase::Greeting { .. } => Vec::new(),
            ConnectionPhase::Serving(ring) => ring
                .session
                .close(&*self.pages, &self.permit.group().joined_pools),
        };
        if let Disconnect::WithReason(reason) = end {
            if matches!(reason, CloseReason::Garbage | CloseReason::Chatter) {
                self.group().figures.ended_garbage.bump();
            }
            hello::send_close_reason(&self.socket, reason);
        }
        (self.pages, left)
    }

    fn reject(&self, rejection: Rejection) -> Disconnect {
        let _ = hello::reject(&self.socket, rejection);
        Disconnect::Silent
    }

    /// Makes the ring and hands its memory to the client. The daemon keeps only the mapping, not the file.
    fn make_ring(&self, hello: Hello) -> io::Result<EstablishedRing<P::Removal>> {
        let shape = hello.wish.within(self.group().settings.shape_max);
        let (end, memory) = DaemonEnd::create(shape)?;
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        hello::accept(&self.socket, shape, memory.as_fd(), doorbell.as_fd())?;
        let session = Session::new(end);
        Ok(EstablishedRing { session, doorbell })
    }
}

/// Returns whether the client hung up before it got its ring.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// Checks the socket of a client that has greeted. Such a client sends nothing until it hangs up. It may close its
/// sending side, and the daemon still serves its ring.
fn check_hang_up(socket: &OwnedFd, peer_state: PeerState) -> Result<(), Disconnect> {
    match receive(socket, &mut [0; 1]) {
        Ok(Some(_)) => Err(Disconnect::WithReason(CloseReason::Chatter)),
        Ok(None) => Ok(()),
        Err(_) if peer_state == PeerState::HalfClosed => Ok(()),
        Err(end) => Err(end),
    }
}

/// How many bytes came. `None` if there are none yet.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Result<Option<usize>, Disconnect> {
    loop {
        match rustix::net::recv(socket, &mut *bytes, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(Disconnect::Silent),
            Ok((_, count)) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(_) => return Err(Disconnect::Silent),
        }
    }
}
