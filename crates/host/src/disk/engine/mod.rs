//! How a disk's thread reads and writes its backing without waiting: by io_uring, or by a crew of threads where the
//! kernel has none for us.

mod crew;
mod job;
mod slow;
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

use sublet_frontends::block::Buffer;
use sublet_types::Slow;

use self::crew::{Crew, RESERVE_THREADS, THREADS};
use self::slow::Brake;
use self::uring::Uring;
use super::bell::Bell;
use crate::observe::Ailment;
use crate::patience::is_lack;

pub(super) use self::job::{Carrier, Deed, FLYING_MAX, Haste, Job};

/// When a kernel that was too busy is asked again.
const RETRY: Duration = Duration::from_millis(1);

/// The longest pause before another try at what the host lacked something for.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// How long a request is tried again for which the host lacks a thread or memory: a guest that is told of an error gives its
/// file system up, and its swap.
const LACK_MAX: Duration = Duration::from_secs(30);

/// The backing's side of a disk's thread.
pub(super) struct Engine {
    carrier: RefCell<Box<dyn Carrier>>,
    /// Who carries out what the carrier lacked something for.
    reserve: Option<RefCell<Box<dyn Carrier>>>,
    lacks: Ailment,
    lack_max: Duration,
    /// The disk, for the log.
    whose: String,
    places: RefCell<Places>,
    brake: Option<RefCell<Brake>>,
    timers: RefCell<Vec<(Instant, Waker)>>,
}

/// Jobs under way, and who waits for a place.
struct Places {
    flying: Vec<Flight>,
    free: Vec<usize>,
    waiting: VecDeque<Waker>,
}

/// What is being tried again.
#[derive(Debug, Default)]
pub(super) struct Trying {
    since: Option<Instant>,
    pause: Duration,
}

impl Trying {
    fn is_first(&self) -> bool {
        self.since.is_none()
    }
}

#[derive(Default)]
struct Flight {
    waker: Option<Waker>,
    landed: Option<(io::Result<usize>, Buffer)>,
}

impl Engine {
    /// A disk's engine, which rings `bell` when something is done. `slow` makes it slower than it is.
    pub(super) fn start(bell: &Arc<Bell>, slow: Option<Slow>, whose: &str) -> io::Result<Engine> {
        let (carrier, reserve): (Box<dyn Carrier>, Option<Box<dyn Carrier>>) = match Uring::new(
            bell,
        ) {
            Ok(uring) => {
                let reserve = Crew::start(bell, RESERVE_THREADS)?;
                (Box::new(uring), Some(Box::new(reserve)))
            }
            Err(error) => {
                tracing::info!(%error, "no io_uring here; disks are read and written by threads");
                (Box::new(Crew::start(bell, THREADS)?), None)
            }
        };
        Ok(Engine {
            reserve: reserve.map(RefCell::new),
            whose: whose.to_owned(),
            ..Engine::of(carrier, slow)
        })
    }

    pub(super) fn of(carrier: Box<dyn Carrier>, slow: Option<Slow>) -> Engine {
        Engine {
            carrier: RefCell::new(carrier),
            reserve: None,
            lacks: Ailment::default(),
            lack_max: LACK_MAX,
            whose: String::new(),
            places: RefCell::new(Places {
                flying: (0..FLYING_MAX).map(|_| Flight::default()).collect(),
                free: (0..FLYING_MAX).collect(),
                waiting: VecDeque::with_capacity(FLYING_MAX),
            }),
            brake: slow.map(|slow| RefCell::new(Brake::new(slow))),
            timers: RefCell::new(Vec::with_capacity(FLYING_MAX)),
        }
    }

    /// Carries a deed out on a part of the buffer. Says how many bytes, and gives the buffer back. What the host lacks
    /// something for is tried again, for a while.
    pub(super) async fn carry(
        &self,
        deed: Deed,
        file: &Arc<File>,
        at: u64,
        mut buffer: Buffer,
        part: Range<usize>,
    ) -> (io::Result<usize>, Buffer) {
        self.be_slow(part.len()).await;
        let mut trying = Trying::default();
        loop {
            let carrier = match (trying.is_first(), &self.reserve) {
                (false, Some(reserve)) => reserve,
                _ => &self.carrier,
            };
            let (file, part) = (Arc::clone(file), part.clone());
            let job = Job {
                deed,
                file,
                at,
                buffer,
                part,
            };
            let (result, back) = self.carry_once(carrier, job).await;
            buffer = back;
            match result {
                Err(error) if self.tries_again(&mut trying, &error).await => {}
                result => return (result, buffer),
            }
        }
    }

