//! A queue's thread. While requests keep coming it looks at the ring itself; before it sleeps it says so in the ring
//! and is kicked.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use sublet_pace::{Found, Look, Pace};

use super::Socket;
use crate::block::{Desk, Outcome};
use crate::vhost_user::mailbox::Mailbox;
use crate::vhost_user::memory::Memory;
use crate::vhost_user::queue::{BrokenRing, Call, Queue, Seat, Setup};

/// Events that one wait brings at most: a kick, and a wake-up.
const EVENTS_MAX: usize = 4;

const KICK: Token = Token(0);
const POST: Token = Token(1);

/// Why a queue does not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum BeginError {
    /// The ring makes no sense.
    #[error(transparent)]
    Ring(#[from] BrokenRing),
    /// The doorbell is none.
    #[error("cannot listen for kicks: {0}")]
    Kick(io::Error),
    /// The thread has ended.
    #[error("the queue's thread has ended")]
    Ended,
}

/// What a worker is told. Who sends it waits for the answer, so there is one at a time.
enum Message {
    Begin(Box<Setup>, Arc<OwnedFd>, Sender<Result<(), BeginError>>),
    SetMemory(Arc<Memory>, Sender<()>),
    SetCall(Option<Call>, Sender<()>),
    End(End, Sender<u16>),
    Stop,
}

/// How a queue ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All that was taken is answered first.
    Answered,
    /// Nothing more is answered: the VMM has gone.
    Silent,
}

/// A worker's letter box, and how to wake it.
pub(super) struct Post {
    /// `None` once nobody reads them any more.
    letters: Mutex<Option<VecDeque<Message>>>,
    has_letters: AtomicBool,
    mailbox: Arc<Mailbox>,
}

impl Post {
    fn send(&self, message: Message) {
        if let Some(letters) = &mut *self.letters.lock() {
            letters.push_back(message);
            self.has_letters.store(true, Ordering::Release);
        }
        self.mailbox.wake();
    }

    fn ask<A>(&self, message: impl FnOnce(Sender<A>) -> Message) -> Option<A> {
        let (to, answer) = mpsc::channel();
        self.send(message(to));
        answer.recv().ok()
    }

    /// Starts the queue; it must not run.
    pub(super) fn begin(&self, setup: Setup, kick: Arc<OwnedFd>) -> Result<(), BeginError> {
        let begun = self.ask(|to| Message::Begin(Box::new(setup), kick, to));
        begun.unwrap_or(Err(BeginError::Ended))
    }

    /// The guest's memory is another. The old one is not touched any more when this returns.
    pub(super) fn set_memory(&self, memory: &Arc<Memory>) {
        self.ask(|to| Message::SetMemory(Arc::clone(memory), to));
    }

    /// The guest is notified otherwise.
    pub(super) fn set_call(&self, call: Option<Call>) {
        self.ask(|to| Message::SetCall(call, to));
    }

    /// Begins to end the queue. What comes is the first request without an answer; the disk has given everything back then.
    pub(super) fn end(&self, end: End) -> Receiver<u16> {
        let (to, answer) = mpsc::channel();
        self.send(Message::End(end, to));
        answer
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.send(Message::Stop);
    }
}

/// A thread and its queue, if that runs.
pub(super) struct Worker {
    poll: Poll,
    ready: Events,
    post: Arc<Post>,
    mailbox: Arc<Mailbox>,
    pace: Pace,
    socket: Arc<Socket>,
    desk: Box<dyn Desk>,
    queue: Option<Queue>,
    kick: Option<Arc<OwnedFd>>,
    ending: Option<Sender<u16>>,
    next_token: u64,
    outcomes: Vec<Outcome>,
    is_over: bool,
}

impl Worker {
    pub(super) fn new(socket: Arc<Socket>, desk: Box<dyn Desk>) -> io::Result<(Worker, Arc<Post>)> {
        let poll = Poll::new()?;
        let mailbox = Arc::new(Mailbox::new(Waker::new(poll.registry(), POST)?));
        let post = Arc::new(Post {
            letters: Mutex::new(Some(VecDeque::new())),
            has_letters: AtomicBool::new(false),
            mailbox: Arc::clone(&mailbox),
        });
        let worker = Worker {
            poll,
            ready: Events::with_capacity(EVENTS_MAX),
            post: Arc::clone(&post),
            mailbox,
            pace: Pace::default(),
            socket,
            desk,
            queue: None,
            kick: None,
            ending: None,
            next_token: 0,
            outcomes: Vec::new(),
            is_over: false,
        };
        Ok((worker, post))
    }

    /// Serves until it is told to stop.
    pub(super) fn run(&mut self) -> io::Result<()> {
        while !self.is_over {
            self.wait()?;
            self.read_letters();
            self.collect();
            self.turn();
            self.leave();
        }
        Ok(())
    }

    /// Blocks until there is something to do.
    fn wait(&mut self) -> io::Result<()> {
        let (poll, ready, queue) = (&mut self.poll, &mut self.ready, &mut self.queue);
        let (post, mailbox, figures) = (&self.post, &self.mailbox, &self.socket.figures);
        let glance = |queue: &Option<Queue>| {
            let has_work = queue.as_ref().is_some_and(Queue::has_work);
            let has_letters = post.has_letters.load(Ordering::Acquire);
            has_work || has_letters || mailbox.has_some()
        };
        if glance(queue) {
            return Ok(());
        }
        self.pace.wait(|look| match look {
            Look::Glance if glance(queue) => Ok(Found::Work),
            Look::Glance => Ok(Found::Nothing),
            Look::Sleep => {
                let slept = sleep(poll, ready, queue, &self.socket, mailbox);
                mailbox.wake_up();
                queue.iter_mut().for_each(Queue::wake_up);
                let kicks = ready.iter().filter(|event| event.token() == KICK);
                figures.kicks.add(kicks.count() as u64);
                ready.clear();
                slept.map(|()| Found::Work)
            }
        })
    }

