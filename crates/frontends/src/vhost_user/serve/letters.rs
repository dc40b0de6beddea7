//! What a queue's thread is told, and by whom it is asked.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use super::worker::BeginError;
use crate::serving::Mailbox;
use crate::vhost_user::map::Memory;
use crate::vhost_user::session::{Call, Setup};

/// What a worker is told. Who sends it waits for the answer, so there is one at a time.
pub(super) enum Message {
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

/// A queue's thread, as the one that talks to the VMM sees it.
impl Mailbox<Message> {
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
}
