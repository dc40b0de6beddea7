//! The outbox: preallocated pages on their way to lenders. When it is full, it takes no more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::borrowing::{FarFrame, LEASES_MAX, LeaseSlot};

/// One lease may have at most this fraction of the outbox, so that a lender that hangs leaves room for the others.
const LEASE_ONE_IN: u32 = 2;

/// A page in the outbox.
struct OutboxPage {
    frame: FarFrame,
    bytes: Box<[u8]>,
}

/// The pages, and which of them are free.
pub(crate) struct Outbox {
    pages: Box<[Mutex<OutboxPage>]>,
    queues: Mutex<OutboxQueues>,
    /// Pages that wait to be taken, by lease.
    waiting: Box<[AtomicU32]>,
    /// Pages that wait or are on their way, by lease.
    used: Box<[AtomicU32]>,
    /// Pages that are free.
    free: AtomicU32,
}

struct OutboxQueues {
    free: Vec<u16>,
    /// Pages that wait to be taken, by lease, oldest first.
    ready: Box<[VecDeque<u16>]>,
}

impl Outbox {
    /// An outbox of this many pages.
    pub(crate) fn new(pages: u16, page_bytes: usize) -> Outbox {
        let page = |_| {
            Mutex::new(OutboxPage {
                frame: FarFrame(0),
                bytes: vec![0; page_bytes].into(),
            })
        };
        Outbox {
            pages: (0..pages).map(page).collect(),
            queues: Mutex::new(OutboxQueues {
                free: (0..pages).rev().collect(),
                ready: (0..LEASES_MAX).map(|_| VecDeque::new()).collect(),
            }),
            waiting: (0..LEASES_MAX).map(|_| AtomicU32::new(0)).collect(),
            used: (0..LEASES_MAX).map(|_| AtomicU32::new(0)).collect(),
            free: AtomicU32::new(pages.into()),
        }
    }

    /// The most pages that one lease may have in it.
    fn most_of_a_lease(&self) -> u32 {
        (self.pages.len() as u32 / LEASE_ONE_IN).max(1)
    }

    /// Makes room for a lease's queue, so that no eviction allocates.
    pub(crate) fn prepare(&self, lease: LeaseSlot) {
        let most = self.most_of_a_lease() as usize;
        let ready = &mut self.queues.lock().ready[usize::from(lease.0)];
        ready.reserve_exact(most.saturating_sub(ready.len()));
    }

    /// Takes a free page for a lease, if there is one and the lease may have one more.
    pub(super) fn reserve(&self, lease: LeaseSlot) -> Option<u16> {
        let mut queues = self.queues.lock();
        if self.is_full_for(lease) {
            return None;
        }
        let slot = queues.free.pop()?;
        self.free.fetch_sub(1, Ordering::Relaxed);
        self.used[usize::from(lease.0)].fetch_add(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Returns whether it takes no more pages for a lease now. It takes no lock.
    #[inline]
    pub(super) fn is_full_for(&self, lease: LeaseSlot) -> bool {
        self.free.load(Ordering::Relaxed) == 0 || self.used(lease) >= self.most_of_a_lease()
    }

    /// Fills a page that was reserved, and lets it wait for whoever carries pages.
    pub(super) fn fill(&self, slot: u16, lease: LeaseSlot, frame: FarFrame, page: &[u8]) {
        let mut outbound = self.pages[usize::from(slot)].lock();
        outbound.frame = frame;
        outbound.bytes.copy_from_slice(page);
        drop(outbound);
        self.queues.lock().ready[usize::from(lease.0)].push_back(slot);
        self.waiting[usize::from(lease.0)].fetch_add(1, Ordering::Release);
    }

    /// The oldest page that waits for a lease, which is on its way from now on.
    pub(super) fn next(&self, lease: LeaseSlot) -> Option<(u16, FarFrame)> {
        if self.waiting(lease) == 0 {
            return None;
        }
        let slot = self.queues.lock().ready[usize::from(lease.0)].pop_front()?;
        self.waiting[usize::from(lease.0)].fetch_sub(1, Ordering::Relaxed);
        Some((slot, self.pages[usize::from(slot)].lock().frame))
    }

    /// The bytes of a page.
    pub(super) fn read(&self, slot: u16, read: impl FnOnce(&[u8])) {
        read(&self.pages[usize::from(slot)].lock().bytes);
    }

    /// Frees a page.
    pub(super) fn release(&self, slot: u16, lease: LeaseSlot) {
        let mut queues = self.queues.lock();
        queues.free.push(slot);
        self.free.fetch_add(1, Ordering::Relaxed);
        self.used[usize::from(lease.0)].fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of pages that wait to be taken for a lease.
    pub(crate) fn waiting(&self, lease: LeaseSlot) -> u32 {
        self.waiting[usize::from(lease.0)].load(Ordering::Acquire)
    }

    /// The number of pages that wait or are on their way for a lease.
    pub(crate) fn used(&self, lease: LeaseSlot) -> u32 {
        self.used[usize::from(lease.0)].load(Ordering::Relaxed)
    }
}
