//! A worker's mailbox: letters from other threads, and outcomes from disks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::Waker;
use parking_lot::Mutex;

use crate::block::{Outcome, Outcomes};

/// What has come to a worker, in two lanes. Who sends bounds both: letters by the connections and orders there are,
/// outcomes by the requests that are under way.
pub(crate) struct Mail<L> {
    /// What other threads tell it, in order.
    pub(crate) letters: Vec<L>,
    /// What disks have done for it.
    pub(crate) outcomes: Vec<Outcome>,
}

impl<L> Default for Mail<L> {
    fn default() -> Mail<L> {
        Mail {
            letters: Vec::new(),
            outcomes: Vec::new(),
        }
    }
}

/// Where a worker gets its mail. A system call is made for a sleeper only.
pub(crate) struct Mailbox<L> {
    /// `None` once the worker has ended: what is sent then is dropped.
    letters: Mutex<Option<VecDeque<L>>>,
    outcomes: Mutex<Vec<Outcome>>,
    has_mail: AtomicBool,
    /// The worker must be woken to find its mail.
    sleeps: AtomicBool,
    waker: Waker,
}

impl<L> Mailbox<L> {
    /// An empty one, whose worker is awake.
    pub(super) fn new(waker: Waker) -> Mailbox<L> {
        Mailbox {
            letters: Mutex::new(Some(VecDeque::new())),
            outcomes: Mutex::default(),
            has_mail: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            waker,
        }
    }

    /// Sends a letter. One to a worker that has ended is dropped, and with it whatever it is answered by.
    pub(crate) fn send(&self, letter: L) {
        if let Some(letters) = &mut *self.letters.lock() {
            letters.push_back(letter);
        }
        self.ring();
    }

    /// Whether there may be mail.
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::SeqCst)
    }

    /// From now on the worker is woken for mail; unless there is some: it says so, and none of this holds.
    pub(super) fn fall_asleep(&self) -> bool {
        self.sleeps.store(true, Ordering::SeqCst);
        let sleeps = !self.has_mail();
        if !sleeps {
            self.wake_up();
        }
        sleeps
    }

    /// The worker looks for mail by itself again.
    pub(super) fn wake_up(&self) {
        self.sleeps.store(false, Ordering::SeqCst);
    }

    /// Takes all there is: it goes to the ends of `mail`.
    pub(super) fn collect(&self, mail: &mut Mail<L>) {
        if self.has_mail() && self.has_mail.swap(false, Ordering::SeqCst) {
            if let Some(letters) = &mut *self.letters.lock() {
                mail.letters.extend(letters.drain(..));
            }
            mail.outcomes.append(&mut self.outcomes.lock());
        }
    }

    /// The worker has ended.
    pub(super) fn close(&self) {
        let letters = self.letters.lock().take();
        // What is dropped with a letter may send one.
        drop(letters);
    }

    /// One wake for all mail that comes before the worker is awake.
    fn ring(&self) {
        self.has_mail.store(true, Ordering::SeqCst);
        if self.sleeps.swap(false, Ordering::SeqCst) {
            // A full counter means that the worker is awake already.
            let _ = self.waker.wake();
        }
    }
}

impl<L: Send> Outcomes for Mailbox<L> {
    fn done(&self, outcome: Outcome) {
        self.outcomes.lock().push(outcome);
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use mio::{Events, Poll, Token};

    use super::*;
    use crate::block::Buffer;

    fn mailbox<L>() -> (Poll, Mailbox<L>) {
        let poll = Poll::new().expect("an epoll");
        let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
        (poll, Mailbox::new(waker))
    }

    /// Whether somebody called the kernel to wake the worker.
    fn is_woken(poll: &mut Poll) -> bool {
        let mut ready = Events::with_capacity(1);
        poll.poll(&mut ready, Some(Duration::ZERO)).expect("asked");
        !ready.is_empty()
    }

    fn outcome(token: u64) -> Outcome {
        Outcome {
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
        (7..9).for_each(|token| mailbox.done(outcome(token)));
        let mut mail = Mail::default();
        mailbox.collect(&mut mail);
        assert_eq!(mail.letters, [0, 1, 2]);
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
        mailbox.done(outcome(1));
        assert!(is_woken(&mut poll));
        mailbox.send(2);
        assert!(!is_woken(&mut poll), "it was woken already");
        mailbox.wake_up();
        mailbox.send(3);
        assert!(!is_woken(&mut poll), "it looks by itself again");
    }

    #[test]
    fn who_waits_for_a_worker_that_has_ended_hears_that_there_is_no_answer() {
        let (_poll, mailbox) = mailbox::<Sender<()>>();
        let letters = [(); 2].map(|()| channel::<()>());
        mailbox.send(letters[0].0.clone());
        mailbox.close();
        mailbox.send(letters[1].0.clone());
        for (sender, answer) in letters {
            drop(sender);
            assert!(answer.recv().is_err());
        }
    }
}
