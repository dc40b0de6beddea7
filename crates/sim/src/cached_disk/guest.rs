//! A guest's own page cache, and what the disk below it hears of.

use sublet_types::Pages;

use crate::chance::mixed;
use crate::machine::recency::Recency;
use crate::traces::{Access, EXTENT_PAGES, Op, Space};

/// What happens below a guest's page cache. Pages are counted from the device's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// One I/O: neighbours that the guest has not.
    Read {
        /// The first page.
        first: u64,
        /// How many.
        pages: u32,
    },
    /// One I/O: neighbours that were written.
    Write {
        /// The first page.
        first: u64,
        /// How many.
        pages: u32,
    },
    /// The guest forgot a page. No disk hears of it; the bound does.
    Evict {
        /// Which.
        page: u64,
    },
}

/// Pages that a miss brings in where one request asked for them.
const READ_AHEAD: u32 = 8;

/// Bits of a page's number in an object that has no place on a device.
const OBJECT_BITS: u32 = 20;

/// A guest whose memory holds the pages that it used last.
pub(super) struct PageCache {
    memory: Recency<u64, ()>,
    most: usize,
    events: Vec<Event>,
}

/// A guest of 64 pages at least, as `compare` has it.
const GUEST_MIN: usize = 64;

/// Where a request begins on the device. Objects that lie on none lie far apart on a made one.
pub(super) fn first_of(access: &Access) -> u64 {
    let index = u64::from(access.page.index);
    match access.space {
        Space::Device => access.page.object.wrapping_mul(EXTENT_PAGES) + index,
        Space::Objects => (mixed(access.page.object) >> OBJECT_BITS << OBJECT_BITS) | index,
    }
}

/// A request's parts in each extent: the store's objects, and the pieces in which `replay` does it.
fn in_extents(first: u64, pages: u64) -> impl Iterator<Item = (u64, u32)> {
    let end = first.saturating_add(pages);
    let mut next = first;
    std::iter::from_fn(move || {
        let part = next..end.min((next / EXTENT_PAGES + 1).saturating_mul(EXTENT_PAGES));
        next = part.end;
        (part.start < part.end).then(|| (part.start, (part.end - part.start) as u32))
    })
}

impl PageCache {
    /// Of a guest of so much memory, empty.
    pub(super) fn of(memory: Pages) -> PageCache {
        PageCache {
            memory: Recency::default(),
            most: (memory.0 as usize).max(GUEST_MIN),
            events: Vec::new(),
        }
    }

    /// What the disk hears of while the guest does this request.
    pub(super) fn request(&mut self, access: &Access) -> impl Iterator<Item = Event> {
        let (first, pages) = (first_of(access), u64::from(access.count));
        for (first, pages) in in_extents(first, pages) {
            match access.op {
                Op::Read => self.read(first, pages),
                Op::Write => self.write(first, pages),
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

    /// Reads what is missing of a window, an I/O for each run of it.
    fn bring_in(&mut self, first: u64, end: u64) {
        let missing: Vec<u64> = (first..end)
            .filter(|page| !self.memory.contains(page))
            .collect();
        for run in missing.chunk_by(|page, next| page + 1 == *next) {
            self.events.push(Event::Read {
                first: run[0],
                pages: run.len() as u32,
            });
        }
        // The one that was asked for comes last, so that it is the hottest.
        missing.iter().rev().for_each(|page| self.enter(*page));
    }

    /// Writes reach the disk soon, and leave the guest's pages clean.
    fn write(&mut self, first: u64, pages: u32) {
        self.events.push(Event::Write { first, pages });
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
            self.events.push(Event::Evict { page });
        }
        self.memory.insert(page, ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::TracePage;
    use crate::virtual_time::Moment;

    fn access(page: u64, count: u32, op: Op) -> Access {
        Access {
            at: Moment::START,
            page: TracePage::of_device(page),
            space: Space::Device,
            count,
            op,
        }
    }

    fn events(accesses: &[Access], memory: Pages) -> Vec<Event> {
        let mut guest = PageCache::of(memory);
        let heard = accesses.iter();
        heard
            .flat_map(|access| guest.request(access).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn a_disk_hears_of_what_the_guest_has_not() {
        let accesses = [
            access(506, 8, Op::Read),
            access(500, 12, Op::Read),
            access(508, 1, Op::Read),
            access(600, 2, Op::Write),
        ];
        let read = |first, pages| Event::Read { first, pages };
        let heard = [
            read(506, 6),
            read(512, 2),
            read(500, 6),
            Event::Write {
                first: 600,
                pages: 2,
            },
        ];
        assert_eq!(events(&accesses, Pages(64)), heard);
    }

    #[test]
    fn what_was_used_least_recently_is_forgotten() {
        let accesses: Vec<Access> = (0..65).map(|page| access(page, 1, Op::Read)).collect();
        let heard = events(&accesses, Pages(0));
        assert_eq!(heard[65], Event::Evict { page: 0 });
        assert_eq!(heard.len(), 66);
    }
}
