//! The handle that many tasks share: each awaits its own answers.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sublet_pace::{Rule, Step};
use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName};
use tokio::net::UnixStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::bell::{Bell, Sleep};
use super::client::SHAPE;
use super::client_end::{ClientEnd, Page};
use super::hello::{self, ConnectError, Farewell, Joined};
use super::layout::{Completion, Opcode, Shape, Submission};
use super::slots::Slots;
use super::verbs::{self, CallError, Get, Key, Put, Run};

/// A connection to a tenant's ring that many tasks use at the same time. Clones share it. A future that is
/// dropped leaves its request to be carried out, and nothing else.
///
/// Every answer that comes alone wakes the runtime; where the time of a single request matters most,
/// use [`Client`](super::Client) on a thread of its own.
#[derive(Clone, Debug)]
pub struct AsyncClient {
    desk: Arc<Desk>,
    _listening: Arc<Listening>,
}

/// The task that hears the doorbell; ends with the last handle.
#[derive(Debug)]
struct Listening {
    task: AbortHandle,
    desk: Arc<Desk>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
        // Requests whose futures were dropped still hold the desk.
        self.desk.end(CallError::Gone(Farewell::HungUp));
    }
}

/// What handles and the listening task share.
#[derive(Debug)]
pub(super) struct Desk {
    bell: OwnedFd,
    shape: Shape,
    state: Mutex<State>,
    /// Told whenever entries or page slots are free again.
    pub(super) freed: Notify,
}

#[derive(Debug)]
struct State {
    end: ClientEnd,
    slots: Slots,
    /// Who waits, by token.
    waiting: Vec<Option<Waiting>>,
    /// Tokens that nobody waits by.
    vacant: Vec<usize>,
    over: Option<CallError>,
}

#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Heard>,
    held: Held,
}

/// A completion, and the page slots that belong to it.
pub(super) type Heard = (Completion, Held);

/// Where a completion will come.
pub(super) type Hearing = oneshot::Receiver<Heard>;

/// Page slots that one request uses; free again when dropped.
#[derive(Debug)]
pub(super) struct Held {
    desk: Arc<Desk>,
    first: u32,
    count: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.desk.lock().slots.give_back(self.first, self.count);
        self.desk.freed.notify_waiters();
    }
}

/// Which page slots a request needs, and what they hold before it.
#[derive(Clone, Copy)]
pub(super) enum Pages<'a> {
    None,
    Filled(&'a [Page]),
    Empty(u32),
}

impl Pages<'_> {
    fn count(self) -> u32 {
        match self {
            Pages::None => 0,
            Pages::Filled(pages) => pages.len() as u32,
            Pages::Empty(count) => count,
        }
    }
}

impl AsyncClient {
    /// Connects to the ring that listens at `path`. Must be called in a tokio runtime.
    ///
    /// # Errors
    ///
    /// Nobody listens there, the daemon lets this user not in, or it has no room.
    pub async fn connect(path: impl AsRef<Path>) -> Result<AsyncClient, ConnectError> {
        AsyncClient::connect_with(path, SHAPE).await
    }