    async fn carry_once(
        &self,
        carrier: &RefCell<Box<dyn Carrier>>,
        job: Job,
    ) -> (io::Result<usize>, Buffer) {
        let token = self.place().await;
        let taken = carrier.borrow_mut().carry(token, job);
        let outcome = match taken {
            Ok(()) => self.landing(token).await,
            // There are as many places as it takes, so it never says no.
            Err(job) => (Err(io::ErrorKind::WouldBlock.into()), job.buffer),
        };
        self.leave(token);
        outcome
    }

    /// Pauses where the host lacked something, and says whether to try again.
    pub(super) async fn tries_again(&self, trying: &mut Trying, error: &io::Error) -> bool {
        let now = Instant::now();
        if !is_lack(error) || now - *trying.since.get_or_insert(now) >= self.lack_max {
            return false;
        }
        if let Some(times) = self.lacks.fails(&error.to_string(), now) {
            let longest = self.lack_max;
            tracing::warn!(disk = self.whose, %error, times, ?longest, "the host lacks what a request needs (a thread, memory), which is tried again: `sublet doctor` looks at the limits");
        }
        // Whoever is in reserve need not wait.
        if trying.pause > Duration::ZERO || self.reserve.is_none() {
            self.sleep_until(now + trying.pause.max(RETRY)).await;
        }
        trying.pause = (trying.pause * 2).clamp(RETRY, PAUSE_MAX);
        true
    }

