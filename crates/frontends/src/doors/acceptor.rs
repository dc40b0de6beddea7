//! The thread that accepts connections. Listeners come and go while it runs.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags};
use slab::Slab;

use super::Listener;

/// Events that one wait brings at most.
const EVENTS_MAX: usize = 64;

/// How long accepting stops when the process has no descriptor or no memory left for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections accepted from one listener before the others get a turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How often it is looked whether there is room again where somebody waits for it outside.
const ROOM_INTERVAL: Duration = Duration::from_millis(10);

const BELL: Token = Token(usize::MAX);

/// A listener, and what is done with whoever comes in.
pub(crate) trait Door: Send {
    /// Where they come in.
    fn listener(&self) -> &Listener;

    /// One who came, and from where. Must not block.
    fn welcome(&mut self, socket: OwnedFd, from: Option<SocketAddrAny>);

    /// Nobody is let in for now, since somebody who is in gives way soon: who comes waits in the kernel's queue.
    fn is_full_for_now(&self, _now: Instant) -> bool {
        false
    }

    /// All doors are shut for a moment: the process has no descriptor or no memory left.
    fn paused(&self) {}

    /// They are open again after that long.
    fn resumed(&self, _after: Duration) {}
}

/// What an acceptor is told.
enum Order<D> {
    Open(D, Sender<io::Result<()>>),
    /// By its address; the answer comes once the listener is gone.
    Shut(String, Sender<bool>),
    Stop,
}

/// Gives an acceptor its orders.
pub(crate) struct Bell<D> {
    orders: Mutex<VecDeque<Order<D>>>,
    waker: Waker,
}

impl<D> Bell<D> {
    /// Opens a door: from now on it is listened at.
    pub(crate) fn open(&self, door: D) -> io::Result<()> {
        let (answer, opened) = mpsc::channel();
        self.ring(Order::Open(door, answer));
        opened.recv().map_err(io::Error::other)?
    }

    /// Shuts the door at that address; says whether there was one. Its listener is gone then.
    pub(crate) fn shut(&self, address: &str) -> bool {
        let (answer, shut) = mpsc::channel();
        self.ring(Order::Shut(address.to_owned(), answer));
        shut.recv().unwrap_or(false)
    }

    /// Ends the acceptor.
    pub(crate) fn stop(&self) {
        self.ring(Order::Stop);
    }

    fn ring(&self, order: Order<D>) {
        self.orders.lock().push_back(order);
        let _ = self.waker.wake();
    }
}

/// What the acceptor acts on.
enum Event<D> {
    Knock(usize),
    Resume,
    Order(Order<D>),
}

/// All doors.
pub(crate) struct Acceptor<D: Door> {
    poll: Poll,
    ready: Events,
    bell: Arc<Bell<D>>,
    doors: Slab<D>,
    /// Doors where more may wait although the kernel will not say so again; some of them perhaps shut.
    unfinished: Vec<usize>,
    /// Doors that are full for now; some of them perhaps shut.
    full: Vec<usize>,
    paused_at: Option<Instant>,
    is_over: bool,
}

impl<D: Door> Acceptor<D> {
    pub(crate) fn new() -> io::Result<(Acceptor<D>, Arc<Bell<D>>)> {
        let poll = Poll::new()?;
        let bell = Arc::new(Bell {
            orders: Mutex::default(),
            waker: Waker::new(poll.registry(), BELL)?,
        });
        let acceptor = Acceptor {
            poll,
            ready: Events::with_capacity(EVENTS_MAX),
            bell: Arc::clone(&bell),
            doors: Slab::new(),
            unfinished: Vec::new(),
            full: Vec::new(),
            paused_at: None,
            is_over: false,
        };
        Ok((acceptor, bell))
    }

    /// Accepts until it is told to stop.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        while !self.is_over {
            for event in self.wait()? {
                self.apply(event);
            }
        }
        Ok(())
    }

    /// Blocks until somebody knocks or rings, or a pause is over.
    fn wait(&mut self) -> io::Result<Vec<Event<D>>> {
        let longest = match self.paused_at {
            Some(_) => Some(PAUSE),
            None if !self.unfinished.is_empty() => Some(Duration::ZERO),
            None if !self.full.is_empty() => Some(ROOM_INTERVAL),
            None => None,
        };
        match self.poll.poll(&mut self.ready, longest) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let knocks = self.ready.iter().map(|event| event.token());
        self.unfinished
            .extend(knocks.filter(|token| *token != BELL).map(|token| token.0));
        self.unfinished.append(&mut self.full);
        let mut events: Vec<_> = self
            .bell
            .orders
            .lock()
            .drain(..)
            .map(Event::Order)
            .collect();
        match self.paused_at {
            Some(at) if at.elapsed() < PAUSE => {}
            Some(_) => events.push(Event::Resume),
            None => {
                self.unfinished.sort_unstable();
                self.unfinished.dedup();
                events.extend(self.unfinished.drain(..).map(Event::Knock));
            }
        }
        Ok(events)
    }

    fn apply(&mut self, event: Event<D>) {
        match event {
            Event::Knock(place) if self.paused_at.is_none() => self.answer(place),
            Event::Knock(place) => self.unfinished.push(place),
            Event::Resume => self.resume(),
            Event::Order(Order::Stop) => self.is_over = true,
            Event::Order(Order::Open(door, answer)) => {
                let _ = answer.send(self.open(door));
            }
            Event::Order(Order::Shut(address, answer)) => {
                let _ = answer.send(self.shut(&address));
            }
        }
    }

    /// Opens a door.
    pub(crate) fn open(&mut self, door: D) -> io::Result<()> {
        let raw = door.listener().socket.as_raw_fd();
        let slot = self.doors.vacant_entry();
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&raw), Token(slot.key()), Interest::READABLE)?;
        slot.insert(door);
        Ok(())
    }

    fn shut(&mut self, address: &str) -> bool {
        let mut doors = self.doors.iter();
        let found = doors.find(|(_, door)| door.listener().address() == address);
        let Some((place, _)) = found else {
            return false;
        };
        let door = self.doors.remove(place);
        let raw = door.listener().socket.as_raw_fd();
        let _ = self.poll.registry().deregister(&mut SourceFd(&raw));
        true
    }

    fn answer(&mut self, place: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(door) = self.doors.get_mut(place) else {
                return;
            };
            if door.is_full_for_now(Instant::now()) {
                self.full.push(place);
                return;
            }
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::acceptfrom_with(&door.listener().socket, flags) {
                Ok((socket, from)) => door.welcome(socket, from),
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.pause(place);
                    return;
                }
                // The client went away again, or the network had an error for it: the next one, then.
                Err(_) => {}
            }
        }
        self.unfinished.push(place);
    }

    fn resume(&mut self) {
        let after = self.paused_at.take().map(|at| at.elapsed());
        if let Some(after) = after {
            self.doors.iter().for_each(|(_, door)| door.resumed(after));
        }
    }

    /// No descriptor or no memory left: all doors stay shut for a moment instead of spinning on them.
    fn pause(&mut self, place: usize) {
        self.paused_at = Some(Instant::now());
        self.unfinished.push(place);
        self.doors.iter().for_each(|(_, door)| door.paused());
        tracing::warn!(
            "no file descriptors or memory left for new connections; raise `ulimit -n`, or allow fewer connections"
        );
    }
}
