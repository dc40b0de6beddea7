//! The handle through which a thread works on the store. `items` and `pages` hold its operations on items and pages.
//! `saves` writes and reads a tenant's pages in a file.

mod far;
mod items;
mod lent;
mod pages;
mod saves;

use std::cell::Cell;
use std::sync::Arc;

use sublet_types::Second;

use crate::api::TooManyWorkers;
use crate::arena::PinSlot;
use crate::items::{Items, Moment};
use crate::pages::FoundPages;
use crate::pinned_thread::PinnedThread;
use crate::reclaim::Reclaim;
use crate::store::Store;

impl Store {
    /// Makes a handle for one thread.
    pub fn worker(self: &Arc<Self>) -> Result<Worker, TooManyWorkers> {
        let slot = self.arena.epochs().enroll()?;
        Ok(Worker {
            store: Arc::clone(self),
            slot,
            pins: Cell::new(0),
            borrows: Cell::new(0),
            random: Cell::new(0x9e37_79b9_7f4a_7c15),
            found: Cell::new(FoundPages::new()),
        })
    }
}

/// One thread's handle on the store.
pub struct Worker {
    store: Arc<Store>,
    slot: PinSlot,
    /// The depth of nested pins.
    pins: Cell<u32>,
    /// Items and pages that a caller looks at now. The pin must not be renewed while there are any.
    borrows: Cell<u32>,
    random: Cell<u64>,
    /// Buffer for flushing an object, reused so that no flush allocates.
    pub(crate) found: Cell<FoundPages>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.store.arena.epochs().dismiss(&self.slot);
    }
}

impl Worker {
    /// The store this worker works on.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn items(&self) -> &Items {
        &self.store.items
    }

    /// Runs `work` with all blocks pinned. Many reads within it pay for the pin once. It must not wait for anything,
    /// except by [`wait_unpinned`](Worker::wait_unpinned).
    #[inline]
    pub fn pinned<R>(&self, work: impl FnOnce() -> R) -> R {
        let _pin = Pin::new(self);
        work()
    }

    /// Pins all blocks for as long as the result lives.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        Pin::new(self)
    }

    /// Waits for something. A pin that the caller holds keeps no block from its next use meanwhile, unless the caller is
    /// looking at one.
    pub fn wait_unpinned(&self, wait: impl FnOnce()) {
        match self.keeps_its_pin() {
            true => wait(),
            false => self.run_without_pin(wait),
        }
    }

    pub(crate) fn moment(&self, now: Second) -> Moment {
        Moment {
            now,
            random: self.next_random(),
        }
    }

    /// This thread as one that looks for blocks.
    pub(crate) fn block_reclaim(&self, now: Second) -> Reclaim<'_> {
        Reclaim {
            arena: &self.store.arena,
            tenants: &self.store.tenants,
            engines: self.store.engines(),
            lent: &self.store.lent,
            thread: self,
            now,
        }
    }

    /// Runs `look`, during which a caller looks at items or pages.
    #[inline]
    pub(crate) fn with_borrow<R>(&self, look: impl FnOnce() -> R) -> R {
        let _lent = BorrowGuard::new(self);
        look()
    }

    /// Returns whether the pin must stay as it is: a caller looks at items or pages, or the thread is not pinned.
    pub(crate) fn keeps_its_pin(&self) -> bool {
        self.borrows.get() > 0 || self.pins.get() == 0
    }

    /// Unpins this thread so that blocks in limbo can be reused, waits, and lets others finish. It does nothing if a
    /// caller is looking at items.
    pub(crate) fn unpinned(&self, wait: impl FnOnce()) {
        if !self.keeps_its_pin() {
            self.run_without_pin(wait);
        }
    }

    fn run_without_pin(&self, wait: impl FnOnce()) {
        let epochs = self.store.arena.epochs();
        epochs.unpin(&self.slot);
        wait();
        std::thread::yield_now();
        epochs.pin(&self.slot);
    }
}

impl PinnedThread for Worker {
    fn pin_slot(&self) -> &PinSlot {
        &self.slot
    }

    fn next_random(&self) -> u64 {
        let random = self.random.get().wrapping_mul(0x5851_f42d_4c95_7f2d);
        let random = random.wrapping_add(1);
        self.random.set(random);
        random >> 33
    }

    fn try_unpinned(&self, wait: &mut dyn FnMut()) -> bool {
        let lets_go = !self.keeps_its_pin();
        if lets_go {
            self.run_without_pin(wait);
        }
        lets_go
    }

    fn renew_pin(&self) {
        let arena = &self.store.arena;
        if !self.keeps_its_pin() {
            arena.epochs().unpin(&self.slot);
            arena.drain_limbo();
            arena.epochs().pin(&self.slot);
        }
    }
}

/// Keeps all blocks pinned for as long as it lives.
pub struct Pin<'a>(&'a Worker);

impl<'a> Pin<'a> {
    #[inline]
    pub(crate) fn new(worker: &'a Worker) -> Pin<'a> {
        if worker.pins.replace(worker.pins.get() + 1) == 0 {
            worker.store.arena.epochs().pin(&worker.slot);
        }
        Pin(worker)
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        let pins = self.0.pins.get() - 1;
        self.0.pins.set(pins);
        if pins == 0 {
            self.0.store.arena.epochs().unpin(&self.0.slot);
        }
    }
}

/// Counts a caller that looks at items or pages, for as long as it lives.
struct BorrowGuard<'a>(&'a Worker);

impl<'a> BorrowGuard<'a> {
    #[inline]
    fn new(worker: &'a Worker) -> BorrowGuard<'a> {
        worker.borrows.set(worker.borrows.get() + 1);
        BorrowGuard(worker)
    }
}

impl Drop for BorrowGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.borrows.set(self.0.borrows.get() - 1);
    }
}
