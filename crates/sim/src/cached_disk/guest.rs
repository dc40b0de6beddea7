//! A guest's own page cache, and the requests that it sends to the disk below.

use sublet_types::Pages;

use crate::machine::lru_map::LruMap;
use crate::rng::mixed;
use crate::traces::{AddressSpace, EXTENT_PAGES, PageOp, TraceRequest};

/// What happens below a guest's page cache. Pages are counted from the first one of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestDiskEvent {
    /// One I/O: the guest reads neighbouring pages that it does not have.
    Read {
        /// The first page.
        first: u64,
        /// How many.
        pages: u32,
    },
    /// One I/O: the guest writes neighbouring pages.
    Write {
        /// The first page.
        first: u64,
        /// How many.
        pages: u32,
    },
    /// The guest evicted a page. No disk learns of it, but the bound does.
    Evict {
        /// Which.
        page: u64,
    },
}

/// A miss brings in this many pages if one request asked for them.
const READ_AHEAD: u32 = 8;

/// Bits of a page's number in an object that has no place on a device.
const OBJECT_BITS: u32 = 20;

/// A guest whose memory holds the pages that it used last.
pub(super) struct GuestPageCache {
    memory: LruMap<u64, ()>,
    most: usize,
    events: Vec<GuestDiskEvent>,
}

/// A guest has at least 64 pages, as in `compare`.
const GUEST_MIN: usize = 64;

/// The page of the device where a request begins. Objects that lie on no device get places far apart on an invented
/// one.
pub(super) fn first_of(access: &TraceRequest) -> u64 {
    let index = u64::from(access.page.index);
    match access.space {
        AddressSpace::Device => access.page.object.wrapping_mul(EXTENT_PAGES) + index,
        AddressSpace::Objects => (mixed(access.page.object) >> OBJECT_BITS << OBJECT_BITS) | index,
    }
}

/// A request's parts, one per extent. Extents are the store's objects, and `replay` does requests in the same pieces.
fn in_extents(first: u64, pages: u64) -> impl Iterator<Item = (u64, u32)> {
    let end = first.saturating_add(pages);
    let mut next = first;
    std::iter::from_fn(move || {
        let part = next..end.min((next / EXTENT_PAGES + 1).saturating_mul(EXTENT_PAGES));
        next = part.end;
        (part.start < part.end).then(|| (part.start, (part.end - part.start) as u32))
    })
}

impl GuestPageCache {
    /// An empty cache of this much memory.
    pub(super) fn of(memory: Pages) -> GuestPageCache {
        GuestPageCache {
            memory: LruMap::default(),
            most: (memory.0 as usize).max(GUEST_MIN),
            events: Vec::new(),
        }
    }

    /// Does a request. Returns what the disk sees of it.
    pub(super) fn request(
        &mut self,
        access: &TraceRequest,
    ) -> impl Iterator<Item = GuestDiskEvent> {
        let (first, pages) = (first_of(access), u64::from(access.count));
        for (first, pages) in in_extents(first, pages) {
            match access.op {
                PageOp::Read => self.read(first, pages),
                PageOp::Write => self.write(first, pages),
            }
        }
        self.events.drain(..)
    }

    fn read(&mut self, first: u64, pages: u32) {
        let end = first + u64::from(pages);
        for page in first..end {
            if self.memory.touch(&page).is_none() {
                self.bring_in(page, end.min(page + u64::from(READ_AHEAD)));
            }
        }
    }

    /// Reads what is missing of a window, with one I/O per run of missing pages.
    fn bring_in(&mut self, first: u64, end: u64) {
        let missing: Vec<u64> = (first..end)
            .filter(|page| !self.memory.contains(page))
            .collect();
        for run in missing.chunk_by(|page, next| page + 1 == *next) {
            self.events.push(GuestDiskEvent::Read {
                first: run[0],
                pages: run.len() as u32,
            });
        }
        // The requested page comes last, so that it is the hottest.
        missing.iter().rev().for_each(|page| self.enter(*page));
    }

    /// Writes reach the disk soon, and leave the guest's pages clean.
    fn write(&mut self, first: u64, pages: u32) {
        self.events.push(GuestDiskEvent::Write { first, pages });
        for page in first..first + u64::from(pages) {
            if self.memory.touch(&page).is_none() {
                self.enter(page);
            }
        }
    }

    fn enter(&mut self, page: u64) {
        while self.memory.len() >= self.most {
            let Some((page, ())) = self.memory.pop_coldest() else {
                break;
            };
            self.events.push(GuestDiskEvent::Evict { page });
        }
        self.memory.insert(page, ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::TracePage;
    use crate::virtual_time::VirtualInstant;

    fn access(page: u64, count: u32, op: PageOp) -> TraceRequest {
        TraceRequest {
            at: VirtualInstant::START,
            page: TracePage::of_device(page),
            space: AddressSpace::Device,
            count,
            op,
        }
    }

    fn events(accesses: &[TraceRequest], memory: Pages) -> Vec<GuestDiskEvent> {
        let mut guest = GuestPageCache::of(memory);
        let seen = accesses.iter();
        seen.flat_map(|access| guest.request(access).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn a_disk_hears_of_what_the_guest_has_not() {
        let accesses = [
            access(506, 8, PageOp::Read),
            access(500, 12, PageOp::Read),
            access(508, 1, PageOp::Read),
            access(600, 2, PageOp::Write),
        ];
        let read = |first, pages| GuestDiskEvent::Read { first, pages };
        let seen = [
            read(506, 6),
            read(512, 2),
            read(500, 6),
            GuestDiskEvent::Write {
                first: 600,
                pages: 2,
            },
        ];
        assert_eq!(events(&accesses, Pages(64)), seen);
    }

    #[test]
    fn what_was_used_least_recently_is_forgotten() {
        let accesses: Vec<TraceRequest> =
            (0..65).map(|page| access(page, 1, PageOp::Read)).collect();
        let seen = events(&accesses, Pages(0));
        assert_eq!(seen[65], GuestDiskEvent::Evict { page: 0 });
        assert_eq!(seen.len(), 66);
    }
}
