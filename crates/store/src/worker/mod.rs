//! The handle by which a thread works on the store: `items` and `pages` are what it does with these, `saves` a tenant's pages in a file.

mod items;
mod pages;
mod saves;

use std::cell::Cell;
use std::sync::Arc;

use sublet_types::Second;

use crate::api::TooManyWorkers;
use crate::arena::PinSlot;
use crate::items::{Items, Moment};
use crate::pages::FoundPages;
use crate::reclaim::Reclaim;
use crate::store::Store;
use crate::thread::Thread;

impl Store {
    /// A handle for one thread.
    pub fn worker(self: &Arc<Self>) -> Result<Worker, TooManyWorkers> {
        let slot = self.arena.epochs().enroll()?;
        Ok(Worker {
            store: Arc::clone(self),
            slot,
            pins: Cell::new(0),
            lent: Cell::new(0),
            luck: Cell::new(0x9e37_79b9_7f4a_7c15),
            found: Cell::new(FoundPages::new()),
        })
    }
}

/// One thread's handle on the store.
pub struct Worker {
    store: Arc<Store>,
    slot: PinSlot,
    /// Pins within pins.
    pins: Cell<u32>,
    /// Items and pages that a caller looks at now: while there are any, the pin must not be renewed.
    lent: Cell<u32>,
    luck: Cell<u64>,
    /// Room that flushing an object needs; nothing is allocated for each.
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

    /// Runs `work` with all blocks held still: many reads in it pay for the pin once.
    /// Must not wait for anything.
    #[inline]
    pub fn pinned<R>(&self, work: impl FnOnce() -> R) -> R {
        let _pin = Pin::new(self);
        work()
    }

    /// The same for as long as the pin lives.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        Pin::new(self)
    }

    pub(crate) fn moment(&self, now: Second) -> Moment {
        Moment {
            now,
            luck: self.luck(),
        }
    }

    /// This thread in search of blocks.
    pub(crate) fn reclaiming(&self, now: Second) -> Reclaim<'_> {
        Reclaim {
            arena: &self.store.arena,
            tenants: &self.store.tenants,
            engines: self.store.engines(),
            thread: self,
            now,
        }
    }

    /// Runs `look`, in which a caller looks at items or pages.
    #[inline]
    pub(crate) fn lending<R>(&self, look: impl FnOnce() -> R) -> R {
        let _lent = Lent::new(self);
        look()
    }

    /// Whether the pin must stay as it is: a caller looks at items or pages, or there is none.
    pub(crate) fn keeps_its_pin(&self) -> bool {
        self.lent.get() > 0 || self.pins.get() == 0
    }

    /// Lets go of what this thread saw so far, so that blocks in limbo can be reused; waits meanwhile, and
    /// lets others come to an end. Not while a caller looks at items: then nothing is waited for.
    pub(crate) fn unpinned(&self, wait: impl FnOnce()) {
        if !self.keeps_its_pin() {
            self.unpin_for(wait);
        }
    }

    fn unpin_for(&self, wait: impl FnOnce()) {
        let epochs = self.store.arena.epochs();
        epochs.unpin(&self.slot);
        wait();
        std::thread::yield_now();
        epochs.pin(&self.slot);
    }
}

impl Thread for Worker {
    fn slot(&self) -> &PinSlot {
        &self.slot
    }

    fn luck(&self) -> u64 {
        let luck = self.luck.get().wrapping_mul(0x5851_f42d_4c95_7f2d);
        let luck = luck.wrapping_add(1);
        self.luck.set(luck);
        luck >> 33
    }

    fn unpinned(&self, wait: &mut dyn FnMut()) -> bool {
        let lets_go = !self.keeps_its_pin();
        if lets_go {
            self.unpin_for(wait);
        }
        lets_go
    }

    fn renew(&self) {
        let arena = &self.store.arena;
        if !self.keeps_its_pin() {
            arena.epochs().unpin(&self.slot);
            arena.settle();
            arena.epochs().pin(&self.slot);
        }
    }
}

/// All blocks held still, for as long as it lives.
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

/// Says that a caller looks at items or pages, for as long as it lives.
struct Lent<'a>(&'a Worker);

impl<'a> Lent<'a> {
    #[inline]
    fn new(worker: &'a Worker) -> Lent<'a> {
        worker.lent.set(worker.lent.get() + 1);
        Lent(worker)
    }
}

impl Drop for Lent<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.lent.set(self.0.lent.get() - 1);
    }
}
