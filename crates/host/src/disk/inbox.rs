//! What a disk's thread has yet to do.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use sublet_frontends::block::{Fault, Outcome, Request};

use super::bell::Bell;
use super::reading::Ahead;

/// Ranges that wait to be read ahead, at the most; more are passed by.
const AHEAD_MAX: usize = 64;

/// Requests for which there is room from the start. Frontends bound what they have under way.
const ROOM: usize = 1024;

/// Something to do.
pub(super) enum Job {
    /// What somebody asked for.
    Asked(Request),
    /// Pages that will probably be read.
    Ahead(Ahead),
}

/// Requests of all frontends, and what is read ahead when there is none.
pub(super) struct Inbox {
    bell: Arc<Bell>,
    letters: Mutex<Letters>,
}

struct Letters {
    asked: VecDeque<Request>,
    ahead: VecDeque<Ahead>,
    ended: bool,
}

impl Inbox {
    pub(super) fn new(bell: Arc<Bell>) -> Inbox {
        Inbox {
            bell,
            letters: Mutex::new(Letters {
                asked: VecDeque::with_capacity(ROOM),
                ahead: VecDeque::with_capacity(AHEAD_MAX),
                ended: false,
            }),
        }
    }

    /// Takes a request in; it fails at once if the disk is going away. Says whether it is taken in.
    pub(super) fn ask(&self, request: Request) -> bool {
        let mut letters = self.letters.lock();
        if letters.ended {
            drop(letters);
            answer(request, Err(Fault::Leaving));
            return false;
        }
        letters.asked.push_back(request);
        drop(letters);
        self.bell.ring();
        true
    }

    /// Has pages read ahead, if there is room for the wish.
    pub(super) fn read_ahead(&self, ahead: Ahead) {
        let mut letters = self.letters.lock();
        if letters.ahead.len() < AHEAD_MAX && !letters.ended {
            letters.ahead.push_back(ahead);
            drop(letters);
            self.bell.ring();
        }
    }

    /// What comes next: who waits goes before what is only expected.
    pub(super) fn take(&self, may_read_ahead: bool) -> Option<Job> {
        let mut letters = self.letters.lock();
        if let Some(asked) = letters.asked.pop_front() {
            return Some(Job::Asked(asked));
        }
        match may_read_ahead {
            true => letters.ahead.pop_front().map(Job::Ahead),
            false => None,
        }
    }

    /// How many things there are to do.
    pub(super) fn len(&self, may_read_ahead: bool) -> usize {
        let letters = self.letters.lock();
        match may_read_ahead {
            true => letters.asked.len() + letters.ahead.len(),
            false => letters.asked.len(),
        }
    }

    /// Whether it takes nothing more in.
    pub(super) fn is_closed(&self) -> bool {
        self.letters.lock().ended
    }

    /// Takes nothing more in.
    pub(super) fn end(&self) {
        let mut letters = self.letters.lock();
        letters.ended = true;
        // Nobody will ask for these any more.
        letters.ahead.clear();
        drop(letters);
        self.bell.ring();
    }

    /// Whether it takes nothing more in, and all is done.
    pub(super) fn has_ended(&self) -> bool {
        let letters = self.letters.lock();
        letters.ended && letters.asked.is_empty() && letters.ahead.is_empty()
    }
}

/// Answers a request that nothing was done for.
pub(super) fn answer(request: Request, result: Result<(), Fault>) {
    let outcome = Outcome {
        token: request.token,
        result,
        buffer: request.buffer,
        extents: Vec::new(),
    };
    request.to.done(outcome);
}
