//! The client that many tasks share. Each task awaits its own answers.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sublet_pace::{PollDecision, PollRule};
use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName};
use tokio::net::UnixStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::client::DEFAULT_SHAPE;
use super::client_end::{ClientEnd, Page};
use super::doorbell::{SleepAttempt, Wakeup};
use super::hello::{self, CloseReason, ConnectError, EstablishedConnection};
use super::layout::{Completion, Opcode, Shape, Submission};
use super::slot_allocator::SlotAllocator;
use super::verbs::{self, CallError, GetOutcome, Key, PutOutcome, RunOutcome};

/// A connection to a tenant's ring that many tasks use at the same time. Clones share the connection. If you drop a
/// future, the daemon still carries out its request, and nothing else remains of it.
///
/// Every answer that comes alone wakes the runtime. If the time of a single request matters most, use
/// [`Client`](super::Client) on a thread of its own.
#[derive(Clone, Debug)]
pub struct AsyncClient {
    ring: Arc<SharedRing>,
    _doorbell_task: Arc<DoorbellTask>,
}

/// The task that waits for the doorbell. It ends with the last clone.
#[derive(Debug)]
struct DoorbellTask {
    task: AbortHandle,
    ring: Arc<SharedRing>,
}

impl Drop for DoorbellTask {
    fn drop(&mut self) {
        self.task.abort();
        // Requests whose futures were dropped still hold the shared ring.
        self.ring.close(CallError::Gone(CloseReason::HungUp));
    }
}

/// What all clones and the doorbell task share.
#[derive(Debug)]
pub(super) struct SharedRing {
    doorbell: OwnedFd,
    shape: Shape,
    state: Mutex<RingState>,
    /// Notified whenever entries or page slots are free again.
    pub(super) freed: Notify,
}

#[derive(Debug)]
struct RingState {
    end: ClientEnd,
    slots: SlotAllocator,
    /// The requests that wait for an answer, by token.
    pending: Vec<Option<PendingAnswer>>,
    /// The tokens that no request uses.
    free_tokens: Vec<usize>,
    closed: Option<CallError>,
}

#[derive(Debug)]
struct PendingAnswer {
    answer: oneshot::Sender<CompletionWithSlots>,
    slots: SlotLease,
}

/// A completion, and the page slots that belong to it.
pub(super) type CompletionWithSlots = (Completion, SlotLease);

/// Receives a completion.
pub(super) type CompletionReceiver = oneshot::Receiver<CompletionWithSlots>;

/// The page slots of one request. They are freed when this is dropped.
#[derive(Debug)]
pub(super) struct SlotLease {
    ring: Arc<SharedRing>,
    first: u32,
    count: u32,
}

impl Drop for SlotLease {
    fn drop(&mut self) {
        self.ring.lock().slots.free(self.first, self.count);
        self.ring.freed.notify_waiters();
    }
}

/// Which page slots a request needs, and what they hold at first.
#[derive(Clone, Copy)]
pub(super) enum RequestPages<'a> {
    None,
    Filled(&'a [Page]),
    Wanted(u32),
}

impl RequestPages<'_> {
    fn count(self) -> u32 {
        match self {
            RequestPages::None => 0,
            RequestPages::Filled(pages) => pages.len() as u32,
            RequestPages::Wanted(count) => count,
        }
    }
}

impl AsyncClient {
    /// Connects to the ring that listens at `path`. Call this in a tokio runtime.
    ///
    /// # Errors
    ///
    /// Nobody listens there, the daemon rejects this user, or it has no room.
    pub async fn connect(path: impl AsRef<Path>) -> Result<AsyncClient, ConnectError> {
        AsyncClient::connect_with(path, DEFAULT_SHAPE).await
    }

    /// Connects and asks for a ring as large as `wish`. The daemon may grant less.
    ///
    /// # Errors
    ///
    /// As [`connect`](AsyncClient::connect).
    pub async fn connect_with(
        path: impl AsRef<Path>,
        wish: Shape,
    ) -> Result<AsyncClient, ConnectError> {
        let path = path.as_ref().to_owned();
        let unreachable = |source| ConnectError::Unreachable {
            path: path.clone(),
            source,
        };
        let greeted = path.clone();
        let connection = tokio::task::spawn_blocking(move || hello::connect(&greeted, wish)).await;
        let EstablishedConnection {
            socket,
            end,
            doorbell,
        } = connection.map_err(|e| unreachable(e.into()))??;
        socket.set_nonblocking(true).map_err(unreachable)?;
        let socket = UnixStream::from_std(socket).map_err(unreachable)?;
        let ring = Arc::new(SharedRing::new(end, doorbell));
        let task = tokio::spawn(run_doorbell_task(Arc::clone(&ring), socket)).abort_handle();
        let doorbell_task = Arc::new(DoorbellTask {
            task,
            ring: Arc::clone(&ring),
        });
        Ok(AsyncClient {
            ring,
            _doorbell_task: doorbell_task,
        })
    }

