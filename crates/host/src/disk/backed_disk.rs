//! A disk: memory in front, a backing behind, and what all its threads share.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sublet_frontends::block_device::DiskShape;
use sublet_frontends::tenancy::Tenancy;
use sublet_types::{Bytes, DiskSettings, FillPolicy, PoolId, SlowBacking, TenantId};

use super::backing::Backing;
use super::disk_events::DiskEvents;
use super::disk_figures::DiskTallies;
use super::disk_problems::DiskProblems;
use super::disk_queue::DiskQueue;
use super::event_fd::EventFd;
use super::hole_map::HoleMap;
use super::page_span::{OBJECT_PAGES, PAGE, PageSpan, by_object, key};
use super::read_tracker::ReadTracker;
use super::swap::Swap;
use crate::observe::FailureReporter;
use crate::observe::events::{EventAmount, EventId, EventReason};

/// What the threads of a disk share.
pub(super) struct BackedDisk {
    pub(super) settings: DiskSettings,
    pub(super) tenant: TenantId,
    pub(super) pool: PoolId,
    pub(super) backing: Backing,
    pub(super) wakeup: Arc<EventFd>,
    pub(super) queue: DiskQueue,
    pub(super) slow: Option<SlowBacking>,
    pub(super) swap: Option<Swap>,
    pub(super) reading: ReadTracker,
    pub(super) holes: HoleMap,
    pub(super) tallies: DiskTallies,
    pub(super) bytes: AtomicU64,
    /// One reporter per kind of backing operation.
    pub(super) failures: [FailureReporter; 3],
    pub(super) events: DiskEvents,
    /// Why the backing does not have the blocks for all pages, if it does not.
    pub(super) short_of: Option<String>,
    /// Bytes at the backing's end that are no whole sector and no part of the disk.
    pub(super) rest: AtomicU64,
    /// Problems of the disk beside its backing's operations.
    pub(super) problems: Arc<DiskProblems>,
}

/// What a disk does with its backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackingOperation {
    Read,
    Write,
    Sync,
}

impl BackingOperation {
    fn name(self) -> &'static str {
        match self {
            BackingOperation::Read => "read",
            BackingOperation::Write => "write",
            BackingOperation::Sync => "sync",
        }
    }

    /// The event's reason if the backing does not do this operation.
    fn why(self) -> EventReason {
        match self {
            BackingOperation::Read => EventReason::Read,
            BackingOperation::Write => EventReason::Write,
            BackingOperation::Sync => EventReason::Sync,
        }
    }
}

impl BackedDisk {
    pub(super) fn shape_now(&self) -> DiskShape {
        DiskShape {
            bytes: self.bytes.load(Ordering::Relaxed),
            read_only: self.settings.read_only,
            trims: true,
        }
    }

    /// Records which pages are read, and asks to read ahead those that will follow. Returns how far into its run the
    /// read begins. `tenancy` is the caller's own.
    pub(super) fn record_read(&self, tenancy: &Tenancy, pages: &Range<u64>) -> u64 {
        // A guest reads ahead in its swap by itself.
        if self.swap.is_some() {
            return 0;
        }
        let (position, ahead) = self.reading.record_read(pages);
        if let Some(ahead) = ahead
            && !self.is_probably_resident(tenancy, &ahead.pages)
        {
            self.queue.push_read_ahead(ahead);
        }
        position
    }

    /// Returns whether a window is in memory, judged by its ends. Windows come and go together, and waking the disk's
    /// thread costs more than a read of one from memory.
    fn is_probably_resident(&self, tenancy: &Tenancy, window: &Range<u64>) -> bool {
        self.has_page_here(tenancy, window.start) && self.has_page_here(tenancy, window.end - 1)
    }

    /// Returns whether a page is in memory of this host.
    pub(super) fn has_page_here(&self, tenancy: &Tenancy, page: u64) -> bool {
        let (worker, tenant, now) = tenancy.worker_tenant_now();
        worker.has_page_here(tenant, key(self.pool, page), now)
    }

    /// Returns whether a page is in memory, here or at a lender.
    pub(super) fn has_page(&self, tenancy: &Tenancy, page: u64) -> bool {
        let (worker, tenant, now) = tenancy.worker_tenant_now();
        worker.has_page(tenant, key(self.pool, page), now)
    }

    /// Puts a page into memory, if it may be there.
    pub(super) fn put_page(&self, tenancy: &Tenancy, page: u64, bytes: &[u8]) {
        let (worker, tenant, now) = tenancy.worker_tenant_now();
        let key = key(self.pool, page);
        worker.put_page(tenant, key, now, |frame| frame.write(bytes));
    }

