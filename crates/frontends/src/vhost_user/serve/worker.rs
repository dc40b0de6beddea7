//! A queue's thread. While requests keep coming, the thread polls the ring itself. Before it sleeps, it says so in the
//! ring, and the guest kicks it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use mio::{Interest, Token};
use sublet_pace::{PollMode, PollOutcome};

use super::messages::{Message, QueueStop};
use super::socket::DiskSocket;
use crate::block_device::{DiskFastPath, DiskOutcome, OutcomeSink};
use crate::clock::MonotonicClock;
use crate::serving::{Mailbox, PollLoop, Work};
use crate::vhost_user::session::{QueueResources, Virtqueue, VirtqueueError, VirtqueueSetup};

/// The most events that one wait returns: a kick and a wake-up.
const EVENTS_MAX: usize = 4;

const KICK: Token = Token(0);

/// Why a queue does not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueueStartError {
    /// The ring makes no sense.
    #[error(transparent)]
    Ring(#[from] VirtqueueError),
    /// The kernel does not watch the descriptor for kicks.
    #[error("cannot listen for kicks: {0}")]
    Kick(io::Error),
    /// The thread has ended.
    #[error("the queue's thread has ended")]
    Ended,
}

/// A thread and its queue, if the queue runs.
pub(super) struct Worker {
    poll: PollLoop<Message>,
    outcomes: Arc<dyn OutcomeSink>,
    socket: Arc<DiskSocket>,
    fast_path: Box<dyn DiskFastPath>,
    queue: Option<Virtqueue>,
    kick: Option<Arc<OwnedFd>>,
    stop_reply: Option<Sender<u16>>,
    next_token: u64,
    is_over: bool,
}

impl Worker {
    pub(super) fn new(
        socket: Arc<DiskSocket>,
        fast_path: Box<dyn DiskFastPath>,
        clock: MonotonicClock,
    ) -> io::Result<(Worker, Arc<Mailbox<Message>>)> {
        let poll = PollLoop::new(EVENTS_MAX, clock)?;
        let mailbox = Arc::clone(poll.mailbox());
        let worker = Worker {
            poll,
            outcomes: Arc::clone(&mailbox) as Arc<dyn OutcomeSink>,
            socket,
            fast_path,
            queue: None,
            kick: None,
            stop_reply: None,
            next_token: 0,
            is_over: false,
        };
        Ok((worker, mailbox))
    }

    /// Blocks until there is something to do.
    fn wait(&mut self) -> io::Result<()> {
        let has_work = |queue: &Option<Virtqueue>| queue.as_ref().is_some_and(Virtqueue::has_work);
        if has_work(&self.queue) || self.poll.mailbox().has_mail() {
            return Ok(());
        }
        let (queue, socket) = (&mut self.queue, &self.socket);
        let mut has_said_so = false;
        let waited = self.poll.wait_with_probe(None, |look| match look {
            PollMode::NonBlocking if has_work(queue) => PollOutcome::Work,
            PollMode::NonBlocking => PollOutcome::Nothing,
            PollMode::Blocking => {
                has_said_so = true;
                fall_asleep(queue, socket)
            }
        });
        if has_said_so {
            self.queue.iter_mut().for_each(Virtqueue::wake_up);
        }
        // A kick carries nothing more: the worker looks at the queue in any case.
        self.poll.drain_events(|_| {});
        waited
    }

    /// Takes outcomes from the disk and messages from other threads.
    fn process_mail(&mut self) {
        if !self.poll.mailbox().has_mail() {
            return;
        }
        let mail = self.poll.mail();
        let messages = std::mem::take(&mut mail.messages);
        match &mut self.queue {
            Some(queue) => complete_requests(queue, mail.outcomes.drain(..), &self.socket),
            None => mail.outcomes.clear(),
        }
        messages
            .into_iter()
            .for_each(|message| self.handle_message(message));
    }

    /// Carries out a message. The sender that waits for the answer may have gone.
    fn handle_message(&mut self, message: Message) {
        match message {
            Message::StartQueue(setup, kick, reply) => {
                let _ = reply.send(self.start_queue(*setup, kick));
            }
            Message::SetMemory(memory, reply) => {
                if let Some(queue) = &mut self.queue {
                    queue.set_memory(memory);
                }
                let _ = reply.send(());
            }
            Message::SetCall(call, reply) => {
                if let Some(queue) = &mut self.queue {
                    queue.set_call(call);
                }
                let _ = reply.send(());
            }
            Message::StopQueue(end, reply) => self.stop_queue(end, reply),
            Message::Stop => self.is_over = true,
        }
    }

