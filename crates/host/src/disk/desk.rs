//! What memory answers at once, on the thread of whoever asks.

use std::sync::Arc;
use std::time::Instant;

use sublet_frontends::block::{self, Desk, Extent, Request, Shape};
use sublet_frontends::tenancy::{Doorman, Tenancy};
use sublet_types::{Fill, TenantId};

use super::backed::Backed;
use super::cover::Cover;
use super::figures::Tally;
use super::swap::Swap;

/// Bytes that a frontend's thread forgets at once, at the most.
const TRIM_MAX: u64 = 64 << 20;

/// A frontend's thread's handle on a disk.
pub(super) struct DiskDesk {
    disk: Arc<Backed>,
    tenancy: Tenancy,
    tally: Arc<Tally>,
}

impl DiskDesk {
    pub(super) fn new(disk: Arc<Backed>, doorman: &Doorman) -> DiskDesk {
        DiskDesk {
            tenancy: doorman.open(disk.tenant),
            tally: disk.tallies.open(),
            disk,
        }
    }

    /// Whether a get leaves the page: then a read that finds only some of its pages would lose them.
    fn takes_what_it_reads(&self) -> bool {
        self.disk.swap.is_none() && self.disk.fill() == Fill::DropOnRead
    }

    fn has_all(&self, cover: &Cover) -> bool {
        let mut pages = cover.pages.clone();
        pages.all(|page| self.disk.has_page(&self.tenancy, page))
    }

    /// Hears of a read that memory answered: what came for one read only leaves now.
    fn note(&self, cover: &Cover) {
        let position = self.disk.note_read(&self.tenancy, &cover.pages);
        if self.disk.swap.is_none() {
            for page in self.disk.reading.leavers(cover.pages.clone(), position) {
                self.disk.flush_page(&self.tenancy, page);
            }
        }
    }

    fn stage(&self, swap: &Swap, page: u64, bytes: &[u8]) -> bool {
        let follow = || self.disk.put_page(&self.tenancy, page, bytes);
        swap.put(page, bytes, follow)
    }

    /// The swap that may take these bytes without waiting: whole pages of a disk that acknowledges from memory.
    fn swap_for(&self, cover: &Cover) -> Option<&Swap> {
        let swap = self.disk.swap.as_ref()?;
        let may = !self.disk.settings.read_only && swap.takes() && !swap.is_changing();
        (cover.is_exact() && may).then_some(swap)
    }
}

impl Desk for DiskDesk {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let cover = Cover::of(at, into.len());
        if self.takes_what_it_reads() && !self.has_all(&cover) {
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
            self.note(&cover);
        }
        all
    }

    fn write(&self, at: u64, from: &[u8], _lasting: bool) -> bool {
        let cover = Cover::of(at, from.len());
        let Some(swap) = self.swap_for(&cover) else {
            return false;
        };
        let mut pages = cover.pages.clone();
        // A change that begins meanwhile has its turn before what is left.
        let next = |page| !swap.is_changing() && self.stage(swap, page, &from[cover.place(page)]);
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
        let whole = Cover::of(at, len as usize).whole();
        self.disk.forget(&self.tenancy, whole);
        self.tally.trims.add(1);
        true
    }

    fn extent(&self, at: u64, len: u64) -> Option<Extent> {
        match self.disk.swap {
            // What has yet to be written is not in the file.
            Some(_) => Some(Extent { len, hole: false }),
            None => self.disk.holes.at(at, len, Instant::now()),
        }
    }

    fn flush(&self) -> bool {
        let lasts = self.disk.swap.as_ref().is_some_and(Swap::takes);
        self.tally.flushes.add(u64::from(lasts));
        lasts
    }
}

impl block::Disk for Backed {
    fn name(&self) -> &str {
        self.settings.name.as_str()
    }

    fn tenant(&self) -> TenantId {
        self.tenant
    }

    fn shape(&self) -> Shape {
        self.shape_now()
    }

    fn desk(self: Arc<Self>, doorman: &Doorman) -> Box<dyn Desk> {
        Box::new(DiskDesk::new(self, doorman))
    }

    fn start(&self, request: Request) {
        let changed = self.swap.as_ref().filter(|_| request.verb.changes());
        changed.iter().for_each(|swap| swap.begin_change());
        let changes = request.verb.changes();
        if changes {
            self.holes.begin_change();
        }
        if !self.inbox.ask(request) {
            if changes {
                self.holes.end_change();
            }
            changed.iter().for_each(|swap| swap.end_change());
        }
    }
}
