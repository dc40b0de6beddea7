//! A queue's thread. While requests keep coming it looks at the ring itself; before it sleeps it says so in the ring
//! and is kicked.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use mio::{Interest, Token};
use sublet_pace::{Found, Look};

use super::letters::{End, Message};
use super::socket::Socket;
use crate::block::{Desk, Outcome, Outcomes};
use crate::serving::{Mailbox, PollLoop, Work};
use crate::vhost_user::session::{BrokenRing, Queue, Seat, Setup};

/// Events that one wait brings at most: a kick, and a wake-up.
const EVENTS_MAX: usize = 4;

const KICK: Token = Token(0);

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

/// A thread and its queue, if that runs.
pub(super) struct Worker {
    poll: PollLoop<Message>,
    outcomes: Arc<dyn Outcomes>,
    socket: Arc<Socket>,
    desk: Box<dyn Desk>,
    queue: Option<Queue>,
    kick: Option<Arc<OwnedFd>>,
    ending: Option<Sender<u16>>,
    next_token: u64,
    is_over: bool,
}

impl Worker {
    pub(super) fn new(
        socket: Arc<Socket>,
        desk: Box<dyn Desk>,
    ) -> io::Result<(Worker, Arc<Mailbox<Message>>)> {
        let poll = PollLoop::new(EVENTS_MAX)?;
        let mailbox = Arc::clone(poll.mailbox());
        let worker = Worker {
            poll,
            outcomes: Arc::clone(&mailbox) as Arc<dyn Outcomes>,
            socket,
            desk,
            queue: None,
            kick: None,
            ending: None,
            next_token: 0,
            is_over: false,
        };
        Ok((worker, mailbox))
    }

    /// Blocks until there is something to do.
    fn wait(&mut self) -> io::Result<()> {
        let has_work = |queue: &Option<Queue>| queue.as_ref().is_some_and(Queue::has_work);
        if has_work(&self.queue) || self.poll.mailbox().has_mail() {
            return Ok(());
        }
        let (queue, socket) = (&mut self.queue, &self.socket);
        let mut has_said_so = false;
        let waited = self.poll.wait_beside(None, |look| match look {
            Look::Glance if has_work(queue) => Found::Work,
            Look::Glance => Found::Nothing,
            Look::Sleep => {
                has_said_so = true;
                fall_asleep(queue, socket)
            }
        });
        if has_said_so {
            self.queue.iter_mut().for_each(Queue::wake_up);
        }
        // A kick says no more than that: the queue is looked at in any case.
        self.poll.take_events(|_| {});
        waited
    }

    /// Hears what the disk has done, and what others say.
    fn read_mail(&mut self) {
        if !self.poll.mailbox().has_mail() {
            return;
        }
        let mail = self.poll.mail();
        let letters = std::mem::take(&mut mail.letters);
        match &mut self.queue {
            Some(queue) => settle(queue, mail.outcomes.drain(..), &self.socket),
            None => mail.outcomes.clear(),
        }
        letters.into_iter().for_each(|letter| self.apply(letter));
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
        // Edge-triggered and never read: each kick is told once, and nothing here can block on it.
        let told = self.poll.watch(&kick, KICK, Interest::READABLE);
        told.map_err(BeginError::Kick)?;
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

    fn turn(&mut self) {
        let Some(queue) = &mut self.queue else {
            return;
        };
        let seat = Seat {
            disk: &self.socket.disk,
            desk: &*self.desk,
            outcomes: &self.outcomes,
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
            self.poll.forget(&kick);
        }
        if let Some(queue) = self.queue.take() {
            self.next_token = queue.next_token();
            let _ = to.send(queue.position());
        }
    }
}

/// Serves until it is told to stop.
impl Work for Worker {
    fn run(&mut self) -> io::Result<()> {
        while !self.is_over {
            self.wait()?;
            self.read_mail();
            self.turn();
            self.leave();
        }
        Ok(())
    }
}

/// Says in the ring that the thread sleeps, unless there is work in it after all.
fn fall_asleep(queue: &mut Option<Queue>, socket: &Socket) -> Found {
    let Some(queue) = queue else {
        return Found::Nothing;
    };
    match queue.fall_asleep() {
        Ok(true) => Found::Nothing,
        Ok(false) => Found::Work,
        Err(broken) => {
            give_up(queue, &broken, socket);
            Found::Work
        }
    }
}

fn settle(queue: &mut Queue, outcomes: impl Iterator<Item = Outcome>, socket: &Socket) {
    let mut settled = Ok(());
    for outcome in outcomes {
        settled = settled.and(queue.settle(outcome));
    }
    if let Err(broken) = settled {
        give_up(queue, &broken, socket);
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
