//! How a disk's thread reads and writes its backing without waiting: by io_uring, or by a pool of threads if the kernel
//! has no io_uring for us.

mod io_job;
mod thread_pool;
mod throttle;
mod uring;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use sublet_frontends::block_device::Buffer;
use sublet_types::SlowBacking;

use self::thread_pool::{IoThreadPool, RESERVE_THREADS, THREADS};
use self::throttle::Throttle;
use self::uring::Uring;
use super::event_fd::EventFd;
use crate::observe::FailureReporter;
use crate::retry::is_transient_shortage;

pub(super) use self::io_job::{FLYING_MAX, IoExecutor, IoJob, IoOperation, IoPriority};

/// When a kernel that was too busy is asked again.
const RETRY: Duration = Duration::from_millis(1);

/// The longest pause before another try if the host lacked something.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// How long a request is tried again if the host lacks a thread or memory. A guest that gets an error gives up its file
/// system and its swap.
const LACK_MAX: Duration = Duration::from_secs(30);

/// The backing's side of a disk's thread.
pub(super) struct IoEngine {
    executor: RefCell<Box<dyn IoExecutor>>,
    /// Carries out the jobs for which the main executor lacked something.
    reserve: Option<RefCell<Box<dyn IoExecutor>>>,
    shortages: FailureReporter,
    lack_max: Duration,
    /// The disk, for the log.
    whose: String,
    in_flight: RefCell<InFlightJobs>,
    brake: Option<RefCell<Throttle>>,
    timers: RefCell<Vec<(Instant, Waker)>>,
}

/// Jobs under way, and tasks that wait for a place.
struct InFlightJobs {
    jobs: Vec<InFlightJob>,
    free: Vec<usize>,
    waiting: VecDeque<Waker>,
}

/// What is being tried again.
#[derive(Debug, Default)]
pub(super) struct RetryState {
    since: Option<Instant>,
    pause: Duration,
}

impl RetryState {
    fn is_first(&self) -> bool {
        self.since.is_none()
    }
}

#[derive(Default)]
struct InFlightJob {
    waker: Option<Waker>,
    completed: Option<(io::Result<usize>, Buffer)>,
}

impl IoEngine {
    /// Starts a disk's engine. It notifies `event_fd` when something is done. `throttle` makes it slower than it is.
    pub(super) fn start(
        event_fd: &Arc<EventFd>,
        slow: Option<SlowBacking>,
        whose: &str,
    ) -> io::Result<IoEngine> {
        let (executor, reserve): (Box<dyn IoExecutor>, Option<Box<dyn IoExecutor>>) =
            match Uring::new(event_fd) {
                Ok(uring) => {
                    let reserve = IoThreadPool::start(event_fd, RESERVE_THREADS)?;
                    (Box::new(uring), Some(Box::new(reserve)))
                }
                Err(error) => {
                    tracing::info!(disk = whose, threads = THREADS, %error, "the kernel refuses io_uring; threads read and write the disk: allow io_uring (kernel.io_uring_disabled, seccomp) for more speed");
                    (Box::new(IoThreadPool::start(event_fd, THREADS)?), None)
                }
            };
        Ok(IoEngine {
            reserve: reserve.map(RefCell::new),
            whose: whose.to_owned(),
            ..IoEngine::of(executor, slow)
        })
    }

    pub(super) fn of(executor: Box<dyn IoExecutor>, slow: Option<SlowBacking>) -> IoEngine {
        IoEngine {
            executor: RefCell::new(executor),
            reserve: None,
            shortages: FailureReporter::default(),
            lack_max: LACK_MAX,
            whose: String::new(),
            in_flight: RefCell::new(InFlightJobs {
                jobs: (0..FLYING_MAX).map(|_| InFlightJob::default()).collect(),
                free: (0..FLYING_MAX).collect(),
                waiting: VecDeque::with_capacity(FLYING_MAX),
            }),
            brake: slow.map(|slow| RefCell::new(Throttle::new(slow))),
            timers: RefCell::new(Vec::with_capacity(FLYING_MAX)),
        }
    }

