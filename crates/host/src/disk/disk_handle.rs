//! What memory answers at once, on the thread of the frontend that asks.

use std::sync::Arc;
use std::time::Instant;

use sublet_frontends::block_device::{self, DiskFastPath, DiskRequest, DiskShape, Extent, Fua};
use sublet_frontends::tenancy::{StoreHandle, Tenancy};
use sublet_types::{FillPolicy, TenantId};

use super::backed_disk::BackedDisk;
use super::disk_figures::DiskTally;
use super::page_span::PageSpan;
use super::swap::Swap;

/// The most bytes that a frontend's thread trims at once.
const TRIM_MAX: u64 = 64 << 20;

/// A frontend's thread's handle on a disk.
pub(super) struct DiskHandle {
    disk: Arc<BackedDisk>,
    tenancy: Tenancy,
    tally: Arc<DiskTally>,
}

impl DiskHandle {
    pub(super) fn new(disk: Arc<BackedDisk>, store_handle: &StoreHandle) -> DiskHandle {
        DiskHandle {
            tenancy: store_handle.open(disk.tenant),
            tally: disk.tallies.open(),
            disk,
        }
    }

    /// Returns whether a get removes the page. Then a read that finds only some of its pages would lose them.
    fn drops_on_read(&self) -> bool {
        self.disk.swap.is_none() && self.disk.fill() == FillPolicy::DropOnRead
    }

    fn has_all(&self, cover: &PageSpan) -> bool {
        let mut pages = cover.pages.clone();
        pages.all(|page| self.disk.has_page_here(&self.tenancy, page))
    }

    /// Records a read that memory answered. Pages that came for one read only leave now.
    fn record_hit(&self, cover: &PageSpan) {
        let position = self.disk.record_read(&self.tenancy, &cover.pages);
        if self.disk.swap.is_none() {
            for page in self
                .disk
                .reading
                .pages_to_drop(cover.pages.clone(), position)
            {
                self.disk.flush_page(&self.tenancy, page);
            }
        }
    }

    fn stage(&self, swap: &Swap, page: u64, bytes: &[u8]) -> bool {
        let follow = || self.disk.put_page(&self.tenancy, page, bytes);
        swap.put(page, bytes, follow)
    }

    /// The swap that may take these bytes without waiting: whole pages of a disk that acknowledges from memory.
    fn swap_for(&self, cover: &PageSpan) -> Option<&Swap> {
        let swap = self.disk.swap.as_ref()?;
        let may = !self.disk.settings.read_only && swap.acknowledges_early() && !swap.is_changing();
        (cover.is_exact() && may).then_some(swap)
    }
}

impl DiskFastPath for DiskHandle {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let cover = PageSpan::of(at, into.len());
        if self.drops_on_read() && !self.has_all(&cover) {
            return false;
        }
        let batch = self.tenancy.batch();
        let end = self
            .disk
            .copy(&self.tenancy, &cover, cover.pages.start, into);
        drop(batch);
        let all = end == cover.pages.end;
        if all {
            self.tally.reads.add(1);
            self.tally.read_bytes.add(into.len() as u64);
            self.tally.hits.add(cover.count());
            self.record_hit(&cover);
        }
        all
    }

    fn write(&self, at: u64, from: &[u8], _fua: Fua) -> bool {
        let cover = PageSpan::of(at, from.len());
        let Some(swap) = self.swap_for(&cover) else {
            return false;
        };
        let mut pages = cover.pages.clone();
        // A change that begins meanwhile has its turn before what is left.
        let next =
            |page| !swap.is_changing() && self.stage(swap, page, &from[cover.page_bytes(page)]);
        let all = pages.all(next);
        if all {
            self.tally.writes.add(1);
            self.tally.written_bytes.add(from.len() as u64);
        }
        all
    }

    fn trim(&self, at: u64, len: u64) -> bool {
        if self.disk.swap.is_none() || self.disk.settings.read_only || len > TRIM_MAX {
            return false;
        }
        let whole = PageSpan::of(at, len as usize).whole();
        self.disk.forget(&self.tenancy, whole);
        self.tally.trims.add(1);
        true
    }

    fn extent(&self, at: u64, len: u64) -> Option<Extent> {
        match self.disk.swap {
            // What has yet to be written is not in the file.
            Some(_) => Some(Extent { len, hole: false }),
            None => self.disk.holes.lookup(at, len, Instant::now()),
        }
    }

    fn flush(&self) -> bool {
        let lasts = self
            .disk
            .swap
            .as_ref()
            .is_some_and(Swap::acknowledges_early);
        self.tally.flushes.add(u64::from(lasts));
        lasts
    }
}

impl block_device::Disk for BackedDisk {
    fn name(&self) -> &str {
        self.settings.name.as_str()
    }

    fn tenant(&self) -> TenantId {
        self.tenant
    }

    fn shape(&self) -> DiskShape {
        self.shape_now()
    }

    fn fast_path(self: Arc<Self>, store_handle: &StoreHandle) -> Box<dyn DiskFastPath> {
        Box::new(DiskHandle::new(self, store_handle))
    }

    fn submit(&self, request: DiskRequest) {
        let changed = self.swap.as_ref().filter(|_| request.operation.changes());
        changed.iter().for_each(|swap| swap.begin_change());
        let changes = request.operation.changes();
        if changes {
            self.holes.begin_change();
        }
        if !self.queue.push(request) {
            if changes {
                self.holes.end_change();
            }
            changed.iter().for_each(|swap| swap.end_change());
        }
    }
}