    /// The size of the ring.
    pub fn shape(&self) -> Shape {
        self.ring.shape
    }

    /// Makes a pool, or joins the shared pool of that name; see [`Client`](super::Client::create_pool).
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn create_pool(
        &self,
        flags: PoolFlags,
        shared: Option<SharedName>,
    ) -> Result<PoolId, CallError> {
        let submission = verbs::create_pool(flags, shared);
        let (completion, _) = self.call(submission, RequestPages::None).await?;
        verbs::pool_of(&completion)
    }

    /// Destroys a pool and all its pages.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn destroy_pool(&self, pool: PoolId) -> Result<(), CallError> {
        let (completion, _) = self
            .call(verbs::destroy_pool(pool), RequestPages::None)
            .await?;
        verbs::check_done(&completion)
    }

    /// Stores a page; see [`Client`](super::Client::put).
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn put(&self, key: Key, page: &Page) -> Result<PutOutcome, CallError> {
        let run = self.put_run(key, std::slice::from_ref(page)).await?;
        Ok(run.put())
    }

    /// Fetches a page into `page`. Only a hit changes `page`.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn get(&self, key: Key, page: &mut Page) -> Result<GetOutcome, CallError> {
        let run = self.get_run(key, std::slice::from_mut(page)).await?;
        Ok(run.get())
    }

    /// Stores up to 64 pages at consecutive indices.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn put_run(&self, first: Key, pages: &[Page]) -> Result<RunOutcome, CallError> {
        let count = verbs::run_count(pages.len(), self.shape())?;
        let submission = verbs::run_submission(Opcode::Put, first, count, 0);
        let (completion, _) = self.call(submission, RequestPages::Filled(pages)).await?;
        verbs::run_outcome(&completion)
    }

    /// Fetches up to 64 pages from consecutive indices. Pages that miss are not changed.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn get_run(&self, first: Key, pages: &mut [Page]) -> Result<RunOutcome, CallError> {
        let count = verbs::run_count(pages.len(), self.shape())?;
        let submission = verbs::run_submission(Opcode::Get, first, count, 0);
        let (completion, slots) = self.call(submission, RequestPages::Wanted(count)).await?;
        let run = verbs::run_outcome(&completion)?;
        slots.copy_hits(run, pages);
        Ok(run)
    }

    /// Flushes a page. It is no error if the page was not there.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn flush_page(&self, key: Key) -> Result<(), CallError> {
        let submission = verbs::run_submission(Opcode::FlushPage, key, 1, 0);
        let (completion, _) = self.call(submission, RequestPages::None).await?;
        verbs::check_done(&completion)
    }

    /// Flushes all pages of an object.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn flush_object(&self, pool: PoolId, object: ObjectId) -> Result<(), CallError> {
        let submission = verbs::flush_object(pool, object);
        let (completion, _) = self.call(submission, RequestPages::None).await?;
        verbs::check_done(&completion)
    }

    pub(super) fn shared_ring(&self) -> &Arc<SharedRing> {
        &self.ring
    }

    /// Submits as soon as the ring has room, and waits for the answer.
    async fn call(
        &self,
        submission: Submission,
        pages: RequestPages<'_>,
    ) -> Result<CompletionWithSlots, CallError> {
        let answer = loop {
            let freed = self.ring.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match self.ring.submit([(submission, pages)])?.pop() {
                Some(answer) => break answer,
                None => freed.await,
            }
        };
        self.ring.await_completion(answer).await
    }
}

impl SlotLease {
    /// Copies out the pages of a get's run that hit.
    pub(super) fn copy_hits(&self, run: RunOutcome, pages: &mut [Page]) {
        let state = self.ring.lock();
        let slots = state.end.pages(self.first, self.count);
        for (n, (page, slot)) in pages.iter_mut().zip(slots).enumerate() {
            if run.is_done(n) {
                page.copy_from_slice(slot);
            }
        }
    }
}

impl SharedRing {
    fn new(end: ClientEnd, doorbell: OwnedFd) -> SharedRing {
        let shape = end.shape();
        SharedRing {
            doorbell,
            shape,
            state: Mutex::new(RingState {
                end,
                slots: SlotAllocator::new(shape.page_slots()),
                pending: (0..shape.entries()).map(|_| None).collect(),
                free_tokens: (0..shape.entries() as usize).collect(),
                closed: None,
            }),
            freed: Notify::new(),
        }
    }

