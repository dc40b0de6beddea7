//! The part of a disk that only swap has: a stage for pages that were acknowledged and are not on the backing yet.
//!
//! A page goes to the stage first and then to memory, and is acknowledged. `write_behind` writes it to the backing
//! later. So memory may drop any page at any time, because the stage or the backing has it. A get looks in memory, on
//! the stage and on the backing, in this order. A page leaves the stage only when the backing has it.
//!
//! Frontends' threads stage pages themselves. But while the disk's thread makes a change, or has one to make, they send
//! pages there to wait their turn. Otherwise an earlier request could be carried out later and replace what they
//! staged. (A client that lost its connection asks again over another one, while its first request is still under way.)
//! A thread may have checked just before the disk's thread began to merge a part of a page with the rest of it. The
//! extent's lock stops that thread.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use sublet_types::{DiskName, Durability};

use super::disk_problems::DiskProblems;
use super::disk_queue::DiskQueue;
use super::event_fd::EventFd;
use super::page_span::OBJECT_PAGES;
use super::stage::{Stage, StageDiskId, StagedPage};
use crate::observe::HealthState;

/// Locks that keep stage and memory in step, per extent.
const STRIPES: usize = 64;

/// A swap disk's part of the stage.
pub(super) struct Swap {
    pub(super) stage: Arc<Stage>,
    pub(super) disk: StageDiskId,
    durability: Durability,
    /// Per stripe, how many writes of parts of pages are at work there.
    stripes: Vec<Mutex<u32>>,
    /// The backing fails. The disk acknowledges nothing more that the backing does not have.
    failing: AtomicBool,
    /// The daemon ends and waits until all is written. No more may be staged.
    ending: AtomicBool,
    /// How often the backing failed.
    failures: AtomicU64,
    /// Requests that change the disk, from when they are sent to the disk's thread until they are done.
    changing: AtomicU32,
    /// How many callers wait until what is staged has been written.
    drain_requests: AtomicU32,
    /// The write-behind task, while there is nothing to write.
    sleeper: Mutex<Option<Waker>>,
    wakeup: Arc<EventFd>,
    problems: Arc<DiskProblems>,
}

/// A write of parts of pages is at work. Nobody stages one of these pages meanwhile.
pub(super) struct PartialWriteGuard<'a> {
    swap: &'a Swap,
    /// The first and the last page. Only these may be written in part.
    ends: [u64; 2],
}

impl Drop for PartialWriteGuard<'_> {
    fn drop(&mut self) {
        self.ends
            .iter()
            .for_each(|page| *self.swap.stripe(*page) -= 1);
    }
}

/// A caller waits until what was staged at a moment has been written.
pub(super) struct DrainRequest<'a> {
    swap: &'a Swap,
    until: u64,
}

impl DrainRequest<'_> {
    /// Returns whether some of it is still staged.
    pub(super) fn is_pending(&self) -> bool {
        self.swap.stage.has_before(self.swap.disk, self.until)
    }
}

impl Drop for DrainRequest<'_> {
    fn drop(&mut self) {
        self.swap.drain_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        self.stage.unregister(self.disk);
    }
}

impl Swap {
    pub(super) fn new(
        stage: Arc<Stage>,
        (name, mark): (&DiskName, u64),
        durability: Durability,
        event_fd: Arc<EventFd>,
        problems: Arc<DiskProblems>,
    ) -> Swap {
        Swap {
            disk: stage.register(name, mark),
            stage,
            durability,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            failing: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            changing: AtomicU32::new(0),
            drain_requests: AtomicU32::new(0),
            sleeper: Mutex::new(None),
            wakeup: event_fd,
            problems,
        }
    }

    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns whether a write may be acknowledged before the backing has it.
    pub(super) fn acknowledges_early(&self) -> bool {
        self.durability != Durability::WriteThrough
            && !self.failing.load(Ordering::Relaxed)
            && !self.ending.load(Ordering::Relaxed)
            && !self.problems.is_unnoted()
            && !self.stage.is_lost()
    }

    /// Returns whether the disk writes through for now, though its durability does not ask for it.
    pub(super) fn is_forced_write_through(&self) -> bool {
        self.durability != Durability::WriteThrough && !self.acknowledges_early()
    }

    /// Returns whether the disk writes everything through. It does so if its owner chose that, or if the next daemon
    /// would not know what only memory has.
    pub(super) fn writes_through(&self) -> bool {
        let promises = !self.problems.is_unnoted() && !self.stage.is_lost();
        self.durability == Durability::WriteThrough || !promises
    }

    /// Stages nothing more from now on: writes are acknowledged when the backing has them.
    pub(super) fn begin_ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Call this when a request that changes the disk is sent to its thread.
    pub(super) fn begin_change(&self) {
        self.changing.fetch_add(1, Ordering::SeqCst);
    }

