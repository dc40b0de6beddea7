//! The messages to a queue's thread, and the calls that send them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use super::worker::QueueStartError;
use crate::serving::Mailbox;
use crate::vhost_user::map::GuestMemory;
use crate::vhost_user::session::{CallNotifier, VirtqueueSetup};

/// A message to a worker. The sender waits for the answer, so there is one at a time.
pub(super) enum Message {
    StartQueue(
        Box<VirtqueueSetup>,
        Arc<OwnedFd>,
        Sender<Result<(), QueueStartError>>,
    ),
    SetMemory(Arc<GuestMemory>, Sender<()>),
    SetCall(Option<CallNotifier>, Sender<()>),
    StopQueue(QueueStop, Sender<u16>),
    Stop,
}

/// How a queue stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueStop {
    /// The queue first answers everything that it took.
    Drain,
    /// The queue answers nothing more, because the VMM has gone.
    Abandon,
}

/// The calls of the thread that talks to the VMM.
impl Mailbox<Message> {
    fn call<A>(&self, message: impl FnOnce(Sender<A>) -> Message) -> Option<A> {
        let (reply, answer) = mpsc::channel();
        self.send(message(reply));
        answer.recv().ok()
    }

    /// Starts the queue, which must not run.
    pub(super) fn start_queue(
        &self,
        setup: VirtqueueSetup,
        kick: Arc<OwnedFd>,
    ) -> Result<(), QueueStartError> {
        let started = self.call(|reply| Message::StartQueue(Box::new(setup), kick, reply));
        started.unwrap_or(Err(QueueStartError::Ended))
    }

    /// Gives the queue another memory of the guest. When this returns, the queue no longer touches the old one.
    pub(super) fn set_memory(&self, memory: &Arc<GuestMemory>) {
        self.call(|reply| Message::SetMemory(Arc::clone(memory), reply));
    }

    /// Has the queue notify the guest in another way.
    pub(super) fn set_call(&self, call: Option<CallNotifier>) {
        self.call(|reply| Message::SetCall(call, reply));
    }

    /// Begins to stop the queue. The receiver gets the first request without an answer, after the disk has given
    /// everything back.
    pub(super) fn stop_queue(&self, end: QueueStop) -> Receiver<u16> {
        let (reply, answer) = mpsc::channel();
        self.send(Message::StopQueue(end, reply));
        answer
    }
}