    /// Carries out an operation on a part of the buffer. Returns how many bytes, and the buffer. If the host lacks
    /// something, the engine tries again for a while.
    pub(super) async fn execute(
        &self,
        operation: IoOperation,
        file: &Arc<File>,
        at: u64,
        mut buffer: Buffer,
        part: Range<usize>,
    ) -> (io::Result<usize>, Buffer) {
        self.throttle(part.len()).await;
        let mut retry = RetryState::default();
        loop {
            let executor = match (retry.is_first(), &self.reserve) {
                (false, Some(reserve)) => reserve,
                _ => &self.executor,
            };
            let (file, part) = (Arc::clone(file), part.clone());
            let job = IoJob {
                operation,
                file,
                at,
                buffer,
                part,
            };
            let (result, back) = self.execute_once(executor, job).await;
            buffer = back;
            match result {
                Err(error) if self.should_retry(&mut retry, &error).await => {}
                result => return (result, buffer),
            }
        }
    }

    async fn execute_once(
        &self,
        executor: &RefCell<Box<dyn IoExecutor>>,
        job: IoJob,
    ) -> (io::Result<usize>, Buffer) {
        let token = self.acquire_token().await;
        let taken = executor.borrow_mut().enqueue(token, job);
        let outcome = match taken {
            Ok(()) => self.wait_for_completion(token).await,
            // There are as many places as it takes, so it never refuses.
            Err(job) => (Err(io::ErrorKind::WouldBlock.into()), job.buffer),
        };
        self.release_token(token);
        outcome
    }

    /// Pauses if the host lacked something, and returns whether to try again.
    pub(super) async fn should_retry(&self, retry: &mut RetryState, error: &io::Error) -> bool {
        let now = Instant::now();
        if !is_transient_shortage(error) || now - *retry.since.get_or_insert(now) >= self.lack_max {
            return false;
        }
        if let Some(times) = self.shortages.record_failure(&error.to_string(), now) {
            let longest = self.lack_max;
            tracing::warn!(disk = self.whose, %error, times, ?longest, "the host lacks a thread or memory for a request; the daemon tries again: `sublet doctor` checks the limits");
        }
        // The reserve need not wait.
        if retry.pause > Duration::ZERO || self.reserve.is_none() {
            self.sleep_until(now + retry.pause.max(RETRY)).await;
        }
        retry.pause = (retry.pause * 2).clamp(RETRY, PAUSE_MAX);
        true
    }