    /// The same with a ring as large as `wish`, or as large as the daemon grants.
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
        let joined = tokio::task::spawn_blocking(move || hello::connect(&greeted, wish)).await;
        let Joined { socket, end, bell } = joined.map_err(|e| unreachable(e.into()))??;
        socket.set_nonblocking(true).map_err(unreachable)?;
        let socket = UnixStream::from_std(socket).map_err(unreachable)?;
        let desk = Arc::new(Desk::new(end, bell));
        let task = tokio::spawn(listen(Arc::clone(&desk), socket)).abort_handle();
        let listening = Arc::new(Listening {
            task,
            desk: Arc::clone(&desk),
        });
        Ok(AsyncClient {
            desk,
            _listening: listening,
        })
    }

    /// How large the ring is.
    pub fn shape(&self) -> Shape {
        self.desk.shape
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
        let (completion, _) = self.ask(submission, Pages::None).await?;
        verbs::pool_of(&completion)
    }

    /// Forgets a pool and all its pages.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn destroy_pool(&self, pool: PoolId) -> Result<(), CallError> {
        let (completion, _) = self.ask(verbs::destroy_pool(pool), Pages::None).await?;
        verbs::done(&completion)
    }

    /// Stores a page; see [`Client`](super::Client::put).
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn put(&self, key: Key, page: &Page) -> Result<Put, CallError> {
        let run = self.put_run(key, std::slice::from_ref(page)).await?;
        Ok(run.put())
    }

    /// Fetches a page into `page`, which is left alone unless it is a hit.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn get(&self, key: Key, page: &mut Page) -> Result<Get, CallError> {
        let run = self.get_run(key, std::slice::from_mut(page)).await?;
        Ok(run.get())
    }

    /// Stores pages at indices that follow each other, 64 at most.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn put_run(&self, first: Key, pages: &[Page]) -> Result<Run, CallError> {
        let count = verbs::run_count(pages.len(), self.shape())?;
        let submission = verbs::run(Opcode::Put, first, count, 0);
        let (completion, _) = self.ask(submission, Pages::Filled(pages)).await?;
        verbs::run_of(&completion)
    }

    /// Fetches pages from indices that follow each other, 64 at most; those that miss are left alone.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn get_run(&self, first: Key, pages: &mut [Page]) -> Result<Run, CallError> {
        let count = verbs::run_count(pages.len(), self.shape())?;
        let submission = verbs::run(Opcode::Get, first, count, 0);
        let (completion, held) = self.ask(submission, Pages::Empty(count)).await?;
        let run = verbs::run_of(&completion)?;
        held.copy_hits(run, pages);
        Ok(run)
    }

    /// Forgets a page; that it was not there is fine.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn flush_page(&self, key: Key) -> Result<(), CallError> {
        let submission = verbs::run(Opcode::FlushPage, key, 1, 0);
        let (completion, _) = self.ask(submission, Pages::None).await?;
        verbs::done(&completion)
    }

    /// Forgets all pages of an object.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn flush_object(&self, pool: PoolId, object: ObjectId) -> Result<(), CallError> {
        let submission = verbs::flush_object(pool, object);
        let (completion, _) = self.ask(submission, Pages::None).await?;
        verbs::done(&completion)
    }

    pub(super) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Submits as soon as the ring has room, and waits for the answer.
    async fn ask(&self, submission: Submission, pages: Pages<'_>) -> Result<Heard, CallError> {
        let answer = loop {
            let freed = self.desk.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match self.desk.submit([(submission, pages)])?.pop() {
                Some(answer) => break answer,
                None => freed.await,
            }
        };
        self.desk.heard(answer).await
    }
}

impl Held {
    /// Copies out the pages of a get's run that were hit.
    pub(super) fn copy_hits(&self, run: Run, pages: &mut [Page]) {
        let state = self.desk.lock();
        let slots = state.end.pages(self.first, self.count);
        for (n, (page, slot)) in pages.iter_mut().zip(slots).enumerate() {
            if run.is_done(n) {
                page.copy_from_slice(slot);
            }
        }
    }
}

impl Desk {
    fn new(end: ClientEnd, bell: OwnedFd) -> Desk {
        let shape = end.shape();
        Desk {
            bell,
            shape,
            state: Mutex::new(State {
                end,
                slots: Slots::new(shape.page_slots()),
                waiting: (0..shape.entries()).map(|_| None).collect(),
                vacant: (0..shape.entries() as usize).collect(),
                over: None,
            }),
            freed: Notify::new(),
        }
    }

