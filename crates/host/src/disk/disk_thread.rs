//! A disk's thread: many tasks that each carry out one request at a time, while one engine moves bytes for all.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_executor::LocalPool;
use futures_util::task::{LocalSpawn, LocalSpawnExt};
use sublet_frontends::block_device::{
    DiskFault, DiskOperation, DiskOutcome, DiskRequest, ExtentLimit,
};
use sublet_frontends::tenancy::{StoreHandle, Tenancy};

use super::backed_disk::BackedDisk;
use super::disk_figures::DiskTally;
use super::disk_queue::{DiskJob, ReadAheadRoom};
use super::engine::IoEngine;
use super::far_reads::FarReads;
use super::range_locks::RangeLocks;
use super::reply::DiskReply;
use super::scratch_buffers::ScratchBuffers;
use super::swap::Swap;

/// Requests of one disk that are carried out side by side.
const TASKS: usize = 64;

/// The most of these tasks that read ahead.
const AHEAD_TASKS: usize = 8;

/// What the tasks of a disk share. Only the disk's own thread has it.
pub(super) struct DiskThread {
    pub(super) disk: Arc<BackedDisk>,
    pub(super) engine: IoEngine,
    pub(super) ranges: Rc<RangeLocks>,
    pub(super) tenancy: Tenancy,
    pub(super) tally: Arc<DiskTally>,
    pub(super) scratch: ScratchBuffers,
    /// Pages at lenders. `None` if the host borrows nothing.
    pub(super) far: Option<FarReads>,
    idle: RefCell<Vec<Waker>>,
    at_work: Cell<usize>,
    /// Tasks that read ahead now.
    ahead: Cell<usize>,
}

impl DiskThread {
    /// A disk's work on this thread. `engine` reads and writes the disk's backing.
    pub(super) fn new(
        disk: Arc<BackedDisk>,
        store_handle: &StoreHandle,
        engine: IoEngine,
        far: Option<FarReads>,
    ) -> Rc<DiskThread> {
        Rc::new(DiskThread {
            engine,
            ranges: Rc::default(),
            tenancy: store_handle.open(disk.tenant),
            tally: disk.tallies.open(),
            scratch: ScratchBuffers::default(),
            far,
            idle: RefCell::new(Vec::with_capacity(TASKS)),
            at_work: Cell::new(0),
            ahead: Cell::new(0),
            disk,
        })
    }

    /// Works until the disk's queue has ended and everything is done.
    pub(super) fn run(self: Rc<DiskThread>) -> io::Result<()> {
        let mut pool = LocalPool::new();
        self.spawn_tasks(&pool.spawner())?;
        while self.at_work.get() > 0 {
            pool.run_until_stalled();
            let longest = self.engine.poll()?;
            let far = self.far.as_ref().and_then(|far| self.poll_far(far));
            let longest = longest.into_iter().chain(far).min();
            if !self.wake_tasks() && longest != Some(Duration::ZERO) && self.at_work.get() > 0 {
                self.wait(longest)?;
            }
        }
        Ok(())
    }

    /// Moves pages from lenders, and lets evicted pages go to them as long as they are quick enough. Returns how long
    /// nothing is to be done unless a socket is ready.
    fn poll_far(&self, far: &FarReads) -> Option<Duration> {
        let longest = far.poll();
        if let Some(sending) = far.sending_change() {
            let (worker, ..) = self.tenancy.worker_tenant_now();
            worker.store().set_sending(self.disk.pool, sending);
        }
        longest
    }

    /// Waits until somebody wakes the thread or a lender sends something, or at most `longest`.
    fn wait(&self, longest: Option<Duration>) -> io::Result<()> {
        let wakeup = &self.disk.wakeup;
        match &self.far {
            Some(far) => far.with_sockets(|sockets| wakeup.wait_beside(sockets, longest)),
            None => wakeup.wait(longest),
        }
    }

    /// Starts every task.
    pub(super) fn spawn_tasks(self: &Rc<DiskThread>, spawner: &impl LocalSpawn) -> io::Result<()> {
        for _ in 0..TASKS {
            self.spawn(spawner, Rc::clone(self).run_task())?;
        }
        if self.disk.swap.is_some() {
            self.spawn(spawner, Rc::clone(self).write_behind())?;
        }
        Ok(())
    }

    fn spawn(
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

    /// Wakes as many idle tasks as there are jobs, or all of them when everything ends.
    pub(super) fn wake_tasks(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        let wanted = match self.disk.queue.has_ended() {
            true => {
                // The write-behind task may have slept while something was left to do.
                self.disk.swap.iter().for_each(Swap::wake);
                idle.len()
            }
            false => self.disk.queue.len(self.read_ahead_room()).min(idle.len()),
        };
        let from = idle.len() - wanted;
        idle.drain(from..).for_each(Waker::wake);
        wanted > 0
    }

    async fn run_task(self: Rc<DiskThread>) {
        while let Some(job) = self.next_job().await {
            match job {
                DiskJob::Request(request) => self.serve(request).await,
                DiskJob::ReadAhead(ahead) => {
                    self.ahead.set(self.ahead.get() + 1);
                    self.read_ahead(ahead).await;
                    self.ahead.set(self.ahead.get() - 1);
                }
            }
        }
    }

    fn read_ahead_room(&self) -> ReadAheadRoom {
        match self.ahead.get() < AHEAD_TASKS || self.disk.queue.is_closed() {
            true => ReadAheadRoom::Free,
            false => ReadAheadRoom::Taken,
        }
    }

    async fn next_job(&self) -> Option<DiskJob> {
        poll_fn(|cx| match self.disk.queue.pop(self.read_ahead_room()) {
            Some(job) => Poll::Ready(Some(job)),
            None if self.disk.queue.has_ended() => Poll::Ready(None),
            None => {
                self.idle.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    async fn serve(&self, mut request: DiskRequest) {
        let answer = match self.check(&request) {
            Ok(()) => self.execute(&mut request).await,
            Err(fault) => DiskReply::of(Err(fault), std::mem::take(&mut request.buffer)),
        };
        if answer.result.is_err() {
            self.tally.faults.add(1);
        }
        if request.operation.changes() {
            self.disk.holes.end_change();
            self.disk.swap.iter().for_each(Swap::end_change);
        }
        request.outcomes.deliver(DiskOutcome {
            token: request.token,
            result: answer.result,
            buffer: answer.buffer,
            extents: answer.extents,
        });
    }

    fn check(&self, request: &DiskRequest) -> Result<(), DiskFault> {
        let shape = self.disk.shape_now();
        shape.check(request.at, request.len)?;
        match request.operation.changes() && shape.read_only {
            true => Err(DiskFault::ReadOnly),
            false => Ok(()),
        }
    }

    async fn execute(&self, request: &mut DiskRequest) -> DiskReply {
        let buffer = std::mem::take(&mut request.buffer);
        let (at, len) = (request.at, request.len);
        match request.operation {
            DiskOperation::Read => self.read(at, buffer).await,
            DiskOperation::Write { fua } => self.write(at, buffer, fua).await,
            DiskOperation::Flush => self.flush(buffer).await,
            DiskOperation::Trim => self.trim(at, len, buffer).await,
            DiskOperation::Zero(zeroing) => self.zero(at, len, buffer, zeroing).await,
            DiskOperation::Prefetch => self.prefetch(at, len, buffer),
            DiskOperation::Extents {
                limit: ExtentLimit::One,
            } => self.extent(at, len, buffer),
            DiskOperation::Extents {
                limit: ExtentLimit::Many,
            } => self.extents(at, len, buffer),
        }
    }
}