    fn read_letters(&mut self) {
        if !self.post.has_letters.load(Ordering::Acquire) {
            return;
        }
        let letters = {
            let mut letters = self.post.letters.lock();
            self.post.has_letters.store(false, Ordering::Release);
            letters.as_mut().map(std::mem::take)
        };
        for letter in letters.into_iter().flatten() {
            self.apply(letter);
        }
    }

    /// Whoever waits for an answer may have gone.
    fn apply(&mut self, message: Message) {
        match message {
            Message::Begin(setup, kick, to) => {
                let _ = to.send(self.begin(*setup, kick));
            }
            Message::SetMemory(memory, to) => {
                if let Some(queue) = &mut self.queue {
                    queue.set_memory(memory);
                }
                let _ = to.send(());
            }
            Message::SetCall(call, to) => {
                if let Some(queue) = &mut self.queue {
                    queue.set_call(call);
                }
                let _ = to.send(());
            }
            Message::End(end, to) => self.end(end, to),
            Message::Stop => self.is_over = true,
        }
    }

    fn begin(&mut self, setup: Setup, kick: Arc<OwnedFd>) -> Result<(), BeginError> {
        let mut queue = Queue::begin(setup, self.next_token)?;
        let registry = self.poll.registry();
        // Edge-triggered and never read: each kick is told once, and nothing here can block on it.
        registry
            .register(&mut SourceFd(&kick.as_raw_fd()), KICK, Interest::READABLE)
            .map_err(BeginError::Kick)?;
        if queue.position() != 0 {
            self.socket.caching.goes_on();
        }
        queue.notify();
        self.kick = Some(kick);
        self.queue = Some(queue);
        Ok(())
    }

    fn end(&mut self, end: End, to: Sender<u16>) {
        match &mut self.queue {
            Some(queue) if end == End::Silent => queue.silence(),
            Some(queue) => queue.close(),
            None => return,
        }
        self.ending = Some(to);
    }

    /// Hears what the disk has done.
    fn collect(&mut self) {
        if !self.mailbox.has_some() {
            return;
        }
        self.mailbox.collect(&mut self.outcomes);
        let Some(queue) = &mut self.queue else {
            self.outcomes.clear();
            return;
        };
        let mut settled = Ok(());
        for outcome in self.outcomes.drain(..) {
            settled = settled.and(queue.settle(outcome));
        }
        if let Err(broken) = settled {
            give_up(queue, &broken, &self.socket);
        }
    }

    fn turn(&mut self) {
        let Some(queue) = &mut self.queue else {
            return;
        };
        let seat = Seat {
            disk: &self.socket.disk,
            desk: &*self.desk,
            mailbox: &self.mailbox,
            caching: &self.socket.caching,
            figures: &self.socket.figures,
            shape: self.socket.disk.shape(),
        };
        if let Err(broken) = queue.turn(&seat) {
            give_up(queue, &broken, &self.socket);
        }
    }

    /// Ends the queue if that is wanted and the disk has given back all it had.
    fn leave(&mut self) {
        let is_drained = self.queue.as_ref().is_none_or(Queue::is_drained);
        let Some(to) = self.ending.take_if(|_| is_drained) else {
            return;
        };
        if let Some(kick) = self.kick.take() {
            let raw = kick.as_raw_fd();
            let _ = self.poll.registry().deregister(&mut SourceFd(&raw));
        }
        if let Some(queue) = self.queue.take() {
            self.next_token = queue.next_token();
            let _ = to.send(queue.position());
        }
    }
}

/// Whoever waits for an answer hears that there is none.
impl Drop for Worker {
    fn drop(&mut self) {
        *self.post.letters.lock() = None;
    }
}

/// Sleeps until something comes, unless something is there once all have been told of it.
fn sleep(
    poll: &mut Poll,
    ready: &mut Events,
    queue: &mut Option<Queue>,
    socket: &Socket,
    mailbox: &Mailbox,
) -> io::Result<()> {
    let finds_work = queue.as_mut().is_some_and(|queue| {
        let asleep = queue.fall_asleep();
        let asleep = asleep.inspect_err(|broken| give_up(queue, broken, socket));
        !asleep.unwrap_or(false)
    });
    if finds_work || !mailbox.fall_asleep() {
        return Ok(());
    }
    match poll.poll(ready, None) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// A ring that makes no sense rests until the VMM sets it up anew; so does one with a request that cannot be answered, once
/// those before it are.
fn give_up(queue: &mut Queue, broken: &BrokenRing, socket: &Socket) {
    match broken {
        BrokenRing::Ring(_) | BrokenRing::Vanished => queue.silence(),
        BrokenRing::Chain { .. } | BrokenRing::Status(_) => queue.close(),
    }
    socket.figures.broken_rings.bump();
    tracing::warn!(disk = socket.disk.name(), %broken, "a guest's queue rests until it is set up anew");
}