    fn start_queue(
        &mut self,
        setup: VirtqueueSetup,
        kick: Arc<OwnedFd>,
    ) -> Result<(), QueueStartError> {
        let mut queue = Virtqueue::begin(setup, self.next_token)?;
        // The kick is edge-triggered and never read. Each kick is reported once, and nothing here can block on it.
        let registered = self.poll.register(&kick, KICK, Interest::READABLE);
        registered.map_err(QueueStartError::Kick)?;
        if queue.position() != 0 {
            self.socket.write_cache.assume_unknown();
        }
        queue.notify();
        self.kick = Some(kick);
        self.queue = Some(queue);
        Ok(())
    }

    fn stop_queue(&mut self, end: QueueStop, reply: Sender<u16>) {
        match &mut self.queue {
            Some(queue) if end == QueueStop::Abandon => queue.abandon(),
            Some(queue) => queue.close(),
            None => return,
        }
        self.stop_reply = Some(reply);
    }

    fn serve_queue(&mut self) {
        let Some(queue) = &mut self.queue else {
            return;
        };
        let resources = QueueResources {
            disk: &self.socket.disk,
            fast_path: &*self.fast_path,
            outcomes: &self.outcomes,
            write_cache: &self.socket.write_cache,
            figures: &self.socket.figures,
            shape: self.socket.disk.shape(),
        };
        if let Err(broken) = queue.serve_turn(&resources) {
            rest_queue(queue, &broken, &self.socket);
        }
    }

    /// Ends the queue if that was asked and the disk has given back all its requests.
    fn finish_stop(&mut self) {
        let is_drained = self.queue.as_ref().is_none_or(Virtqueue::is_drained);
        let Some(reply) = self.stop_reply.take_if(|_| is_drained) else {
            return;
        };
        if let Some(kick) = self.kick.take() {
            self.poll.deregister(&kick);
        }
        if let Some(queue) = self.queue.take() {
            self.next_token = queue.next_token();
            let _ = reply.send(queue.position());
        }
    }
}

/// Serves until the worker is told to stop.
impl Work for Worker {
    fn run(&mut self) -> io::Result<()> {
        while !self.is_over {
            self.wait()?;
            self.process_mail();
            self.serve_queue();
            self.finish_stop();
        }
        Ok(())
    }
}

/// Says in the ring that the thread sleeps, unless the ring has work after all.
fn fall_asleep(queue: &mut Option<Virtqueue>, socket: &DiskSocket) -> PollOutcome {
    let Some(queue) = queue else {
        return PollOutcome::Nothing;
    };
    match queue.fall_asleep() {
        Ok(true) => PollOutcome::Nothing,
        Ok(false) => PollOutcome::Work,
        Err(broken) => {
            rest_queue(queue, &broken, socket);
            PollOutcome::Work
        }
    }
}

fn complete_requests(
    queue: &mut Virtqueue,
    outcomes: impl Iterator<Item = DiskOutcome>,
    socket: &DiskSocket,
) {
    let mut settled = Ok(());
    for outcome in outcomes {
        settled = settled.and(queue.complete_request(outcome));
    }
    if let Err(broken) = settled {
        rest_queue(queue, &broken, socket);
    }
}

/// Puts a broken queue to rest until the VMM sets it up anew. If the ring makes no sense, the queue rests at once. If a
/// request cannot be answered, the queue first answers the requests before it.
fn rest_queue(queue: &mut Virtqueue, broken: &VirtqueueError, socket: &DiskSocket) {
    match broken {
        VirtqueueError::Ring(_) | VirtqueueError::Vanished => queue.abandon(),
        VirtqueueError::Chain { .. } | VirtqueueError::Status(_) => queue.close(),
    }
    socket.figures.broken_rings.bump();
    let thread = std::thread::current();
    tracing::warn!(disk = socket.disk.name(), thread = thread.name(), %broken, "a guest's queue stopped; it starts again when the VMM sets it up anew");
}
