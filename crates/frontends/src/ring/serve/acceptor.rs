//! The thread that accepts connections, asks the kernel whose they are, and spreads them over the workers.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use sublet_client::ring::{Rejection, hello};

use super::connection::Seat;
use super::worker::{Message, Newcomer, Post};
use super::{Door, Group};

/// How long accepting stops when the process has no descriptor or no memory left for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections accepted from one listener before the others get a turn.
const ACCEPTS_PER_TURN: usize = 64;

/// The same trouble is logged at most this often.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

const BELL: Token = Token(usize::MAX);

/// Ends the acceptor.
pub(super) struct Bell {
    rung: AtomicBool,
    waker: Waker,
}

impl Bell {
    pub(super) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        let _ = self.waker.wake();
    }
}

/// What the acceptor acts on.
enum Event {
    Knock(usize),
    Resume,
}

/// All listeners, and the workers behind them.
pub(super) struct Acceptor {
    poll: Poll,
    ready: Events,
    bell: Arc<Bell>,
    doors: Vec<Door>,
    workers: Vec<Arc<Post>>,
    next_worker: usize,
    /// Doors where more may wait although the kernel will not say so again.
    unfinished: Vec<usize>,
    paused_at: Option<Instant>,
    logged_at: Option<Instant>,
}

impl Acceptor {
    pub(super) fn new(
        doors: Vec<Door>,
        workers: Vec<Arc<Post>>,
    ) -> io::Result<(Acceptor, Arc<Bell>)> {
        let poll = Poll::new()?;
        let bell = Arc::new(Bell {
            rung: AtomicBool::new(false),
            waker: Waker::new(poll.registry(), BELL)?,
        });
        for (n, (_, listener)) in doors.iter().enumerate() {
            let raw = listener.socket.as_raw_fd();
            let registry = poll.registry();
            registry.register(&mut SourceFd(&raw), Token(n), Interest::READABLE)?;
        }
        let acceptor = Acceptor {
            poll,
            ready: Events::with_capacity(doors.len().clamp(1, 1024) + 1),
            bell: Arc::clone(&bell),
            doors,
            workers,
            next_worker: 0,
            unfinished: Vec::new(),
            paused_at: None,
            logged_at: None,
        };
        Ok((acceptor, bell))
    }

    /// Accepts until the bell rings.
    pub(super) fn run(&mut self) -> io::Result<()> {
        loop {
            let events = self.wait()?;
            if self.bell.rung.load(Ordering::Acquire) {
                return Ok(());
            }
            for event in events {
                self.apply(event);
            }
        }
    }

    /// Blocks until somebody knocks or a pause is over.
    fn wait(&mut self) -> io::Result<Vec<Event>> {
        let longest = match self.paused_at {
            Some(_) => Some(PAUSE),
            None if self.unfinished.is_empty() => None,
            None => Some(Duration::ZERO),
        };
        match self.poll.poll(&mut self.ready, longest) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let knocks = self.ready.iter().map(|event| event.token());
        self.unfinished
            .extend(knocks.filter(|token| *token != BELL).map(|token| token.0));
        match self.paused_at {
            Some(at) if at.elapsed() < PAUSE => Ok(Vec::new()),
            Some(_) => Ok(vec![Event::Resume]),
            None => {
                self.unfinished.sort_unstable();
                self.unfinished.dedup();
                Ok(self.unfinished.drain(..).map(Event::Knock).collect())
            }
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Knock(door) if self.paused_at.is_none() => self.open(door),
            Event::Knock(door) => self.unfinished.push(door),
            Event::Resume => self.paused_at = None,
        }
    }

    fn open(&mut self, n: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::accept_with(&self.doors[n].1.socket, flags) {
                Ok(socket) => self.welcome(n, socket),
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.pause(n);
                    return;
                }
                // The client went away again: the next one, then.
                Err(_) => {}
            }
        }
        self.unfinished.push(n);
    }

    fn welcome(&mut self, n: usize, socket: OwnedFd) {
        let (group, _) = &self.doors[n];
        let seat = match admit(group, &socket) {
            Ok(seat) => seat,
            Err(rejection) => {
                let _ = hello::turn_away(&socket, rejection);
                return;
            }
        };
        self.workers[self.next_worker].send(Message::Newcomer(Newcomer { socket, seat }));
        self.next_worker = (self.next_worker + 1) % self.workers.len();
    }

    /// No descriptor or no memory left: the door stays shut for a moment instead of spinning on it.
    fn pause(&mut self, n: usize) {
        let now = Instant::now();
        self.paused_at = Some(now);
        self.unfinished.push(n);
        if self.logged_at.is_none_or(|at| now - at >= LOG_INTERVAL) {
            self.logged_at = Some(now);
            tracing::warn!(
                "no file descriptors or memory left for new ring connections; raise `ulimit -n`"
            );
        }
    }
}

/// A seat for whom the kernel says is at the other end.
fn admit(group: &Arc<Group>, socket: &OwnedFd) -> Result<Seat, Rejection> {
    let peer = rustix::net::sockopt::socket_peercred(socket);
    let uid = peer.map(|peer| peer.uid.as_raw());
    let allowed = uid.is_ok_and(|uid| group.settings.allow_uids.contains(&uid));
    if !allowed {
        group.figures.refused_uid.bump();
        return Err(Rejection::NotAllowed);
    }
    Seat::take(group).ok_or(Rejection::TooMany)
}
