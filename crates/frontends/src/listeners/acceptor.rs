//! The thread that accepts connections. Listeners may be added and removed while it runs.

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
use crate::clock::MonotonicClock;

/// The most events that one wait returns.
const EVENTS_MAX: usize = 64;

/// How long the acceptor pauses if the process has no descriptor or no memory left for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections that the acceptor takes from one listener before it turns to the others.
const ACCEPTS_PER_TURN: usize = 64;

/// How often the acceptor checks a full listener for room while connections wait in the kernel's queue.
const FULL_RECHECK: Duration = Duration::from_millis(10);

const WAKER: Token = Token(usize::MAX);

/// A listener, and what a protocol does with the connections that the acceptor takes from it.
pub(crate) trait ServedListener: Send {
    /// Returns the listener to accept from.
    fn listener(&self) -> &Listener;

    /// Takes an accepted socket and the address of its peer. Must not block.
    fn accepted(&mut self, socket: OwnedFd, from: Option<SocketAddrAny>);

    /// Returns whether the acceptor shall leave new connections in the kernel's queue for now. That is so while all
    /// permits are taken and one is about to become free.
    fn is_full_for_now(&self) -> bool {
        false
    }

    /// The acceptor has paused all listeners for a moment, because the process has no descriptor or no memory left.
    fn paused(&self) {}

    /// The acceptor accepts again, after a pause of that length.
    fn resumed(&self, _after: Duration) {}
}

/// A command to the acceptor.
enum AcceptorCommand<D> {
    Add(D, Sender<io::Result<()>>),
    /// Removes the listener at an address. The answer comes once the listener is gone.
    Remove(String, Sender<bool>),
    Stop,
}

/// Sends commands to an acceptor.
pub(crate) struct AcceptorHandle<D> {
    commands: Mutex<VecDeque<AcceptorCommand<D>>>,
    waker: Waker,
}

impl<D> AcceptorHandle<D> {
    /// Adds a listener, from which the acceptor accepts from now on.
    pub(crate) fn add(&self, listener: D) -> io::Result<()> {
        let (reply, added) = mpsc::channel();
        self.send(AcceptorCommand::Add(listener, reply));
        added.recv().map_err(io::Error::other)?
    }

    /// Removes the listener at an address, and closes it. Returns whether there was one.
    pub(crate) fn remove(&self, address: &str) -> bool {
        let (reply, removed) = mpsc::channel();
        self.send(AcceptorCommand::Remove(address.to_owned(), reply));
        removed.recv().unwrap_or(false)
    }

    /// Ends the acceptor.
    pub(crate) fn stop(&self) {
        self.send(AcceptorCommand::Stop);
    }

    fn send(&self, command: AcceptorCommand<D>) {
        self.commands.lock().push_back(command);
        let _ = self.waker.wake();
    }
}

/// What the acceptor acts on.
enum AcceptorEvent<D> {
    Ready(usize),
    Resume,
    Command(AcceptorCommand<D>),
}

/// Accepts connections from all listeners.
pub(crate) struct Acceptor<D: ServedListener> {
    poll: Poll,
    ready: Events,
    handle: Arc<AcceptorHandle<D>>,
    listeners: Slab<D>,
    /// Listeners that may have more connections waiting, although the kernel will not report it again. Some of them may
    /// be gone.
    unfinished: Vec<usize>,
    /// Listeners that are full for now. Some of them may be gone.
    full: Vec<usize>,
    clock: MonotonicClock,
    paused_at: Option<Instant>,
    is_over: bool,
}

impl<D: ServedListener> Acceptor<D> {
    /// Makes an acceptor whose pauses go by `clock`.
    pub(crate) fn new(clock: MonotonicClock) -> io::Result<(Acceptor<D>, Arc<AcceptorHandle<D>>)> {
        let poll = Poll::new()?;
        let handle = Arc::new(AcceptorHandle {
            commands: Mutex::default(),
            waker: Waker::new(poll.registry(), WAKER)?,
        });
        let acceptor = Acceptor {
            poll,
            ready: Events::with_capacity(EVENTS_MAX),
            handle: Arc::clone(&handle),
            listeners: Slab::new(),
            unfinished: Vec::new(),
            full: Vec::new(),
            clock,
            paused_at: None,
            is_over: false,
        };
        Ok((acceptor, handle))
    }