    /// Locks the state. If a thread panicked under the lock, this crate has a bug, but the state is still valid,
    /// because it is so at every step.
    fn lock(&self) -> MutexGuard<'_, RingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits requests in order, as many as the ring has room for now. The daemon sees them together. Returns the
    /// receivers of the answers.
    pub(super) fn submit<'a>(
        self: &Arc<SharedRing>,
        requests: impl IntoIterator<Item = (Submission, RequestPages<'a>)>,
    ) -> Result<Vec<CompletionReceiver>, CallError> {
        let mut state = self.lock();
        if let Some(reason) = state.closed {
            return Err(reason);
        }
        let mut answers = Vec::new();
        for (submission, pages) in requests {
            match self.submit_one(&mut state, submission, pages) {
                Some(answer) => answers.push(answer),
                None => break,
            }
        }
        if !answers.is_empty() && state.end.publish() == Wakeup::Needed {
            // A full counter has rung the doorbell already.
            let _ = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
        }
        Ok(answers)
    }

    /// Writes one request into the ring. `None` if there is no room now.
    fn submit_one(
        self: &Arc<SharedRing>,
        state: &mut RingState,
        submission: Submission,
        pages: RequestPages<'_>,
    ) -> Option<CompletionReceiver> {
        if state.end.room() == 0 || state.free_tokens.is_empty() {
            return None;
        }
        let count = pages.count();
        let first = state.slots.allocate(count)?;
        let token = state.free_tokens.pop()?;
        if let RequestPages::Filled(pages) = pages {
            state.end.pages_mut(first, count).copy_from_slice(pages);
        }
        let (answer, receiver) = oneshot::channel();
        let ring = Arc::clone(self);
        let slots = SlotLease { ring, first, count };
        state.pending[token] = Some(PendingAnswer { answer, slots });
        state.end.submit(&Submission {
            token: token as u64,
            page_slot: if count == 0 { 0 } else { first },
            ..submission
        });
        Some(receiver)
    }

    /// Waits for an answer.
    pub(super) async fn await_completion(
        &self,
        answer: CompletionReceiver,
    ) -> Result<CompletionWithSlots, CallError> {
        let lost = |_| self.lock().closed.unwrap_or(CallError::Garbled);
        answer.await.map_err(lost)
    }

    /// Delivers the completions that have come. Returns how many there were.
    fn deliver_completions(&self) -> Result<usize, CallError> {
        let mut delivered = Vec::new();
        let mut state = self.lock();
        while let Some(completion) = state.end.reap() {
            let place = usize::try_from(completion.token).unwrap_or(usize::MAX);
            let pending = state.pending.get_mut(place).and_then(Option::take);
            delivered.push((pending.ok_or(CallError::Garbled)?, completion));
            state.free_tokens.push(place);
        }
        drop(state);
        let count = delivered.len();
        for (PendingAnswer { answer, slots }, completion) in delivered {
            // A request that nobody waits for needs no answer. Its page slots are freed at once.
            drop(answer.send((completion, slots)));
        }
        if count > 0 {
            self.freed.notify_waiters();
        }
        Ok(count)
    }

    fn close(&self, reason: CallError) {
        let mut state = self.lock();
        state.closed = Some(reason);
        let pending: Vec<_> = state.pending.iter_mut().filter_map(Option::take).collect();
        drop(state);
        drop(pending);
        self.freed.notify_waiters();
    }
}

/// Delivers completions until the connection is closed.
async fn run_doorbell_task(ring: Arc<SharedRing>, socket: UnixStream) {
    let mut pace = AsyncPace {
        rule: PollRule::default(),
        origin: Instant::now(),
    };
    loop {
        if let Err(reason) = pace.wait_and_deliver(&ring, &socket).await {
            // Completions from before the end of the connection can still be reaped.
            let last = ring.deliver_completions();
            ring.close(last.err().unwrap_or(reason));
            return;
        }
    }
}

/// The polling rule of threads, for a task. The task yields its thread to other tasks between two polls.
struct AsyncPace {
    rule: PollRule,
    origin: Instant,
}

impl AsyncPace {
    async fn wait_and_deliver(
        &mut self,
        ring: &SharedRing,
        socket: &UnixStream,
    ) -> Result<(), CallError> {
        self.rule.begin_wait(self.now());
        while self.rule.decide(self.now()) == PollDecision::Poll {
            if ring.deliver_completions()? > 0 {
                self.rule.work_came(self.now());
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
        let sleep = ring.lock().end.fall_asleep();
        if sleep == SleepAttempt::Asleep {
            wait_doorbell(socket).await?;
            ring.lock().end.wake_up();
        }
        if ring.deliver_completions()? > 0 {
            self.rule.work_came(self.now());
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// Waits until the daemon rings the doorbell or ends the connection.
async fn wait_doorbell(socket: &UnixStream) -> Result<(), CloseReason> {
    let mut bytes = [0; 64];
    loop {
        let ready = socket.readable().await;
        ready.map_err(|_| CloseReason::HungUp)?;
        match socket.try_read(&mut bytes) {
            Ok(0) => return Err(CloseReason::HungUp),
            Ok(count) => {
                let reason = bytes[..count].iter().find_map(|b| CloseReason::of(*b));
                return reason.map_or(Ok(()), Err);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(CloseReason::HungUp),
        }
    }
}
