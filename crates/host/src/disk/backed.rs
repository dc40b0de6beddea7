//! A disk: memory in front, a backing behind, and what all its threads share.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sublet_frontends::block::Shape;
use sublet_frontends::tenancy::Tenancy;
use sublet_types::{Bytes, DiskSettings, Fill, PoolId, Slow, TenantId};

use super::backing::Backing;
use super::bell::Bell;
use super::cover::{Cover, OBJECT_PAGES, PAGE, by_object, key};
use super::disk_events::DiskEvents;
use super::figures::Tallies;
use super::holes::Holes;
use super::inbox::Inbox;
use super::plight::Plight;
use super::reading::Reading;
use super::swap::Swap;
use crate::observe::Ailment;
use crate::observe::events::{Amount, EventId, Why};

/// What the threads of a disk share.
pub(super) struct Backed {
    pub(super) settings: DiskSettings,
    pub(super) tenant: TenantId,
    pub(super) pool: PoolId,
    pub(super) backing: Backing,
    pub(super) bell: Arc<Bell>,
    pub(super) inbox: Inbox,
    pub(super) slow: Option<Slow>,
    pub(super) swap: Option<Swap>,
    pub(super) reading: Reading,
    pub(super) holes: Holes,
    pub(super) tallies: Tallies,
    pub(super) bytes: AtomicU64,
    /// By what it does with its backing.
    pub(super) ailments: [Ailment; 3],
    pub(super) events: DiskEvents,
    /// Why the backing has not the blocks for all pages, if it has not.
    pub(super) short_of: Option<String>,
    /// Bytes at the backing's end that are no whole sector, and no part of the disk.
    pub(super) rest: AtomicU64,
    /// What is wrong around it.
    pub(super) plight: Arc<Plight>,
}

/// What a disk does with its backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    Read,
    Write,
    Sync,
}

impl Errand {
    fn name(self) -> &'static str {
        match self {
            Errand::Read => "read",
            Errand::Write => "write",
            Errand::Sync => "sync",
        }
    }

    /// Why a disk ails whose backing does not do it.
    fn why(self) -> Why {
        match self {
            Errand::Read => Why::Read,
            Errand::Write => Why::Write,
            Errand::Sync => Why::Sync,
        }
    }
}

impl Backed {
    pub(super) fn shape_now(&self) -> Shape {
        Shape {
            bytes: self.bytes.load(Ordering::Relaxed),
            read_only: self.settings.read_only,
            trims: true,
        }
    }

    /// Hears which pages are read, and has those read ahead that will follow. Says how far into its run the read
    /// begins. `tenancy` is the caller's own.
    pub(super) fn note_read(&self, tenancy: &Tenancy, pages: &Range<u64>) -> u64 {
        // A guest reads ahead in its swap by itself.
        if self.swap.is_some() {
            return 0;
        }
        let (position, ahead) = self.reading.note(pages);
        if let Some(ahead) = ahead
            && !self.seems_there(tenancy, &ahead.pages)
        {
            self.inbox.read_ahead(ahead);
        }
        position
    }

    /// Whether a window is in memory, as far as its ends tell: windows come and go together, and waking the disk's
    /// thread costs more than reading one from memory.
    fn seems_there(&self, tenancy: &Tenancy, window: &Range<u64>) -> bool {
        self.has_page(tenancy, window.start) && self.has_page(tenancy, window.end - 1)
    }

    /// Whether a page is in memory.
    pub(super) fn has_page(&self, tenancy: &Tenancy, page: u64) -> bool {
        let (worker, tenant, now) = tenancy.acting();
        worker.has_page(tenant, key(self.pool, page), now)
    }

    /// Puts a page into memory, if it may be there.
    pub(super) fn put_page(&self, tenancy: &Tenancy, page: u64, bytes: &[u8]) {
        let (worker, tenant, now) = tenancy.acting();
        let key = key(self.pool, page);
        worker.put_page(tenant, key, now, |frame| frame.write(bytes));
    }

    /// Takes a page out of memory.
    pub(super) fn flush_page(&self, tenancy: &Tenancy, page: u64) {
        let (worker, tenant, now) = tenancy.acting();
        worker.flush_page(tenant, key(self.pool, page), now);
    }

    pub(super) fn size(&self) -> Bytes {
        Bytes(self.bytes.load(Ordering::Relaxed))
    }

    /// Whether its backing takes no writes.
    pub(super) fn ails(&self) -> bool {
        self.swap.as_ref().is_some_and(Swap::is_failing)
    }

    pub(super) fn fill(&self) -> Fill {
        self.settings.fill.unwrap_or_default()
    }

    /// Copies pages to their places in the cover, from `page` on, up to the first that is neither in memory nor staged,
    /// or cannot be read there. Says which that is.
    pub(super) fn copy(
        &self,
        tenancy: &Tenancy,
        cover: &Cover,
        mut page: u64,
        into: &mut [u8],
    ) -> u64 {
        for piece in by_object(page..cover.pages.end) {
            while page < piece.end {
                let from = page;
                let count = (piece.end - from) as u32;
                let (worker, tenant, now) = tenancy.acting();
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

    /// Copies a page that is staged; parts of one are left to the disk's thread.
    fn copy_staged(&self, cover: &Cover, page: u64, into: &mut [u8]) -> bool {
        let (in_page, in_range) = cover.piece(page);
        let swap = self.swap.as_ref();
        in_page.len() == PAGE
            && swap.is_some_and(|swap| matches!(swap.staged(page, &mut into[in_range]), Ok(true)))
    }

    /// Forgets pages, wherever memory has them.
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
            let (worker, tenant, now) = tenancy.acting();
            worker.flush_object(tenant, self.pool, first.object, now);
            return;
        }
        for page in pages {
            self.flush_page(tenancy, page);
        }
    }

    /// Tells that the backing failed, but not each time.
    pub(super) fn tell(&self, errand: Errand, error: &io::Error) {
        let ailment = &self.ailments[errand as usize];
        let Some(times) = ailment.fails(&error.to_string(), Instant::now()) else {
            return;
        };
        let consequence = match (self.swap.is_some(), errand) {
            (true, Errand::Write) => {
                "; its pages stay in memory, and nothing more is acknowledged that it does not have"
            }
            _ => "",
        };
        let (backing, does) = (self.backing.path().display(), errand.name());
        self.events.post(EventId::DiskAiling, errand.why(), |ails| {
            let says = format_args!("the backing {backing} failed to {does}: {error}{consequence}");
            ails.of(Amount::Failures(times)).saying(says)
        });
    }

    /// Tells that the backing does it again, where it did not.
    pub(super) fn tell_works(&self, errand: Errand) {
        let Some(failures) = self.ailments[errand as usize].works(Instant::now()) else {
            return;
        };
        self.events
            .post(EventId::DiskRecovered, errand.why(), |well| {
                let says = format_args!("the backing does {} again", errand.name());
                well.of(Amount::Failures(failures)).saying(says)
            });
    }

    /// Why its backing takes no writes, if it takes none.
    pub(super) fn ails_of(&self) -> Option<String> {
        let cause = self.ailments[Errand::Write as usize].cause();
        self.ails().then(|| cause.unwrap_or_default())
    }
}