    /// Takes a page out of memory.
    pub(super) fn flush_page(&self, tenancy: &Tenancy, page: u64) {
        let (worker, tenant, now) = tenancy.worker_tenant_now();
        worker.flush_page(tenant, key(self.pool, page), now);
    }

    pub(super) fn size(&self) -> Bytes {
        Bytes(self.bytes.load(Ordering::Relaxed))
    }

    /// Returns whether the disk's backing takes no writes.
    pub(super) fn is_failing(&self) -> bool {
        self.swap.as_ref().is_some_and(Swap::is_failing)
    }

    pub(super) fn fill(&self) -> FillPolicy {
        self.settings.fill.unwrap_or_default()
    }

    /// Copies pages to their places in the span, from `page` on. Stops at the first page that is neither in memory nor
    /// staged, or that cannot be read there, and returns it.
    pub(super) fn copy(
        &self,
        tenancy: &Tenancy,
        cover: &PageSpan,
        mut page: u64,
        into: &mut [u8],
    ) -> u64 {
        for piece in by_object(page..cover.pages.end) {
            while page < piece.end {
                let from = page;
                let count = (piece.end - from) as u32;
                let (worker, tenant, now) = tenancy.worker_tenant_now();
                let first = key(self.pool, from);
                let got = worker.get_run(tenant, first, count, now, |n, bytes| {
                    let (in_page, in_range) = cover.piece(from + u64::from(n));
                    into[in_range].copy_from_slice(&bytes[in_page]);
                });
                page += u64::from(got);
                if page < piece.end {
                    if !self.copy_staged(cover, page, into) {
                        return page;
                    }
                    page += 1;
                }
            }
        }
        page
    }

    /// Copies a staged page. Parts of a page are left to the disk's thread.
    fn copy_staged(&self, cover: &PageSpan, page: u64, into: &mut [u8]) -> bool {
        let (in_page, in_range) = cover.piece(page);
        let swap = self.swap.as_ref();
        in_page.len() == PAGE
            && swap.is_some_and(|swap| matches!(swap.staged(page, &mut into[in_range]), Ok(true)))
    }

    /// Drops pages, wherever memory has them.
    pub(super) fn forget(&self, tenancy: &Tenancy, pages: Range<u64>) {
        for piece in by_object(pages) {
            let flush = || self.flush_pages(tenancy, piece.clone());
            match &self.swap {
                Some(swap) => swap.forget(piece.clone(), flush),
                None => flush(),
            }
        }
    }

    /// Flushes pages of one object.
    fn flush_pages(&self, tenancy: &Tenancy, pages: Range<u64>) {
        let first = key(self.pool, pages.start);
        if pages.end - pages.start == OBJECT_PAGES {
            let (worker, tenant, now) = tenancy.worker_tenant_now();
            worker.flush_object(tenant, self.pool, first.object, now);
            return;
        }
        for page in pages {
            self.flush_page(tenancy, page);
        }
    }

    /// Reports that the backing failed, but not each time.
    pub(super) fn report_failure(&self, operation: BackingOperation, error: &io::Error) {
        let ailment = &self.failures[operation as usize];
        let Some(times) = ailment.record_failure(&error.to_string(), Instant::now()) else {
            return;
        };
        let consequence = match (self.swap.is_some(), operation) {
            (true, BackingOperation::Write) => {
                "; its pages stay in memory, and nothing more is acknowledged that it does not have"
            }
            _ => "",
        };
        let (backing, does) = (self.backing.path().display(), operation.name());
        self.events
            .post(EventId::DiskAiling, operation.why(), |ails| {
                let says =
                    format_args!("the backing {backing} failed to {does}: {error}{consequence}");
                ails.of(EventAmount::Failures(times)).saying(says)
            });
    }

    /// Reports that the backing does the operation again, if it did not before.
    pub(super) fn report_recovery(&self, operation: BackingOperation) {
        let Some(failures) = self.failures[operation as usize].record_success(Instant::now())
        else {
            return;
        };
        self.events
            .post(EventId::DiskRecovered, operation.why(), |well| {
                let says = format_args!("the backing does {} again", operation.name());
                well.of(EventAmount::Failures(failures)).saying(says)
            });
    }

    /// Why the disk's backing takes no writes, if it takes none.
    pub(super) fn write_failure(&self) -> Option<String> {
        let cause = self.failures[BackingOperation::Write as usize].cause();
        self.is_failing().then(|| cause.unwrap_or_default())
    }
}
