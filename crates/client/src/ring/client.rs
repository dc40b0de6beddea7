//! The blocking client: it waits for one request or one batch after the other.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use sublet_pace::{AdaptivePoller, PollMode, PollOutcome};
use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName};

use super::client_end::{ClientEnd, Page};
use super::doorbell::{SleepAttempt, Wakeup};
use super::hello::{self, CloseReason, ConnectError};
use super::layout::{Completion, Opcode, Shape, Submission};
use super::spin_wait::SpinWait;
use super::verbs::{self, CallError, GetOutcome, Key, PutOutcome, RunOutcome};

/// The ring that a client asks for by default: 128 entries and 1 MiB of page slots.
pub const DEFAULT_SHAPE: Shape = match Shape::new(128, 256) {
    Ok(shape) => shape,
    Err(_) => panic!("128 is a power of two"),
};

/// A connection to a tenant's ring. Calls block until they are answered. They spin for a few microseconds if answers
/// come that fast, and sleep otherwise.
///
/// Only the process that connected may use the client. A process that is forked from it shares the ring's memory, so
/// its calls fail.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    end: ClientEnd,
    doorbell: OwnedFd,
    spin_wait: SpinWait,
    pace: AdaptivePoller,
    /// Why the connection is closed.
    closed: Option<CallError>,
    /// The process that connected.
    process: u32,
    /// The submissions of a batch, and their completions. A submission's token is its place.
    submissions: Vec<Submission>,
    completions: Vec<Option<Completion>>,
}

impl Client {
    /// Connects to the ring that listens at `path`.
    ///
    /// # Errors
    ///
    /// Nobody listens there, the daemon rejects this user, or it has no room.
    pub fn connect(path: impl AsRef<Path>) -> Result<Client, ConnectError> {
        Client::connect_with(path, DEFAULT_SHAPE)
    }

    /// Connects and asks for a ring as large as `wish`. The daemon may grant less.
    ///
    /// # Errors
    ///
    /// As [`connect`](Client::connect).
    pub fn connect_with(path: impl AsRef<Path>, wish: Shape) -> Result<Client, ConnectError> {
        let connection = hello::connect(path.as_ref(), wish)?;
        Ok(Client {
            socket: connection.socket,
            end: connection.end,
            doorbell: connection.doorbell,
            spin_wait: SpinWait::default(),
            pace: AdaptivePoller::default(),
            closed: None,
            process: std::process::id(),
            submissions: Vec::new(),
            completions: Vec::new(),
        })
    }

    /// The size of the ring.
    pub fn shape(&self) -> Shape {
        self.end.shape()
    }

    /// Makes a pool, or joins the shared pool of that name. A pool without a name ends with the
    /// connection at the latest.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. The daemon's config must allow persistent and shared pools.
    pub fn create_pool(
        &mut self,
        flags: PoolFlags,
        shared: Option<SharedName>,
    ) -> Result<PoolId, CallError> {
        let completion = self.call(verbs::create_pool(flags, shared))?;
        verbs::pool_of(&completion)
    }

