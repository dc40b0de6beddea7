//! A worker's letter box: newcomers from the acceptor, outcomes from disks.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use mio::Waker;
use parking_lot::Mutex;

use super::Group;
use super::connection::Seat;
use crate::block::{Outcome, Outcomes};

/// A connection on its way from the acceptor to its worker.
pub(super) struct Newcomer {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) seat: Seat,
}

/// Whose connections end.
pub(super) enum Parting {
    /// Those of a disk.
    Disk(String),
    /// Those that came in at a listener.
    Group(Arc<Group>),
    /// All.
    All,
}

/// What others tell a worker. Newcomers are bounded by the seats.
pub(super) enum Message {
    Newcomer(Newcomer),
    /// These connections end once what is under way is answered. The sender is dropped when they are gone.
    Part(Parting, Sender<()>),
}

/// A worker's letter box. Outcomes in it are bounded by the requests in flight.
pub(super) struct Post {
    letters: Mutex<VecDeque<Message>>,
    outcomes: Mutex<Vec<Outcome>>,
    has_mail: AtomicBool,
    /// The worker must be woken to find its mail.
    sleeps: AtomicBool,
    waker: Waker,
}

impl Post {
    pub(super) fn new(waker: Waker) -> Post {
        Post {
            letters: Mutex::default(),
            outcomes: Mutex::default(),
            has_mail: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            waker,
        }
    }

    pub(super) fn send(&self, message: Message) {
        self.letters.lock().push_back(message);
        self.ring();
    }

    /// Whether there may be mail.
    pub(super) fn has_mail(&self) -> bool {
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

    /// Takes all mail: what it says goes to the end of `letters` and `outcomes`.
    pub(super) fn collect(&self, letters: &mut Vec<Message>, outcomes: &mut Vec<Outcome>) {
        if self.has_mail.swap(false, Ordering::SeqCst) {
            letters.extend(self.letters.lock().drain(..));
            outcomes.append(&mut self.outcomes.lock());
        }
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

impl Outcomes for Post {
    fn done(&self, outcome: Outcome) {
        self.outcomes.lock().push(outcome);
        self.ring();
    }
}
