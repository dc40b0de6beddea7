//! The guest's page cache: the least recently used page leaves first. It knows which pages are dirty, and since when.

use std::collections::VecDeque;
use std::ops::Range;

use crate::machine::lru_map::LruMap;
use crate::virtual_time::VirtualInstant;

/// How the guest came by a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadPattern {
    /// In no order that is known.
    Random,
    /// As part of a long run.
    Sequential,
}

/// Whether the disk has a page as it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageContent {
    Clean,
    Dirty,
}

#[derive(Clone, Copy, Debug)]
struct CachedPage {
    content: PageContent,
    pattern: ReadPattern,
    ready_at: VirtualInstant,
}

/// A page that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeavingPage {
    /// The disk has it.
    Clean(u64, ReadPattern),
    /// It must be written first.
    Dirty(u64),
}

/// Pages of one write of the disk.
const WRITTEN_MAX: u64 = 32;

/// The pages in the guest's memory.
#[derive(Default)]
pub(super) struct PageCache {
    pages: LruMap<u64, CachedPage>,
    most: usize,
    dirty: usize,
    /// Pages that became dirty, oldest first. Some are clean or gone by now.
    dirtied: VecDeque<u64>,
}

impl PageCache {
    /// An empty cache of this many pages.
    pub(super) fn of(pages: u64) -> PageCache {
        PageCache {
            most: pages as usize,
            ..PageCache::default()
        }
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.pages.contains(&page)
    }

    /// Uses a page, if it is there. Returns when it can be read.
    pub(super) fn touch(&mut self, page: u64, pattern: ReadPattern) -> Option<VirtualInstant> {
        let cached = self.pages.touch(&page)?;
        if pattern == ReadPattern::Random {
            cached.pattern = pattern;
        }
        Some(cached.ready_at)
    }

    /// Enters a page that was read.
    pub(super) fn insert(&mut self, page: u64, pattern: ReadPattern, ready_at: VirtualInstant) {
        let content = PageContent::Clean;
        let cached = CachedPage {
            content,
            pattern,
            ready_at,
        };
        self.pages.insert(page, cached);
    }

    /// Marks a page dirty. If it is not there, it is entered.
    pub(super) fn write(&mut self, page: u64) {
        let cached = CachedPage {
            content: PageContent::Dirty,
            pattern: ReadPattern::Random,
            ready_at: VirtualInstant::START,
        };
        let before = self.pages.insert(page, cached);
        if before.is_none_or(|before| before.content == PageContent::Clean) {
            self.dirty += 1;
            self.dirtied.push_back(page);
        }
    }

    /// Forgets a page, even if it is dirty.
    pub(super) fn remove(&mut self, page: u64) {
        if let Some(cached) = self.pages.remove(&page)
            && cached.content == PageContent::Dirty
        {
            self.dirty -= 1;
        }
    }

    /// Removes the coldest page if there is no room for one more.
    pub(super) fn pop_surplus(&mut self) -> Option<LeavingPage> {
        if self.pages.len() < self.most {
            return None;
        }
        let (page, cached) = self.pages.pop_coldest()?;
        Some(match cached.content {
            PageContent::Clean => LeavingPage::Clean(page, cached.pattern),
            PageContent::Dirty => {
                self.dirty -= 1;
                LeavingPage::Dirty(page)
            }
        })
    }

    /// The share of memory that is dirty.
    pub(super) fn dirty_share(&self) -> f64 {
        self.dirty as f64 / self.most.max(1) as f64
    }

    /// The dirty pages that are written next: the one that has been dirty longest, and its dirty neighbours. They are
    /// clean from now on.
    pub(super) fn take_dirty(&mut self) -> Option<Range<u64>> {
        while let Some(oldest) = self.dirtied.pop_front() {
            if self.is_dirty(oldest) {
                let mut run = oldest..oldest + 1;
                while run.end - run.start < WRITTEN_MAX && self.is_dirty(run.end) {
                    run.end += 1;
                }
                while run.end - run.start < WRITTEN_MAX
                    && run.start > 0
                    && self.is_dirty(run.start - 1)
                {
                    run.start -= 1;
                }
                run.clone().for_each(|page| self.clean(page));
                return Some(run);
            }
        }
        None
    }

    fn is_dirty(&self, page: u64) -> bool {
        let cached = self.pages.peek(&page);
        cached.is_some_and(|cached| cached.content == PageContent::Dirty)
    }

    fn clean(&mut self, page: u64) {
        if let Some(cached) = self.pages.peek_mut(&page) {
            cached.content = PageContent::Clean;
            self.dirty -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_neighbours_are_written_together_and_then_are_clean() {
        let mut cache = PageCache::of(8);
        [5, 9, 6, 4].into_iter().for_each(|page| cache.write(page));
        assert_eq!(cache.dirty_share(), 0.5);
        assert_eq!(cache.take_dirty(), Some(4..7));
        assert_eq!(cache.take_dirty(), Some(9..10));
        assert_eq!(cache.take_dirty(), None);
        assert_eq!(cache.dirty_share(), 0.0);
    }

    #[test]
    fn the_coldest_page_leaves_with_what_is_known_of_it() {
        let mut cache = PageCache::of(3);
        cache.insert(1, ReadPattern::Sequential, VirtualInstant(7));
        cache.insert(2, ReadPattern::Sequential, VirtualInstant(7));
        cache.write(3);
        assert_eq!(cache.touch(1, ReadPattern::Random), Some(VirtualInstant(7)));
        let leaves = cache.pop_surplus();
        assert_eq!(leaves, Some(LeavingPage::Clean(2, ReadPattern::Sequential)));
        assert_eq!(cache.pop_surplus(), None);
        cache.insert(4, ReadPattern::Random, VirtualInstant::START);
        assert_eq!(cache.pop_surplus(), Some(LeavingPage::Dirty(3)));
        assert_eq!(cache.dirty_share(), 0.0);
        cache.write(5);
        let leaves = cache.pop_surplus();
        assert_eq!(leaves, Some(LeavingPage::Clean(1, ReadPattern::Random)));
    }
}
