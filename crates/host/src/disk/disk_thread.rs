//! A disk's thread: many tasks that each carry one request out at a time, while one engine moves bytes for all.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_executor::LocalPool;
use futures_util::task::{LocalSpawn, LocalSpawnExt};
use sublet_frontends::block::{Fault, Outcome, Request, Verb};
use sublet_frontends::tenancy::{Doorman, Tenancy};

use super::answer::Answer;
use super::backed::Backed;
use super::engine::Engine;
use super::figures::Tally;
use super::inbox::Job;
use super::ranges::Ranges;
use super::rooms::Rooms;
use super::swap::Swap;

/// Requests of one disk that are worked on side by side.
const TASKS: usize = 64;

/// Of these, tasks that read what nobody waits for.
const AHEAD_TASKS: usize = 8;

/// What the tasks of a disk share. Only its own thread has it.
pub(super) struct DiskThread {
    pub(super) disk: Arc<Backed>,
    pub(super) engine: Engine,
    pub(super) ranges: Rc<Ranges>,
    pub(super) tenancy: Tenancy,
    pub(super) tally: Arc<Tally>,
    pub(super) rooms: Rooms,
    idle: RefCell<Vec<Waker>>,
    at_work: Cell<usize>,
    /// Tasks that read ahead.
    ahead: Cell<usize>,
}

impl DiskThread {
    /// A disk's work on this thread, for a disk whose backing `engine` reads and writes.
    pub(super) fn new(disk: Arc<Backed>, doorman: &Doorman, engine: Engine) -> Rc<DiskThread> {
        Rc::new(DiskThread {
            engine,
            ranges: Rc::default(),
            tenancy: doorman.open(disk.tenant),
            tally: disk.tallies.open(),
            rooms: Rooms::default(),
            idle: RefCell::new(Vec::with_capacity(TASKS)),
            at_work: Cell::new(0),
            ahead: Cell::new(0),
            disk,
        })
    }

    /// Works until the disk's inbox has ended and everything is done.
    pub(super) fn run(self: Rc<DiskThread>) -> io::Result<()> {
        let mut pool = LocalPool::new();
        self.begin(&pool.spawner())?;
        while self.at_work.get() > 0 {
            pool.run_until_stalled();
            let longest = self.engine.turn()?;
            if !self.wake_tasks() && longest != Some(Duration::ZERO) && self.at_work.get() > 0 {
                self.disk.bell.wait(longest)?;
            }
        }
        Ok(())
    }

    /// Begins every task.
    pub(super) fn begin(self: &Rc<DiskThread>, spawner: &impl LocalSpawn) -> io::Result<()> {
        for _ in 0..TASKS {
            self.employ(spawner, Rc::clone(self).task())?;
        }
        if self.disk.swap.is_some() {
            self.employ(spawner, Rc::clone(self).write_behind())?;
        }
        Ok(())
    }

    fn employ(
        self: &Rc<DiskThread>,
        spawner: &impl LocalSpawn,
        work: impl Future<Output = ()> + 'static,
    ) -> io::Result<()> {
        let thread = Rc::clone(self);
        self.at_work.set(self.at_work.get() + 1);
        let body = async move {
            work.await;
            thread.at_work.set(thread.at_work.get() - 1);
        };
        spawner.spawn_local(body).map_err(io::Error::other)
    }

    /// Wakes as many idle tasks as there are things to do; all of them when everything ends.
    pub(super) fn wake_tasks(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        let wanted = match self.disk.inbox.has_ended() {
            true => {
                // Who writes behind may have slept while there was something left to do.
                self.disk.swap.iter().for_each(Swap::wake);
                idle.len()
            }
            false => self.disk.inbox.len(self.may_read_ahead()).min(idle.len()),
        };
        let from = idle.len() - wanted;
        idle.drain(from..).for_each(Waker::wake);
        wanted > 0
    }

    async fn task(self: Rc<DiskThread>) {
        while let Some(job) = self.next_job().await {
            match job {
                Job::Asked(request) => self.serve(request).await,
                Job::Ahead(ahead) => {
                    self.ahead.set(self.ahead.get() + 1);
                    self.read_ahead(ahead).await;
                    self.ahead.set(self.ahead.get() - 1);
                }
            }
        }
    }

    fn may_read_ahead(&self) -> bool {
        self.ahead.get() < AHEAD_TASKS || self.disk.inbox.is_closed()
    }

    async fn next_job(&self) -> Option<Job> {
        poll_fn(|turn| match self.disk.inbox.take(self.may_read_ahead()) {
            Some(job) => Poll::Ready(Some(job)),
            None if self.disk.inbox.has_ended() => Poll::Ready(None),
            None => {
                self.idle.borrow_mut().push(turn.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    async fn serve(&self, mut request: Request) {
        let answer = match self.check(&request) {
            Ok(()) => self.carry_out(&mut request).await,
            Err(fault) => Answer::of(Err(fault), std::mem::take(&mut request.buffer)),
        };
        if answer.result.is_err() {
            self.tally.faults.add(1);
        }
        if request.verb.changes() {
            self.disk.holes.end_change();
            self.disk.swap.iter().for_each(Swap::end_change);
        }
        request.to.done(Outcome {
            token: request.token,
            result: answer.result,
            buffer: answer.buffer,
            extents: answer.extents,
        });
    }

    fn check(&self, request: &Request) -> Result<(), Fault> {
        let shape = self.disk.shape_now();
        shape.check(request.at, request.len)?;
        match request.verb.changes() && shape.read_only {
            true => Err(Fault::ReadOnly),
            false => Ok(()),
        }
    }

    async fn carry_out(&self, request: &mut Request) -> Answer {
        let buffer = std::mem::take(&mut request.buffer);
        let (at, len) = (request.at, request.len);
        match request.verb {
            Verb::Read => self.read(at, buffer).await,
            Verb::Write { lasting } => self.write(at, buffer, lasting).await,
            Verb::Flush => self.flush(buffer).await,
            Verb::Trim => self.trim(at, len, buffer).await,
            Verb::Zero {
                hole,
                fast,
                lasting,
            } => self.zero(at, len, buffer, hole, fast, lasting).await,
            Verb::Prefetch => self.prefetch(at, len, buffer),
            Verb::Extents { one: true } => self.extent(at, len, buffer),
            Verb::Extents { one: false } => self.extents(at, len, buffer),
        }
    }
}