    async fn place(&self) -> usize {
        poll_fn(|turn| {
            let mut places = self.places.borrow_mut();
            match places.free.pop() {
                Some(token) => Poll::Ready(token),
                None => {
                    places.waiting.push_back(turn.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    async fn landing(&self, token: usize) -> (io::Result<usize>, Buffer) {
        poll_fn(|turn| {
            let flight = &mut self.places.borrow_mut().flying[token];
            match flight.landed.take() {
                Some(landed) => Poll::Ready(landed),
                None => {
                    flight.waker = Some(turn.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn leave(&self, token: usize) {
        let mut places = self.places.borrow_mut();
        places.flying[token] = Flight::default();
        places.free.push(token);
        if let Some(next) = places.waiting.pop_front() {
            next.wake();
        }
    }

    async fn be_slow(&self, bytes: usize) {
        let Some(brake) = &self.brake else {
            return;
        };
        let until = brake.borrow_mut().until(bytes, Instant::now());
        self.sleep_until(until).await;
    }

    /// Comes back at `until`, or a little later.
    pub(super) async fn sleep_until(&self, until: Instant) {
        poll_fn(|turn| match Instant::now() >= until {
            true => Poll::Ready(()),
            false => {
                let mut timers = self.timers.borrow_mut();
                timers.push((until, turn.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }

    /// Wakes whoever waited for what is done now. Says how long nothing has to be done but on a bell; zero if somebody
    /// was woken.
    pub(super) fn turn(&self) -> io::Result<Option<Duration>> {
        let mut all_sent = self.carrier.borrow_mut().send()?;
        if let Some(reserve) = &self.reserve {
            all_sent &= reserve.borrow_mut().send()?;
        }
        let mut places = self.places.borrow_mut();
        let mut landed = false;
        let land = &mut |token: usize, result, buffer| {
            landed = true;
            let flight = &mut places.flying[token];
            flight.landed = Some((result, buffer));
            if let Some(waker) = flight.waker.take() {
                waker.wake();
            }
        };
        self.carrier.borrow_mut().reap(land);
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
        bell: &Bell,
        engine: &Rc<Engine>,
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
            let longest = engine.turn().expect("it turns");
            bell.wait(longest.or(Some(Duration::from_millis(20))))
                .expect("it waits");
        }
    }

    fn writes_and_reads(engine: Engine, bell: &Arc<Bell>) {
        let engine = Rc::new(engine);
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let task = {
            let engine = Rc::clone(&engine);
            async move {
                let mut buffer = Buffer::zeroed(8192);
                buffer[4096..].fill(7);
                let late = Deed::Write(Haste::Leisurely);
                let write = engine.carry(late, &file, 4096, buffer, 4096..6144);
                let (late, buffer) = write.await;
                let soon = Deed::Write(Haste::Awaited);
                let write = engine.carry(soon, &file, 6144, buffer, 6144..8192);
                let (soon, buffer) = write.await;
                let (synced, buffer) = engine.carry(Deed::Sync, &file, 0, buffer, 0..0).await;
                let read = engine.carry(Deed::Read, &file, 4096, buffer, 0..4096);
                let (read, buffer) = read.await;
                let all = (
                    late.ok().zip(soon.ok()),
                    synced.ok(),
                    read.ok(),
                    buffer[..4096] == [7; 4096],
                );
                let punch = engine.carry(Deed::Punch(4096), &file, 4096, buffer, 0..0);
                let (punched, buffer) = punch.await;
                let read = engine.carry(Deed::Read, &file, 4096, buffer, 0..4096);
                let (_, buffer) = read.await;
                (all, punched.is_err() || buffer[..4096] == [0; 4096])
            }
        };
        let (all, punched) = run(bell, &engine, task);
        assert_eq!(all, (Some((2048, 2048)), Some(0), Some(4096), true));
        assert!(punched);
    }

    #[test]
    fn a_crew_writes_and_reads() {
        let bell = Arc::new(Bell::new().expect("a bell"));
        let crew = Crew::start(&bell, THREADS).expect("threads");
        writes_and_reads(Engine::of(Box::new(crew), None), &bell);
    }

    #[test]
    fn io_uring_writes_and_reads() {
        let bell = Arc::new(Bell::new().expect("a bell"));
        match Uring::new(&bell) {
            Ok(uring) => writes_and_reads(Engine::of(Box::new(uring), None), &bell),
            Err(error) => eprintln!("skipped: no io_uring here: {error}"),
        }
    }

    /// What the host lacks something for, so many times; then what `inner` does.
    struct Wanting {
        inner: Crew,
        errno: i32,
        left: u32,
        refused: Vec<(usize, Buffer)>,
        asked: Rc<RefCell<u32>>,
    }

    impl Carrier for Wanting {
        fn carry(&mut self, token: usize, job: Job) -> Result<(), Job> {
            *self.asked.borrow_mut() += 1;
            match self.left {
                0 => self.inner.carry(token, job),
                _ => {
                    self.left -= 1;
                    self.refused.push((token, job.buffer));
                    Ok(())
                }
            }
        }

        fn send(&mut self) -> io::Result<bool> {
            Ok(true)
        }

        fn reap(&mut self, done: &mut dyn FnMut(usize, io::Result<usize>, Buffer)) {
            for (token, buffer) in self.refused.drain(..) {
                done(token, Err(io::Error::from_raw_os_error(self.errno)), buffer);
            }
            self.inner.reap(done);
        }
    }

    fn wanting(bell: &Arc<Bell>, errno: i32, left: u32) -> (Engine, Rc<RefCell<u32>>) {
        let asked = Rc::default();
        let carrier = Wanting {
            inner: Crew::start(bell, 1).expect("a thread"),
            errno,
            left,
            refused: Vec::new(),
            asked: Rc::clone(&asked),
        };
        (Engine::of(Box::new(carrier), None), asked)
    }

    fn sync_with(engine: Engine, bell: &Bell) -> io::Result<usize> {
        let engine = Rc::new(engine);
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let its = Rc::clone(&engine);
        let sync = async move {
            its.carry(Deed::Sync, &file, 0, Buffer::default(), 0..0)
                .await
        };
        run(bell, &engine, sync).0
    }

    /// A kernel that may make no thread for io_uring says `ECANCELED`; others of these come and go with the host's memory.
    #[test]
    fn what_the_host_lacks_for_a_moment_is_tried_again() {
        let bell = Arc::new(Bell::new().expect("a bell"));
        for errno in [libc::ECANCELED, libc::EAGAIN, libc::ENOMEM, libc::EINTR] {
            let (engine, asked) = wanting(&bell, errno, 5);
            sync_with(engine, &bell).expect("at last");
            assert_eq!(*asked.borrow(), 6);
        }
        let (engine, asked) = wanting(&bell, libc::EIO, 5);
        sync_with(engine, &bell).expect_err("it failed");
        assert_eq!(*asked.borrow(), 1, "a failure is told at once");
    }

    #[test]
    fn what_the_host_lacks_for_long_is_an_error_at_last() {
        let bell = Arc::new(Bell::new().expect("a bell"));
        let (mut engine, _) = wanting(&bell, libc::ECANCELED, u32::MAX);
        engine.lack_max = Duration::from_millis(50);
        let error = sync_with(engine, &bell).expect_err("too long");
        assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
    }

    #[test]
    fn what_the_host_lacks_a_thread_for_is_done_by_those_in_reserve() {
        let bell = Arc::new(Bell::new().expect("a bell"));
        let (mut engine, asked) = wanting(&bell, libc::ECANCELED, u32::MAX);
        let reserve = Crew::start(&bell, RESERVE_THREADS).expect("threads");
        engine.reserve = Some(RefCell::new(Box::new(reserve)));
        sync_with(engine, &bell).expect("done");
        assert_eq!(*asked.borrow(), 1);
    }

    #[test]
    fn a_slow_engine_takes_its_time() {
        let bell = Arc::new(Bell::new().expect("a bell"));
        let crew = Crew::start(&bell, THREADS).expect("threads");
        let slow = Slow {
            latency: Duration::from_millis(30),
            bandwidth: None,
        };
        let began = Instant::now();
        writes_and_reads(Engine::of(Box::new(crew), Some(slow)), &bell);
        assert!(began.elapsed() >= Duration::from_millis(150), "six deeds");
    }
}