    async fn acquire_token(&self) -> usize {
        poll_fn(|cx| {
            let mut places = self.in_flight.borrow_mut();
            match places.free.pop() {
                Some(token) => Poll::Ready(token),
                None => {
                    places.waiting.push_back(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    async fn wait_for_completion(&self, token: usize) -> (io::Result<usize>, Buffer) {
        poll_fn(|cx| {
            let flight = &mut self.in_flight.borrow_mut().jobs[token];
            match flight.completed.take() {
                Some(landed) => Poll::Ready(landed),
                None => {
                    flight.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn release_token(&self, token: usize) {
        let mut places = self.in_flight.borrow_mut();
        places.jobs[token] = InFlightJob::default();
        places.free.push(token);
        if let Some(next) = places.waiting.pop_front() {
            next.wake();
        }
    }

    async fn throttle(&self, bytes: usize) {
        let Some(brake) = &self.brake else {
            return;
        };
        let until = brake.borrow_mut().admit_at(bytes, Instant::now());
        self.sleep_until(until).await;
    }

    /// Returns at `until`, or a little later.
    pub(super) async fn sleep_until(&self, until: Instant) {
        poll_fn(|cx| match Instant::now() >= until {
            true => Poll::Ready(()),
            false => {
                let mut timers = self.timers.borrow_mut();
                timers.push((until, cx.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }

    /// Wakes tasks whose operations are done. Returns how long there is nothing to do unless the event descriptor is
    /// notified. That is zero if a task was woken.
    pub(super) fn poll(&self) -> io::Result<Option<Duration>> {
        let mut all_sent = self.executor.borrow_mut().submit()?;
        if let Some(reserve) = &self.reserve {
            all_sent &= reserve.borrow_mut().submit()?;
        }
        let mut places = self.in_flight.borrow_mut();
        let mut landed = false;
        let land = &mut |token: usize, result, buffer| {
            landed = true;
            let flight = &mut places.jobs[token];
            flight.completed = Some((result, buffer));
            if let Some(waker) = flight.waker.take() {
                waker.wake();
            }
        };
        self.executor.borrow_mut().reap(land);
        if let Some(reserve) = &self.reserve {
            reserve.borrow_mut().reap(land);
        }
        let next = self.next_timer();
        Ok(match (landed, all_sent) {
            (true, _) => Some(Duration::ZERO),
            (false, true) => next,
            (false, false) => Some(next.unwrap_or(RETRY).min(RETRY)),
        })
    }

    fn next_timer(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut timers = self.timers.borrow_mut();
        let before = timers.len();
        timers.retain(|(at, waker)| {
            let due = *at <= now;
            if due {
                waker.wake_by_ref();
            }
            !due
        });
        if timers.len() < before {
            return Some(Duration::ZERO);
        }
        let next = timers.iter().map(|(at, _)| *at).min();
        next.map(|next| next - now)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use futures_executor::LocalPool;
    use futures_util::task::LocalSpawnExt;

    use super::*;

    /// Runs a task to its end, as a disk's thread would.
    fn run<R: 'static>(
        event_fd: &EventFd,
        engine: &Rc<IoEngine>,
        task: impl Future<Output = R> + 'static,
    ) -> R {
        let mut pool = LocalPool::new();
        let answer = Rc::new(RefCell::new(None));
        let into = Rc::clone(&answer);
        let task = async move {
            let answer = task.await;
            *into.borrow_mut() = Some(answer);
        };
        pool.spawner().spawn_local(task).expect("spawned");
        loop {
            pool.run_until_stalled();
            if let Some(answer) = answer.borrow_mut().take() {
                return answer;
            }
            let longest = engine.poll().expect("it turns");
            event_fd
                .wait(longest.or(Some(Duration::from_millis(20))))
                .expect("it waits");
        }
    }

    fn writes_and_reads(engine: IoEngine, event_fd: &Arc<EventFd>) {
        let engine = Rc::new(engine);
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let task = {
            let engine = Rc::clone(&engine);
            async move {
                let mut buffer = Buffer::zeroed(8192);
                buffer[4096..].fill(7);
                let late = IoOperation::Write(IoPriority::Background);
                let write = engine.execute(late, &file, 4096, buffer, 4096..6144);
                let (late, buffer) = write.await;
                let soon = IoOperation::Write(IoPriority::Awaited);
                let write = engine.execute(soon, &file, 6144, buffer, 6144..8192);
                let (soon, buffer) = write.await;
                let (synced, buffer) = engine
                    .execute(IoOperation::Sync, &file, 0, buffer, 0..0)
                    .await;
                let read = engine.execute(IoOperation::Read, &file, 4096, buffer, 0..4096);
                let (read, buffer) = read.await;
                let all = (
                    late.ok().zip(soon.ok()),
                    synced.ok(),
                    read.ok(),
                    buffer[..4096] == [7; 4096],
                );
                let punch = engine.execute(IoOperation::Punch(4096), &file, 4096, buffer, 0..0);
                let (punched, buffer) = punch.await;
                let read = engine.execute(IoOperation::Read, &file, 4096, buffer, 0..4096);
                let (_, buffer) = read.await;
                (all, punched.is_err() || buffer[..4096] == [0; 4096])
            }
        };
        let (all, punched) = run(event_fd, &engine, task);
        assert_eq!(all, (Some((2048, 2048)), Some(0), Some(4096), true));
        assert!(punched);
    }

    #[test]
    fn a_crew_writes_and_reads() {
        let event_fd = Arc::new(EventFd::new().expect("a bell"));
        let pool = IoThreadPool::start(&event_fd, THREADS).expect("threads");
        writes_and_reads(IoEngine::of(Box::new(pool), None), &event_fd);
    }

    #[test]
    fn io_uring_writes_and_reads() {
        let event_fd = Arc::new(EventFd::new().expect("a bell"));
        match Uring::new(&event_fd) {
            Ok(uring) => writes_and_reads(IoEngine::of(Box::new(uring), None), &event_fd),
            Err(error) => {
                // A host may forbid io_uring, or its kernel may be too old.
                let absent = [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported];
                assert!(absent.contains(&error.kind()), "a failure: {error}");
                eprintln!("skipped: no io_uring here, so io_uring was not tested: {error}");
            }
        }
    }

    /// Fails so many times for lack of something in the host, then does what `inner` does.
    struct FailingExecutor {
        inner: IoThreadPool,
        errno: i32,
        left: u32,
        refused: Vec<(usize, Buffer)>,
        asked: Rc<RefCell<u32>>,
    }

    impl IoExecutor for FailingExecutor {
        fn enqueue(&mut self, token: usize, job: IoJob) -> Result<(), IoJob> {
            *self.asked.borrow_mut() += 1;
            match self.left {
                0 => self.inner.enqueue(token, job),
                _ => {
                    self.left -= 1;
                    self.refused.push((token, job.buffer));
                    Ok(())
                }
            }
        }

        fn submit(&mut self) -> io::Result<bool> {
            Ok(true)
        }

        fn reap(&mut self, done: &mut dyn FnMut(usize, io::Result<usize>, Buffer)) {
            for (token, buffer) in self.refused.drain(..) {
                done(token, Err(io::Error::from_raw_os_error(self.errno)), buffer);
            }
            self.inner.reap(done);
        }
    }

    fn wanting(event_fd: &Arc<EventFd>, errno: i32, left: u32) -> (IoEngine, Rc<RefCell<u32>>) {
        let asked = Rc::default();
        let executor = FailingExecutor {
            inner: IoThreadPool::start(event_fd, 1).expect("a thread"),
            errno,
            left,
            refused: Vec::new(),
            asked: Rc::clone(&asked),
        };
        (IoEngine::of(Box::new(executor), None), asked)
    }

    fn sync_with(engine: IoEngine, event_fd: &EventFd) -> io::Result<usize> {
        let engine = Rc::new(engine);
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let its = Rc::clone(&engine);
        let sync = async move {
            its.execute(IoOperation::Sync, &file, 0, Buffer::default(), 0..0)
                .await
        };
        run(event_fd, &engine, sync).0
    }

    /// A kernel that may make no thread for io_uring returns `ECANCELED`. The other errors of this kind come and go
    /// with the host's memory.
    #[test]
    fn what_the_host_lacks_for_a_moment_is_tried_again() {
        let event_fd = Arc::new(EventFd::new().expect("a bell"));
        for errno in [libc::ECANCELED, libc::EAGAIN, libc::ENOMEM, libc::EINTR] {
            let (engine, asked) = wanting(&event_fd, errno, 5);
            sync_with(engine, &event_fd).expect("at last");
            assert_eq!(*asked.borrow(), 6);
        }
        let (engine, asked) = wanting(&event_fd, libc::EIO, 5);
        sync_with(engine, &event_fd).expect_err("it failed");
        assert_eq!(*asked.borrow(), 1, "a failure is told at once");
    }

    #[test]
    fn what_the_host_lacks_for_long_is_an_error_at_last() {
        let event_fd = Arc::new(EventFd::new().expect("a bell"));
        let (mut engine, _) = wanting(&event_fd, libc::ECANCELED, u32::MAX);
        engine.lack_max = Duration::from_millis(50);
        let error = sync_with(engine, &event_fd).expect_err("too long");
        assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
    }

    #[test]
    fn what_the_host_lacks_a_thread_for_is_done_by_those_in_reserve() {
        let event_fd = Arc::new(EventFd::new().expect("a bell"));
        let (mut engine, asked) = wanting(&event_fd, libc::ECANCELED, u32::MAX);
        let reserve = IoThreadPool::start(&event_fd, RESERVE_THREADS).expect("threads");
        engine.reserve = Some(RefCell::new(Box::new(reserve)));
        sync_with(engine, &event_fd).expect("done");
        assert_eq!(*asked.borrow(), 1);
    }

    #[test]
    fn a_slow_engine_takes_its_time() {
        let event_fd = Arc::new(EventFd::new().expect("a bell"));
        let pool = IoThreadPool::start(&event_fd, THREADS).expect("threads");
        let slow = SlowBacking {
            latency: Duration::from_millis(30),
            bandwidth: None,
        };
        let began = Instant::now();
        writes_and_reads(IoEngine::of(Box::new(pool), Some(slow)), &event_fd);
        assert!(began.elapsed() >= Duration::from_millis(150), "six deeds");
    }
}
