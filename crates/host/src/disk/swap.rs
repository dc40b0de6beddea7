//! What swap has beside a disk: a stage for pages that were acknowledged and are not on the backing yet.
//!
//! A page is put on the stage first and then in memory, and acknowledged; `behind` writes it to the backing later.
//! So memory may drop any page at any time: what it had is on the stage, or on the backing. A get looks in
//! memory, on the stage, and on the backing, in this order; a page leaves the stage only when the backing has it.
//!
//! Frontends' threads stage pages themselves. Only while the disk's thread has a change to make, or is at one, are they
//! sent there, to wait their turn: else what was asked for before could be done after, and take the place of what they
//! staged. (A client that lost its connection asks anew over another, while the first is still under way.) Whoever looked a
//! moment before a part of a page was to be put together with the rest of it is stopped by the extent's lock.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use sublet_types::{DiskName, Durability};

use super::bell::Bell;
use super::cover::OBJECT_PAGES;
use super::inbox::Inbox;
use super::plight::Plight;
use super::stage::{Stage, StageDisk, Staged};

/// Locks that keep stage and memory in step, extent by extent.
const STRIPES: usize = 64;

/// A swap disk's part of the stage.
pub(super) struct Swap {
    pub(super) stage: Arc<Stage>,
    pub(super) disk: StageDisk,
    durability: Durability,
    /// In each, how many writes of parts of pages are at work there.
    stripes: Vec<Mutex<u32>>,
    /// The backing fails: nothing more is acknowledged that it does not have.
    failing: AtomicBool,
    /// The daemon ends, and waits until all is written: no more of it is to come.
    ending: AtomicBool,
    /// How often it failed.
    failures: AtomicU64,
    /// Requests that change the disk, from when they are sent to its thread until they are done.
    changing: AtomicU32,
    /// How many wait until what is staged has been written.
    hurried: AtomicU32,
    /// Who writes behind, while there is nothing to write.
    sleeper: Mutex<Option<Waker>>,
    bell: Arc<Bell>,
    plight: Arc<Plight>,
}

/// A write of parts of pages is at work: nobody stages a page beside it.
pub(super) struct Merging<'a> {
    swap: &'a Swap,
    /// The first and the last page: only these may be written in part.
    ends: [u64; 2],
}

impl Drop for Merging<'_> {
    fn drop(&mut self) {
        self.ends
            .iter()
            .for_each(|page| *self.swap.stripe(*page) -= 1);
    }
}

/// Somebody waits until what was staged at a moment has been written.
pub(super) struct Hurry<'a> {
    swap: &'a Swap,
    until: u64,
}

impl Hurry<'_> {
    /// Whether some of it is staged still.
    pub(super) fn has_some(&self) -> bool {
        self.swap.stage.has_before(self.swap.disk, self.until)
    }
}

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.swap.hurried.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        self.stage.leave(self.disk);
    }
}

impl Swap {
    pub(super) fn new(
        stage: Arc<Stage>,
        (name, mark): (&DiskName, u64),
        durability: Durability,
        bell: Arc<Bell>,
        plight: Arc<Plight>,
    ) -> Swap {
        Swap {
            disk: stage.enter(name, mark),
            stage,
            durability,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            failing: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            changing: AtomicU32::new(0),
            hurried: AtomicU32::new(0),
            sleeper: Mutex::new(None),
            bell,
            plight,
        }
    }

    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether a write may be acknowledged before the backing has it.
    pub(super) fn takes(&self) -> bool {
        self.durability != Durability::WriteThrough
            && !self.failing.load(Ordering::Relaxed)
            && !self.ending.load(Ordering::Relaxed)
            && !self.plight.is_unnoted()
            && !self.stage.is_lost()
    }

    /// Whether it writes through for now, though it need not.
    pub(super) fn is_held_back(&self) -> bool {
        self.durability != Durability::WriteThrough && !self.takes()
    }

    /// Whether all is to be written through: because its owner said so, or because the next daemon would not know of what
    /// only memory has.
    pub(super) fn writes_through(&self) -> bool {
        let promises = !self.plight.is_unnoted() && !self.stage.is_lost();
        self.durability == Durability::WriteThrough || !promises
    }

    /// From now on what is staged gets less only: writes are acknowledged when the backing has them.
    pub(super) fn begin_ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// A request that changes the disk is sent to its thread.
    pub(super) fn begin_change(&self) {
        self.changing.fetch_add(1, Ordering::SeqCst);
    }

    /// It is done.
    pub(super) fn end_change(&self) {
        self.changing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether the disk's thread has a change to make.
    pub(super) fn is_changing(&self) -> bool {
        self.changing.load(Ordering::SeqCst) > 0
    }

    fn stripe(&self, page: u64) -> MutexGuard<'_, u32> {
        self.stripes[(page / OBJECT_PAGES) as usize % STRIPES].lock()
    }

    /// Stages a page and has memory follow. Says whether it could: the stage may be full, or a part of the extent's
    /// pages be under way to the backing.
    pub(super) fn put(&self, page: u64, bytes: &[u8], follow: impl FnOnce()) -> bool {
        let merging = self.stripe(page);
        *merging == 0 && self.put_locked(merging, page, bytes, follow)
    }

    /// The same for a page that the disk's thread holds, so that nobody but the caller puts it together with a part.
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

    /// From now on until this goes nobody stages the first of these pages, nor the last.
    pub(super) fn merge(&self, pages: &Range<u64>) -> Merging<'_> {
        let ends = [pages.start, pages.end.saturating_sub(1)];
        ends.iter().for_each(|page| *self.stripe(*page) += 1);
        Merging { swap: self, ends }
    }

    /// The backing has a page now, newer than whatever was staged of it before; memory follows.
    pub(super) fn wrote_through(&self, page: u64, follow: impl FnOnce()) {
        let _stripe = self.stripe(page);
        self.stage.remove(self.disk, page);
        follow();
    }

    /// Forgets pages of one extent, here and in memory.
    pub(super) fn forget(&self, pages: Range<u64>, follow: impl FnOnce()) {
        let _stripe = self.stripe(pages.start);
        if self.dirty() > 0 {
            pages.for_each(|page| self.stage.remove(self.disk, page));
        }
        follow();
    }

    /// Copies a page, if it is staged. An error is of one that is, and cannot be read.
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
    pub(super) fn some(&self, from: &mut u32, found: &mut Vec<Staged>) {
        self.stage.some(self.disk, from, found);
    }

    /// Whether the backing takes what it is given.
    pub(super) fn note_backing(&self, works: bool) {
        self.failing.store(!works, Ordering::Relaxed);
        self.failures
            .fetch_add(u64::from(!works), Ordering::Relaxed);
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// How often the backing failed to take what is staged.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Whether somebody waits until what is staged has been written.
    pub(super) fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed) > 0
    }

    /// Has everything written soon that is staged now.
    pub(super) fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        self.wake();
        Hurry {
            swap: self,
            until: self.stage.now(),
        }
    }

    /// Waits until there is something to write behind, or until the inbox has ended: who puts a page, and who sees
    /// that end, wakes it.
    pub(super) fn poll_dirty(&self, turn: &Context<'_>, inbox: &Inbox) -> Poll<()> {
        // First the sleeper, then the look: whatever comes in between finds somebody to wake.
        *self.sleeper.lock() = Some(turn.waker().clone());
        match inbox.has_ended() || self.dirty() > 0 {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Wakes who writes behind.
    pub(super) fn wake(&self) {
        let sleeper = self.sleeper.lock().take();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
            self.bell.ring();
        }
    }
}
