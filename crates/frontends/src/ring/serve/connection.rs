//! One connection: a socket, and behind it, once it has greeted, a ring.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use sublet_client::ring::hello::{self, HELLO_BYTES, Hello};
use sublet_client::ring::{DaemonEnd, Farewell, Rejection};

use super::group::Group;
use crate::ring::pages::Pages;
use crate::ring::session::{Place, Session, Turn};
use crate::serving::{Permit, Presence};

/// Why a connection ends.
pub(super) enum End {
    /// The client hung up, or was turned away.
    Silent,
    /// It is told why.
    Told(Farewell),
}

/// How far a greeting has come.
pub(super) enum Greeting {
    /// There is more to come.
    Unfinished,
    /// It is a ring now.
    Over,
}

/// What a connection is so far.
enum Stage<R> {
    Greeting {
        bytes: [u8; HELLO_BYTES],
        got: usize,
    },
    Serving(Box<Ring<R>>),
}

/// A connection's ring, and the doorbell that its client rings.
struct Ring<R> {
    session: Session<R>,
    bell: OwnedFd,
}

/// One connection, which acts through a tenancy of its worker.
pub(super) struct Connection<P: Pages> {
    stage: Stage<P::Removal>,
    socket: Arc<OwnedFd>,
    permit: Permit<Group>,
    pages: Rc<P>,
    pub(super) since: Instant,
    pub(super) turn_is_due: bool,
    /// Its ring is looked at without being rung for.
    pub(super) is_awake: bool,
    /// Looks since there was last something in it.
    pub(super) looks_in_vain: u32,
}

impl<P: Pages> Connection<P> {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        permit: Permit<Group>,
        pages: Rc<P>,
        now: Instant,
    ) -> Connection<P> {
        Connection {
            stage: Stage::Greeting {
                bytes: [0; HELLO_BYTES],
                got: 0,
            },
            socket,
            permit,
            pages,
            since: now,
            turn_is_due: false,
            is_awake: false,
            looks_in_vain: 0,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn group(&self) -> &Group {
        self.permit.group()
    }

    /// The doorbell that its client rings, once it has one.
    pub(super) fn bell(&self) -> Option<&OwnedFd> {
        match &self.stage {
            Stage::Greeting { .. } => None,
            Stage::Serving(ring) => Some(&ring.bell),
        }
    }

    /// The daemon's end of its ring, once it has one.
    pub(super) fn ring(&self) -> Option<&DaemonEnd> {
        match &self.stage {
            Stage::Greeting { .. } => None,
            Stage::Serving(ring) => Some(ring.session.end()),
        }
    }

    /// Hears what its socket has to say, and what the kernel says of its client.
    pub(super) fn hear(&mut self, presence: Presence) -> Result<Greeting, End> {
        let Stage::Greeting { bytes, got } = &mut self.stage else {
            return listen_for_the_end(&self.socket, presence).map(|()| Greeting::Unfinished);
        };
        while *got < HELLO_BYTES {
            match receive(&self.socket, &mut bytes[*got..])? {
                Some(count) => {
                    *got += count;
                    self.permit.begin();
                }
                None => return Ok(Greeting::Unfinished),
            }
        }
        let hello = Hello::of(bytes).map_err(|rejection| self.turn_away(rejection))?;
        match self.make_ring(hello) {
            Ok(ring) => {
                self.stage = Stage::Serving(Box::new(ring));
                self.permit.keep();
                Ok(Greeting::Over)
            }
            Err(error) if is_gone(&error) => Err(End::Silent),
            Err(error) => {
                tracing::debug!(%error, "cannot make a ring for a client");
                self.group().figures.refused_exhausted.bump();
                Err(self.turn_away(Rejection::Exhausted))
            }
        }
    }

    /// Answers what its ring asks.
    pub(super) fn turn(&mut self) -> Result<Turn, End> {
        let group = self.permit.group();
        let Stage::Serving(ring) = &mut self.stage else {
            return Ok(Turn::Rest);
        };
        let place = Place {
            pages: &*self.pages,
            settings: &group.settings,
            names: &group.names,
            restored: &group.restored,
            figures: &group.figures,
            socket: &self.socket,
        };
        ring.session.turn(&place).map_err(|garbage| {
            tracing::debug!(%garbage, "a client's ring cannot be believed any more");
            End::Told(Farewell::Garbage)
        })
    }

    /// Says farewell, and ends what ends with the connection. Says what is to be removed, and by whom.
    pub(super) fn close(mut self, end: End) -> (Rc<P>, Vec<P::Removal>) {
        let left = match &mut self.stage {
            Stage::Greeting { .. } => Vec::new(),
            Stage::Serving(ring) => ring.session.close(&*self.pages, &self.permit.group().names),
        };
        if let End::Told(farewell) = end {
            if matches!(farewell, Farewell::Garbage | Farewell::Chatter) {
                self.group().figures.ended_garbage.bump();
            }
            hello::part(&self.socket, farewell);
        }
        (self.pages, left)
    }

    fn turn_away(&self, rejection: Rejection) -> End {
        let _ = hello::turn_away(&self.socket, rejection);
        End::Silent
    }

    /// The ring's memory itself is the client's alone from then on: the mapping is enough.
    fn make_ring(&self, hello: Hello) -> io::Result<Ring<P::Removal>> {
        let shape = hello.wish.within(self.group().settings.shape_max);
        let (end, memory) = DaemonEnd::create(shape)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        hello::let_in(&self.socket, shape, memory.as_fd(), bell.as_fd())?;
        let session = Session::new(end);
        Ok(Ring { session, bell })
    }
}

/// Whether the client hung up before it was let in.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// A client that has greeted is silent until it hangs up. It may say that it will be: its ring is served on.
fn listen_for_the_end(socket: &OwnedFd, presence: Presence) -> Result<(), End> {
    match receive(socket, &mut [0; 1]) {
        Ok(Some(_)) => Err(End::Told(Farewell::Chatter)),
        Ok(None) => Ok(()),
        Err(_) if presence == Presence::Silent => Ok(()),
        Err(end) => Err(end),
    }
}

/// Bytes that came; none if there are none yet.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Result<Option<usize>, End> {
    loop {
        match rustix::net::recv(socket, &mut *bytes, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(End::Silent),
            Ok((_, count)) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(_) => return Err(End::Silent),
        }
    }
}
