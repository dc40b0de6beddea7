//! The thread that accepts connections and spreads them over the workers.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags};

use super::Group;
use super::seat::Seat;
use super::worker::{Message, Newcomer, Post};
use crate::doors::{Listener, socket, tcp_name};
use crate::memcached::connections::Peer;
use crate::tenancy::Clock;

/// How long accepting stops when the process has no descriptor or no memory left for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections accepted from one listener before the others get a turn.
const ACCEPTS_PER_TURN: usize = 64;

/// The same trouble is logged at most this often.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

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

/// A listener and whom it serves.
pub(super) struct Door {
    pub(super) group: Arc<Group>,
    pub(super) listener: Listener,
    peer: Arc<Peer>,
}

impl Door {
    pub(super) fn new(group: &Arc<Group>, listener: Listener, clock: &Clock) -> Door {
        let fd = listener.socket.as_raw_fd();
        let address = listener.address().to_owned();
        let table = &group.face.connections;
        Door {
            peer: table.enter(fd, address, None, clock.now()),
            group: Arc::clone(group),
            listener,
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.group.face.connections.leave(&self.peer);
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
    clock: Clock,
    /// Doors where more may wait although the kernel will not say so again.
    unfinished: Vec<usize>,
    paused_at: Option<Instant>,
    logged_at: Option<Instant>,
}

impl Acceptor {
    pub(super) fn new(
        doors: Vec<Door>,
        workers: Vec<Arc<Post>>,
        clock: Clock,
    ) -> io::Result<(Acceptor, Arc<Bell>)> {
        let poll = Poll::new()?;
        let bell = Arc::new(Bell {
            rung: AtomicBool::new(false),
            waker: Waker::new(poll.registry(), BELL)?,
        });
        for (n, door) in doors.iter().enumerate() {
            let raw = door.listener.socket.as_raw_fd();
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
            clock,
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
            Event::Resume => self.resume(),
        }
    }

    fn open(&mut self, n: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::acceptfrom_with(&self.doors[n].listener.socket, flags) {
                Ok((socket, from)) => self.welcome(n, socket, from),
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.pause(n);
                    return;
                }
                // The client went away again, or the network had an error for it: the next one, then.
                Err(_) => {}
            }
        }
        self.unfinished.push(n);
    }

    fn welcome(&mut self, n: usize, socket: OwnedFd, from: Option<SocketAddrAny>) {
        let door = &self.doors[n];
        let listener = door.listener.address().to_owned();
        let address = name_of(from, &listener);
        let (face, now) = (&door.group.face, self.clock.now());
        let Some(seat) = Seat::take(face, socket.as_raw_fd(), address, listener, now) else {
            let _ = socket::send(&socket, TOO_MANY);
            return;
        };
        self.workers[self.next_worker].send(Message::Newcomer(Newcomer {
            socket,
            group: Arc::clone(&door.group),
            transport: door.listener.transport,
            seat,
        }));
        self.next_worker = (self.next_worker + 1) % self.workers.len();
    }

    /// No descriptor or no memory left: the door stays shut for a moment instead of spinning on it.
    fn pause(&mut self, n: usize) {
        let now = Instant::now();
        self.paused_at = Some(now);
        self.unfinished.push(n);
        for group in self.groups() {
            let disabled = &group.face.figures.listen_disabled;
            disabled.fetch_add(1, Ordering::Relaxed);
        }
        if self.logged_at.is_none_or(|at| now - at >= LOG_INTERVAL) {
            self.logged_at = Some(now);
            tracing::warn!(
                "no file descriptors or memory left for new connections; raise `ulimit -n` or lower -c"
            );
        }
    }

    fn resume(&mut self) {
        let Some(at) = self.paused_at.take() else {
            return;
        };
        let micros = at.elapsed().as_micros() as u64;
        for group in self.groups() {
            let disabled = &group.face.figures.listen_disabled_micros;
            disabled.fetch_add(micros, Ordering::Relaxed);
        }
    }

    fn groups(&self) -> Vec<Arc<Group>> {
        let mut groups: Vec<Arc<Group>> = Vec::new();
        for door in &self.doors {
            if !groups.iter().any(|known| Arc::ptr_eq(known, &door.group)) {
                groups.push(Arc::clone(&door.group));
            }
        }
        groups
    }
}

/// A client's address; a Unix socket's client has none but its listener's.
fn name_of(from: Option<SocketAddrAny>, listener: &str) -> String {
    match from.map(std::net::SocketAddr::try_from) {
        Some(Ok(address)) => tcp_name(address),
        _ => listener.to_owned(),
    }
}