    /// Accepts until a command stops it.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        while !self.is_over {
            for event in self.wait()? {
                self.apply(event);
            }
        }
        Ok(())
    }

    /// Blocks until a connection or a command comes, or a pause is over.
    fn wait(&mut self) -> io::Result<Vec<AcceptorEvent<D>>> {
        let longest = match self.paused_at {
            Some(_) => Some(PAUSE),
            None if !self.unfinished.is_empty() => Some(Duration::ZERO),
            None if !self.full.is_empty() => Some(FULL_RECHECK),
            None => None,
        };
        match self.poll.poll(&mut self.ready, longest) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let ready = self.ready.iter().map(|event| event.token());
        self.unfinished
            .extend(ready.filter(|token| *token != WAKER).map(|token| token.0));
        self.unfinished.append(&mut self.full);
        let mut events: Vec<_> = self
            .handle
            .commands
            .lock()
            .drain(..)
            .map(AcceptorEvent::Command)
            .collect();
        match self.paused_at {
            Some(at) if self.clock.now() - at < PAUSE => {}
            Some(_) => events.push(AcceptorEvent::Resume),
            None => {
                self.unfinished.sort_unstable();
                self.unfinished.dedup();
                events.extend(self.unfinished.drain(..).map(AcceptorEvent::Ready));
            }
        }
        Ok(events)
    }

    fn apply(&mut self, event: AcceptorEvent<D>) {
        match event {
            AcceptorEvent::Ready(key) if self.paused_at.is_none() => self.accept_from(key),
            AcceptorEvent::Ready(key) => self.unfinished.push(key),
            AcceptorEvent::Resume => self.resume(),
            AcceptorEvent::Command(AcceptorCommand::Stop) => self.is_over = true,
            AcceptorEvent::Command(AcceptorCommand::Add(listener, reply)) => {
                let _ = reply.send(self.add(listener));
            }
            AcceptorEvent::Command(AcceptorCommand::Remove(address, reply)) => {
                let _ = reply.send(self.remove(&address));
            }
        }
    }

    /// Adds a listener.
    pub(crate) fn add(&mut self, listener: D) -> io::Result<()> {
        let raw = listener.listener().socket.as_raw_fd();
        let slot = self.listeners.vacant_entry();
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&raw), Token(slot.key()), Interest::READABLE)?;
        slot.insert(listener);
        Ok(())
    }

    fn remove(&mut self, address: &str) -> bool {
        let mut listeners = self.listeners.iter();
        let found = listeners.find(|(_, listener)| listener.listener().address() == address);
        let Some((key, _)) = found else {
            return false;
        };
        let listener = self.listeners.remove(key);
        let raw = listener.listener().socket.as_raw_fd();
        let _ = self.poll.registry().deregister(&mut SourceFd(&raw));
        true
    }

    fn accept_from(&mut self, key: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(listener) = self.listeners.get_mut(key) else {
                return;
            };
            if listener.is_full_for_now() {
                self.full.push(key);
                return;
            }
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::acceptfrom_with(&listener.listener().socket, flags) {
                Ok((socket, from)) => listener.accepted(socket, from),
                Err(Errno::AGAIN) => return,
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    self.pause(key, error);
                    return;
                }
                // The client went away again, or the network reported an error for it: go on to the next one.
                Err(_) => {}
            }
        }
        self.unfinished.push(key);
    }

    fn resume(&mut self) {
        let after = self.paused_at.take().map(|at| self.clock.now() - at);
        if let Some(after) = after {
            self.listeners
                .iter()
                .for_each(|(_, listener)| listener.resumed(after));
        }
    }

    /// Pauses all listeners for a moment, because no descriptor or no memory is left. Otherwise the acceptor would spin
    /// on them.
    fn pause(&mut self, key: usize, error: Errno) {
        self.paused_at = Some(self.clock.now());
        self.unfinished.push(key);
        self.listeners
            .iter()
            .for_each(|(_, listener)| listener.paused());
        let listener = self.listeners.get(key);
        tracing::warn!(
            listener = listener.map(|listener| listener.listener().address()),
            %error,
            again_in = ?PAUSE,
            "the process lacks a file descriptor or memory for a new connection, and all listeners pause for a moment; raise `ulimit -n` (LimitNOFILE=), or allow fewer connections"
        );
    }
}
