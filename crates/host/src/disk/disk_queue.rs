//! The queue of what a disk's thread has yet to do.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use sublet_frontends::block_device::{DiskFault, DiskOutcome, DiskRequest};

use super::event_fd::EventFd;
use super::read_tracker::ReadAheadRange;

/// The most ranges that wait to be read ahead. More are dropped.
const AHEAD_MAX: usize = 64;

/// Requests for which the queue has room from the start. Frontends bound what they have under way.
const ROOM: usize = 1024;

/// Something to do.
pub(super) enum DiskJob {
    /// What a client asked for.
    Request(DiskRequest),
    /// Pages that will probably be read.
    ReadAhead(ReadAheadRange),
}

/// Whether a task of the disk's thread may read ahead now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadAheadRoom {
    /// A task may read ahead.
    Free,
    /// As many tasks read ahead as may.
    Taken,
}

/// Requests of all frontends, and ranges to read ahead when there is no request.
pub(super) struct DiskQueue {
    event_fd: Arc<EventFd>,
    state: Mutex<DiskQueueState>,
}

struct DiskQueueState {
    requests: VecDeque<DiskRequest>,
    ahead: VecDeque<ReadAheadRange>,
    ended: bool,
}

impl DiskQueue {
    pub(super) fn new(event_fd: Arc<EventFd>) -> DiskQueue {
        DiskQueue {
            event_fd,
            state: Mutex::new(DiskQueueState {
                requests: VecDeque::with_capacity(ROOM),
                ahead: VecDeque::with_capacity(AHEAD_MAX),
                ended: false,
            }),
        }
    }

    /// Takes a request. It fails at once if the disk is going away. Returns whether the queue took it.
    pub(super) fn push(&self, request: DiskRequest) -> bool {
        let mut state = self.state.lock();
        if state.ended {
            drop(state);
            complete(request, Err(DiskFault::Leaving));
            return false;
        }
        state.requests.push_back(request);
        drop(state);
        self.event_fd.notify();
        true
    }

    /// Queues pages to read ahead, if the queue has room.
    pub(super) fn push_read_ahead(&self, ahead: ReadAheadRange) {
        let mut state = self.state.lock();
        if state.ahead.len() < AHEAD_MAX && !state.ended {
            state.ahead.push_back(ahead);
            drop(state);
            self.event_fd.notify();
        }
    }

    /// Takes what comes next. Requests that wait go before pages that are only expected.
    pub(super) fn pop(&self, room: ReadAheadRoom) -> Option<DiskJob> {
        let mut state = self.state.lock();
        if let Some(asked) = state.requests.pop_front() {
            return Some(DiskJob::Request(asked));
        }
        match room {
            ReadAheadRoom::Free => state.ahead.pop_front().map(DiskJob::ReadAhead),
            ReadAheadRoom::Taken => None,
        }
    }

    /// The number of jobs to do.
    pub(super) fn len(&self, room: ReadAheadRoom) -> usize {
        let state = self.state.lock();
        match room {
            ReadAheadRoom::Free => state.requests.len() + state.ahead.len(),
            ReadAheadRoom::Taken => state.requests.len(),
        }
    }

    /// Returns whether the queue takes nothing more.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().ended
    }

    /// Closes the queue: it takes nothing more.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        // No client will ask for these any more.
        state.ahead.clear();
        drop(state);
        self.event_fd.notify();
    }

    /// Returns whether the queue takes nothing more, and all is done.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.state.lock();
        state.ended && state.requests.is_empty() && state.ahead.is_empty()
    }
}

/// Answers a request for which nothing was done.
pub(super) fn complete(request: DiskRequest, result: Result<(), DiskFault>) {
    let outcome = DiskOutcome {
        token: request.token,
        result,
        buffer: request.buffer,
        extents: Vec::new(),
    };
    request.outcomes.deliver(outcome);
}