    /// A panic under the lock would have been one of ours; what it guards is whole at every step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits requests in their order, as many as the ring has room for now, and lets the daemon see them
    /// together. Says where the answers will come.
    pub(super) fn submit<'a>(
        self: &Arc<Desk>,
        asked: impl IntoIterator<Item = (Submission, Pages<'a>)>,
    ) -> Result<Vec<Hearing>, CallError> {
        let mut state = self.lock();
        if let Some(over) = state.over {
            return Err(over);
        }
        let mut answers = Vec::new();
        for (submission, pages) in asked {
            match self.enter(&mut state, submission, pages) {
                Some(answer) => answers.push(answer),
                None => break,
            }
        }
        if !answers.is_empty() && state.end.publish() == Bell::Ring {
            // A full counter has rung already.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
        Ok(answers)
    }

    /// Writes one request into the ring; nothing where there is no room now.
    fn enter(
        self: &Arc<Desk>,
        state: &mut State,
        submission: Submission,
        pages: Pages<'_>,
    ) -> Option<Hearing> {
        if state.end.room() == 0 || state.vacant.is_empty() {
            return None;
        }
        let count = pages.count();
        let first = state.slots.take(count)?;
        let token = state.vacant.pop()?;
        if let Pages::Filled(pages) = pages {
            state.end.pages_mut(first, count).copy_from_slice(pages);
        }
        let (answer, hearing) = oneshot::channel();
        let desk = Arc::clone(self);
        let held = Held { desk, first, count };
        state.waiting[token] = Some(Waiting { answer, held });
        state.end.submit(&Submission {
            token: token as u64,
            page_slot: if count == 0 { 0 } else { first },
            ..submission
        });
        Some(hearing)
    }

    /// Waits for an answer.
    pub(super) async fn heard(&self, answer: Hearing) -> Result<Heard, CallError> {
        let lost = |_| self.lock().over.unwrap_or(CallError::Garbled);
        answer.await.map_err(lost)
    }

    /// Hands out what has come; says how many that were.
    fn hand_out(&self) -> Result<usize, CallError> {
        let mut heard = Vec::new();
        let mut state = self.lock();
        while let Some(completion) = state.end.reap() {
            let place = usize::try_from(completion.token).unwrap_or(usize::MAX);
            let waiting = state.waiting.get_mut(place).and_then(Option::take);
            heard.push((waiting.ok_or(CallError::Garbled)?, completion));
            state.vacant.push(place);
        }
        drop(state);
        let count = heard.len();
        for (Waiting { answer, held }, completion) in heard {
            // Whoever is not waiting any more needs no answer, and its page slots come back at once.
            drop(answer.send((completion, held)));
        }
        if count > 0 {
            self.freed.notify_waiters();
        }
        Ok(count)
    }

    fn end(&self, over: CallError) {
        let mut state = self.lock();
        state.over = Some(over);
        let waiting: Vec<_> = state.waiting.iter_mut().filter_map(Option::take).collect();
        drop(state);
        drop(waiting);
        self.freed.notify_waiters();
    }
}

/// Hands out completions until the connection is over.
async fn listen(desk: Arc<Desk>, socket: UnixStream) {
    let mut pace = Pace {
        rule: Rule::default(),
        origin: Instant::now(),
    };
    loop {
        if let Err(over) = pace.next(&desk, &socket).await {
            // What was answered before the farewell is still there to be taken.
            let last = desk.hand_out();
            desk.end(last.err().unwrap_or(over));
            return;
        }
    }
}

/// The rule by which threads wait, for a task: it leaves its thread to other tasks between two looks.
struct Pace {
    rule: Rule,
    origin: Instant,
}

impl Pace {
    async fn next(&mut self, desk: &Desk, socket: &UnixStream) -> Result<(), CallError> {
        self.rule.begin(self.now());
        while self.rule.step(self.now()) == Step::Poll {
            if desk.hand_out()? > 0 {
                self.rule.came(self.now());
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
        let sleep = desk.lock().end.fall_asleep();
        if sleep == Sleep::Sound {
            hear(socket).await?;
            desk.lock().end.wake_up();
        }
        if desk.hand_out()? > 0 {
            self.rule.came(self.now());
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// Waits until the doorbell rings or the daemon says that it is over.
async fn hear(socket: &UnixStream) -> Result<(), Farewell> {
    let mut bytes = [0; 64];
    loop {
        let ready = socket.readable().await;
        ready.map_err(|_| Farewell::HungUp)?;
        match socket.try_read(&mut bytes) {
            Ok(0) => return Err(Farewell::HungUp),
            Ok(count) => {
                let farewell = bytes[..count].iter().find_map(|b| Farewell::of(*b));
                return farewell.map_or(Ok(()), Err);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(Farewell::HungUp),
        }
    }
}