    /// Call this when that request is done.
    pub(super) fn end_change(&self) {
        self.changing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether the disk's thread has a change to make.
    pub(super) fn is_changing(&self) -> bool {
        self.changing.load(Ordering::SeqCst) > 0
    }

    fn stripe(&self, page: u64) -> MutexGuard<'_, u32> {
        self.stripes[(page / OBJECT_PAGES) as usize % STRIPES].lock()
    }

    /// Stages a page and then runs `follow` for memory. Returns whether it could. It cannot if the stage is full, or if
    /// a part of the extent's pages is on its way to the backing.
    pub(super) fn put(&self, page: u64, bytes: &[u8], follow: impl FnOnce()) -> bool {
        let merging = self.stripe(page);
        *merging == 0 && self.put_locked(merging, page, bytes, follow)
    }

    /// The same for a page that the disk's thread holds. Only the caller merges that page with a part.
    pub(super) fn put_held(&self, page: u64, bytes: &[u8], follow: impl FnOnce()) -> bool {
        self.put_locked(self.stripe(page), page, bytes, follow)
    }

    fn put_locked(
        &self,
        stripe: MutexGuard<'_, u32>,
        page: u64,
        bytes: &[u8],
        follow: impl FnOnce(),
    ) -> bool {
        if self.stage.put(self.disk, page, bytes).is_err() {
            return false;
        }
        follow();
        drop(stripe);
        self.wake();
        true
    }

    /// Until the guard is dropped, nobody stages the first or the last of these pages.
    pub(super) fn begin_partial_write(&self, pages: &Range<u64>) -> PartialWriteGuard<'_> {
        let ends = [pages.start, pages.end.saturating_sub(1)];
        ends.iter().for_each(|page| *self.stripe(*page) += 1);
        PartialWriteGuard { swap: self, ends }
    }

    /// Records that the backing has a page that is newer than what was staged of it. Memory follows.
    pub(super) fn wrote_through(&self, page: u64, follow: impl FnOnce()) {
        let _stripe = self.stripe(page);
        self.stage.remove(self.disk, page);
        follow();
    }

    /// Drops pages of one extent, from the stage and from memory.
    pub(super) fn forget(&self, pages: Range<u64>, follow: impl FnOnce()) {
        let _stripe = self.stripe(pages.start);
        if self.dirty() > 0 {
            pages.for_each(|page| self.stage.remove(self.disk, page));
        }
        follow();
    }

    /// Copies a page if it is staged. An error means that the page is staged and cannot be read.
    pub(super) fn staged(&self, page: u64, into: &mut [u8]) -> io::Result<bool> {
        self.stage.read(self.disk, page, into)
    }

    pub(super) fn is_staged(&self, page: u64) -> bool {
        self.stage.has(self.disk, page)
    }

    /// Pages that the backing does not have yet.
    pub(super) fn dirty(&self) -> u64 {
        self.stage.count(self.disk)
    }

    /// Some pages that the backing does not have yet.
    pub(super) fn next_batch(&self, from: &mut u32, found: &mut Vec<StagedPage>) {
        self.stage.next_batch(self.disk, from, found);
    }

    /// Records whether the backing takes what it is given.
    pub(super) fn record_backing(&self, health: HealthState) {
        let is_failing = health == HealthState::Failing;
        self.failing.store(is_failing, Ordering::Relaxed);
        self.failures
            .fetch_add(u64::from(is_failing), Ordering::Relaxed);
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// How often the backing failed to take what is staged.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns whether a caller waits until what is staged has been written.
    pub(super) fn is_drain_requested(&self) -> bool {
        self.drain_requests.load(Ordering::Relaxed) > 0
    }

    /// Asks to have written soon everything that is staged now.
    pub(super) fn request_drain(&self) -> DrainRequest<'_> {
        self.drain_requests.fetch_add(1, Ordering::Relaxed);
        self.wake();
        DrainRequest {
            swap: self,
            until: self.stage.now(),
        }
    }

    /// Waits until there is something to write behind, or until the queue has ended. A thread that puts a page, or sees
    /// that end, wakes the task.
    pub(super) fn poll_dirty(&self, cx: &Context<'_>, queue: &DiskQueue) -> Poll<()> {
        // Register the sleeper before the check. Whatever comes in between then finds a task to wake.
        *self.sleeper.lock() = Some(cx.waker().clone());
        match queue.has_ended() || self.dirty() > 0 {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Wakes the write-behind task.
    pub(super) fn wake(&self) {
        let sleeper = self.sleeper.lock().take();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
            self.wakeup.notify();
        }
    }
}
