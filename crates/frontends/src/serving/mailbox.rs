//! A worker's mailbox, which receives messages from other threads and outcomes from disks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::Waker;
use parking_lot::Mutex;

use crate::block_device::{DiskOutcome, OutcomeSink};
use crate::clock::Sleeper;

/// What has come to a worker, in two lanes. The senders bound both lanes. Messages are bounded by the number of
/// connections and commands. Outcomes are bounded by the requests that are under way.
pub(crate) struct Mail<L> {
    /// Messages from other threads, in order.
    pub(crate) messages: Vec<L>,
    /// Outcomes of the worker's requests to disks.
    pub(crate) outcomes: Vec<DiskOutcome>,
}

impl<L> Default for Mail<L> {
    fn default() -> Mail<L> {
        Mail {
            messages: Vec::new(),
            outcomes: Vec::new(),
        }
    }
}

/// Where a worker gets its mail. A sender makes a system call only if the worker sleeps.
pub(crate) struct Mailbox<L> {
    /// `None` once the worker has ended. Messages sent after that are dropped.
    messages: Mutex<Option<VecDeque<L>>>,
    outcomes: Mutex<Vec<DiskOutcome>>,
    has_mail: AtomicBool,
    /// Whether the worker must be woken to find its mail.
    sleeps: AtomicBool,
    waker: Waker,
}

impl<L> Mailbox<L> {
    /// Makes an empty mailbox, whose worker is awake.
    pub(super) fn new(waker: Waker) -> Mailbox<L> {
        Mailbox {
            messages: Mutex::new(Some(VecDeque::new())),
            outcomes: Mutex::default(),
            has_mail: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            waker,
        }
    }

    /// Sends a message. If the worker has ended, the message is dropped together with its channel for the answer.
    pub(crate) fn send(&self, message: L) {
        if let Some(messages) = &mut *self.messages.lock() {
            messages.push_back(message);
        }
        self.notify();
    }

    /// Returns whether there may be mail.
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::SeqCst)
    }

    /// Marks the worker as asleep, so that mail wakes it. If there is mail already, the worker stays awake. Returns
    /// whether it sleeps.
    pub(super) fn fall_asleep(&self) -> bool {
        self.sleeps.store(true, Ordering::SeqCst);
        let sleeps = !self.has_mail();
        if !sleeps {
            self.wake_up();
        }
        sleeps
    }

    /// Returns whether a message has to wake the worker.
    #[cfg(test)]
    pub(super) fn is_asleep(&self) -> bool {
        self.sleeps.load(Ordering::SeqCst)
    }

    /// Marks the worker as awake: it looks for mail by itself again.
    pub(super) fn wake_up(&self) {
        self.sleeps.store(false, Ordering::SeqCst);
    }

    /// Moves all mail to the ends of `mail`.
    pub(super) fn collect(&self, mail: &mut Mail<L>) {
        if self.has_mail() && self.has_mail.swap(false, Ordering::SeqCst) {
            if let Some(messages) = &mut *self.messages.lock() {
                mail.messages.extend(messages.drain(..));
            }
            mail.outcomes.append(&mut self.outcomes.lock());
        }
    }

    /// Closes the mailbox, because the worker has ended.
    pub(super) fn close(&self) {
        let messages = self.messages.lock().take();
        // The drop of a message may send another message.
        drop(messages);
    }

    /// Wakes a sleeping worker once for all mail that comes before it is awake.
    fn notify(&self) {
        self.has_mail.store(true, Ordering::SeqCst);
        if self.sleeps.swap(false, Ordering::SeqCst) {
            // A full counter means that the worker is awake already.
            let _ = self.waker.wake();
        }
    }
}

/// A move of the clock wakes the worker.
impl<L: Send> Sleeper for Mailbox<L> {
    fn wake(&self) {
        self.notify();
    }
}

impl<L: Send> OutcomeSink for Mailbox<L> {
    fn deliver(&self, outcome: DiskOutcome) {
        self.outcomes.lock().push(outcome);
        self.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use mio::{Events, Poll, Token};

    use super::*;
    use crate::block_device::Buffer;

    fn mailbox<L>() -> (Poll, Mailbox<L>) {
        let poll = Poll::new().expect("an epoll");
        let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
        (poll, Mailbox::new(waker))
    }

    /// Returns whether a sender called the kernel to wake the worker.
    fn is_woken(poll: &mut Poll) -> bool {
        let mut ready = Events::with_capacity(1);
        poll.poll(&mut ready, Some(Duration::ZERO)).expect("polled");
        !ready.is_empty()
    }

    fn outcome(token: u64) -> DiskOutcome {
        DiskOutcome {
            token,
            result: Ok(()),
            buffer: Buffer::default(),
            extents: Vec::new(),
        }
    }

    #[test]
    fn both_lanes_are_collected_in_order() {
        let (_poll, mailbox) = mailbox();
        (0..3).for_each(|n| mailbox.send(n));
        (7..9).for_each(|token| mailbox.deliver(outcome(token)));
        let mut mail = Mail::default();
        mailbox.collect(&mut mail);
        assert_eq!(mail.messages, [0, 1, 2]);
        let tokens: Vec<u64> = mail.outcomes.iter().map(|outcome| outcome.token).collect();
        assert_eq!(tokens, [7, 8]);
        assert!(!mailbox.has_mail());
    }

    #[test]
    fn only_a_sleeper_is_woken_and_once() {
        let (mut poll, mailbox) = mailbox();
        mailbox.send(1);
        assert!(!is_woken(&mut poll), "it was awake");
        assert!(!mailbox.fall_asleep(), "there is mail");
        mailbox.collect(&mut Mail::default());
        assert!(mailbox.fall_asleep());
        mailbox.deliver(outcome(1));
        assert!(is_woken(&mut poll));
        mailbox.send(2);
        assert!(!is_woken(&mut poll), "it was woken already");
        mailbox.wake_up();
        mailbox.send(3);
        assert!(!is_woken(&mut poll), "it looks by itself again");
    }

    #[test]
    fn a_sender_to_a_worker_that_has_ended_learns_that_no_answer_comes() {
        let (_poll, mailbox) = mailbox::<Sender<()>>();
        let messages = [(); 2].map(|()| channel::<()>());
        mailbox.send(messages[0].0.clone());
        mailbox.close();
        mailbox.send(messages[1].0.clone());
        for (sender, answer) in messages {
            drop(sender);
            assert!(answer.recv().is_err());
        }
    }
}