    /// Destroys a pool and all its pages.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn destroy_pool(&mut self, pool: PoolId) -> Result<(), CallError> {
        let completion = self.call(verbs::destroy_pool(pool))?;
        verbs::check_done(&completion)
    }

    /// Stores a page. Even if the daemon refuses it, an older page of that key is gone.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn put(&mut self, key: Key, page: &Page) -> Result<PutOutcome, CallError> {
        self.put_run(key, std::slice::from_ref(page))
            .map(|run| run.put())
    }

    /// Fetches a page into `page`. Only a hit changes `page`.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn get(&mut self, key: Key, page: &mut Page) -> Result<GetOutcome, CallError> {
        self.get_run(key, std::slice::from_mut(page))
            .map(|run| run.get())
    }

    /// Stores up to 64 pages at consecutive indices.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn put_run(&mut self, first: Key, pages: &[Page]) -> Result<RunOutcome, CallError> {
        let count = verbs::run_count(pages.len(), self.shape())?;
        self.check()?;
        self.end.pages_mut(0, count).copy_from_slice(pages);
        let completion = self.call(verbs::run_submission(Opcode::Put, first, count, 0))?;
        verbs::run_outcome(&completion)
    }

    /// Fetches up to 64 pages from consecutive indices. Pages that miss are not changed.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn get_run(&mut self, first: Key, pages: &mut [Page]) -> Result<RunOutcome, CallError> {
        let count = verbs::run_count(pages.len(), self.shape())?;
        let completion = self.call(verbs::run_submission(Opcode::Get, first, count, 0))?;
        let run = verbs::run_outcome(&completion)?;
        let slots = self.end.pages(0, count);
        for (n, (page, slot)) in pages.iter_mut().zip(slots).enumerate() {
            if run.is_done(n) {
                page.copy_from_slice(slot);
            }
        }
        Ok(run)
    }

    /// Flushes a page. It is no error if the page was not there.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn flush_page(&mut self, key: Key) -> Result<(), CallError> {
        let completion = self.call(verbs::run_submission(Opcode::FlushPage, key, 1, 0))?;
        verbs::check_done(&completion)
    }

    /// Flushes all pages of an object.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn flush_object(&mut self, pool: PoolId, object: ObjectId) -> Result<(), CallError> {
        let completion = self.call(verbs::flush_object(pool, object))?;
        verbs::check_done(&completion)
    }

    /// Makes the client act as if this process were forked from the one that connected.
    #[cfg(test)]
    pub(super) fn act_as_forked(&mut self) {
        self.process = self.process.wrapping_add(1);
    }

    /// Checks that the client can make requests.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        match self.closed {
            Some(reason) => Err(reason),
            None if std::process::id() != self.process => Err(CallError::Forked),
            None => Ok(()),
        }
    }

    pub(super) fn end(&self) -> &ClientEnd {
        &self.end
    }

    pub(super) fn end_mut(&mut self) -> &mut ClientEnd {
        &mut self.end
    }

    /// Clears the batch.
    pub(super) fn begin_batch(&mut self) {
        self.submissions.clear();
    }

    /// Adds a submission to the batch, and returns its place.
    pub(super) fn add_submission(&mut self, submission: Submission) -> usize {
        self.submissions.push(submission);
        self.submissions.len() - 1
    }

    pub(super) fn batch_len(&self) -> usize {
        self.submissions.len()
    }

    pub(super) fn submission(&self, place: usize) -> Option<&Submission> {
        self.submissions.get(place)
    }

    pub(super) fn completion(&self, place: usize) -> Option<&Completion> {
        self.completions.get(place)?.as_ref()
    }

    fn call(&mut self, submission: Submission) -> Result<Completion, CallError> {
        self.submissions.clear();
        self.submissions.push(submission);
        self.run_batch()?;
        self.completion(0).copied().ok_or(CallError::Garbled)
    }

    /// Submits the whole batch, and waits until everything is answered.
    pub(super) fn run_batch(&mut self) -> Result<(), CallError> {
        self.check()?;
        let count = self.submissions.len();
        self.completions.clear();
        self.completions.resize(count, None);
        for (token, submission) in self.submissions.iter().enumerate() {
            let token = token as u64;
            self.end.submit(&Submission {
                token,
                ..*submission
            });
        }
        if count > 0 && self.end.publish() == Wakeup::Needed {
            self.ring_doorbell();
        }
        let result = self.reap_all();
        self.closed = self.closed.or(result.err());
        result
    }

    fn reap_all(&mut self) -> Result<(), CallError> {
        while self.end.under_way() > 0 {
            let Some(completion) = self.end.reap() else {
                if let Some(reason) = self.closed {
                    return Err(reason);
                }
                // Completions from before the end of the connection can still be reaped.
                self.closed = self.wait().err().map(CallError::Gone);
                continue;
            };
            let place = usize::try_from(completion.token).unwrap_or(usize::MAX);
            let place = self.completions.get_mut(place).ok_or(CallError::Garbled)?;
            *place = Some(completion);
        }
        Ok(())
    }

    fn ring_doorbell(&self) {
        // A full counter has rung the doorbell already.
        let _ = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
    }

    fn wait(&mut self) -> Result<(), CloseReason> {
        let (end, socket) = (&self.end, &self.socket);
        if self.spin_wait.spin(|| end.has_completions()) {
            return Ok(());
        }
        self.pace.wait(|look| match look {
            PollMode::NonBlocking => Ok(found(end)),
            PollMode::Blocking => sleep(end, socket),
        })
    }
}

fn found(end: &ClientEnd) -> PollOutcome {
    match end.has_completions() {
        true => PollOutcome::Work,
        false => PollOutcome::Nothing,
    }
}

fn sleep(end: &ClientEnd, socket: &UnixStream) -> Result<PollOutcome, CloseReason> {
    if end.fall_asleep() == SleepAttempt::WorkArrived {
        return Ok(PollOutcome::Work);
    }
    let result = wait_doorbell(socket);
    end.wake_up();
    result.map(|()| found(end))
}

/// Blocks until the daemon rings the doorbell or ends the connection.
fn wait_doorbell(socket: &UnixStream) -> Result<(), CloseReason> {
    let mut bytes = [0; 64];
    match rustix::net::recv(socket, &mut bytes, RecvFlags::empty()) {
        Ok((_, 0)) => Err(CloseReason::HungUp),
        Ok((_, count)) => match bytes[..count].iter().find_map(|b| CloseReason::of(*b)) {
            Some(reason) => Err(reason),
            None => Ok(()),
        },
        Err(Errno::INTR) => Ok(()),
        Err(_) => Err(CloseReason::HungUp),
    }
}
