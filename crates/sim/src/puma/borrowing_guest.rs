//! A guest that keeps what it evicts at a lender: its page cache, its disk, and the store between them.

use std::ops::Range;

use sublet_store::disk_caching::{ReadAheadWindow, ReadStreams, STREAMS};
use sublet_types::{GetMode, PAGE_BYTES};

use super::asked_lender::AskedLender;
use super::borrowing_store::{BLOCK_PAGES, BorrowingStore, FarCounts, HERE_BLOCKS, PagePlace};
use super::far_link::FarLink;
use super::page_cache::{LeavingPage, PageCache, ReadPattern};
use super::setting::PageCosts;
use super::variants::{BenchmarkRun, CachingStrategy, SequentialFilter};
use crate::machine::disk_model::{DiskAddress, DiskCounts, DiskModel};
use crate::machine::tier_store::StoreTierError;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// From this page of its run on, a page is part of a long run. From there on the disk is read ahead in the longest
/// windows.
const SEQUENTIAL_FROM: u64 = ReadAheadWindow::DEFAULT.most as u64;

/// From this share of dirty memory on, pages are written in the background (Linux's `dirty_background_ratio`).
const BACKGROUND_SHARE: f64 = 0.1;

/// From this share on, whoever writes waits for the disk (Linux's `dirty_ratio`).
const DIRTY_MAX: f64 = 0.2;

/// The region of the disk that holds the pages, and that of the log.
const PAGES: u64 = 0;
const LOG: u64 = 1;

/// Pages of all devices: a bound for streams, not a size.
const DEVICE_PAGES: u64 = 1 << 40;

/// The far side of a guest.
struct FarSide {
    store: BorrowingStore,
    link: FarLink,
    asked: AskedLender,
    strategy: CachingStrategy,
    filter: SequentialFilter,
}

/// A guest, with or without far memory.
pub(super) struct BorrowingGuest {
    cache: PageCache,
    streams: ReadStreams,
    disk: DiskModel,
    costs: PageCosts,
    far: Option<FarSide>,
    /// Where the last read of the disk ended.
    disk_read_to: u64,
    /// Pages that the disk reads in half of the time in which it finds another place.
    gap_max: u64,
    /// When the disk has written what is written in the background.
    writes_until: VirtualInstant,
    /// Where the log ends.
    log: u64,
}

impl BorrowingGuest {
    /// A guest with so many pages of memory and so many blocks at a lender, as a run says.
    ///
    /// # Errors
    ///
    /// There is no memory for a store.
    pub(super) fn of(
        run: &BenchmarkRun,
        memory: u64,
        far_blocks: u64,
        seed: u64,
    ) -> Result<BorrowingGuest, StoreTierError> {
        let setting = run.setting.setting();
        let mut disk = DiskModel::of(setting.disk);
        let first = DiskAddress {
            region: PAGES,
            page: 0,
        };
        let miss = disk.read(VirtualInstant::START, first, 1);
        let mode = match run.strategy {
            CachingStrategy::Exclusive => GetMode::Exclusive,
            CachingStrategy::NonInclusive => GetMode::Keeping,
        };
        let far = match far_blocks {
            0 => None,
            _ => {
                let link = FarLink::of(setting.link, run.injected);
                let miss = miss.since(VirtualInstant::START);
                Some(FarSide {
                    store: BorrowingStore::of(far_blocks, mode, seed)?,
                    asked: AskedLender::of(run.guard, link.ping(), miss),
                    link,
                    strategy: run.strategy,
                    filter: run.filter,
                })
            }
        };
        // The store's own memory is the guest's, too.
        let here = if far.is_some() {
            HERE_BLOCKS * BLOCK_PAGES
        } else {
            0
        };
        Ok(BorrowingGuest {
            cache: PageCache::of(memory.saturating_sub(here).max(1)),
            streams: ReadStreams::new(DEVICE_PAGES, STREAMS, ReadAheadWindow::DEFAULT),
            disk: DiskModel::of(setting.disk),
            costs: setting.costs,
            far,
            disk_read_to: 0,
            gap_max: setting.disk.latency_us * (setting.disk.bandwidth.0 / PAGE_BYTES) / 2_000_000,
            writes_until: VirtualInstant::START,
            log: 0,
        })
    }

    /// The far memory's store, if there is one.
    pub(super) fn store(&mut self) -> Option<&mut BorrowingStore> {
        self.far.as_mut().map(|far| &mut far.store)
    }

    /// What crossed the link so far.
    pub(super) fn far_counts(&self) -> FarCounts {
        self.far
            .as_ref()
            .map_or(FarCounts::default(), |far| far.store.counts)
    }

    /// What the disk did so far.
    pub(super) fn disk_counts(&self) -> DiskCounts {
        self.disk.counts
    }

    /// Reads neighbouring pages. Returns when they are there.
    pub(super) fn read(&mut self, pages: Range<u64>, now: VirtualInstant) -> VirtualInstant {
        let now = self.keep_up(now);
        let count = pages.end - pages.start;
        let advice = self.streams.record_read(pages.start, count as u32);
        let position = advice.run.saturating_sub(count);
        let mut ready = now;
        let mut missing = Vec::new();
        for page in pages.clone() {
            let pattern = pattern_at(position + (page - pages.start));
            match self.cache.touch(page, pattern) {
                Some(ready_at) => ready = ready.max(ready_at),
                None => missing.push(page),
            }
        }
        let mut now = now;
        if !missing.is_empty() {
            let (until, came) = self.bring_in(&missing, pattern_at(position), now);
            (now, ready) = (until, ready.max(came));
        }
        if let Some(ahead) = advice.ahead {
            let missing: Vec<u64> = ahead.filter(|page| !self.cache.contains(*page)).collect();
            if !missing.is_empty() {
                now = self.bring_in(&missing, pattern_at(advice.run), now).0;
            }
        }
        ready.max(now) + self.costs.touch.times(count)
    }

    /// Writes whole pages. Returns when the writer goes on.
    pub(super) fn write(&mut self, pages: Range<u64>, now: VirtualInstant) -> VirtualInstant {
        let mut now = self.keep_up(now);
        for page in pages {
            if !self.cache.contains(page) {
                now = self.make_room(now);
            }
            self.cache.write(page);
            if let Some(far) = &mut self.far {
                far.store.overwrite(page, now);
            }
            now += self.costs.touch;
        }
        self.throttle(now)
    }

    /// Forgets pages of a file that is deleted.
    pub(super) fn delete(&mut self, pages: Range<u64>, now: VirtualInstant) -> VirtualInstant {
        for page in pages {
            self.cache.remove(page);
            if let Some(far) = &mut self.far {
                far.store.overwrite(page, now);
            }
        }
        now
    }

    /// Writes a page of the log. Returns when the disk has it.
    pub(super) fn commit(&mut self, now: VirtualInstant) -> VirtualInstant {
        let end = DiskAddress {
            region: LOG,
            page: self.log,
        };
        self.log += 1;
        self.disk.write(now, end, 1)
    }

    /// Does what others do meanwhile: the carrier of pages and the writer of dirty pages.
    fn keep_up(&mut self, now: VirtualInstant) -> VirtualInstant {
        if let Some(far) = &mut self.far {
            far.store.carry(&mut far.link, now);
        }
        if self.cache.dirty_share() > BACKGROUND_SHARE && self.writes_until <= now {
            self.write_back(now);
        }
        now
    }

    /// Makes a writer wait while too much memory is dirty.
    fn throttle(&mut self, now: VirtualInstant) -> VirtualInstant {
        let mut now = now;
        while self.cache.dirty_share() > DIRTY_MAX {
            now = now.max(self.writes_until);
            self.write_back(now);
        }
        now
    }

    fn write_back(&mut self, now: VirtualInstant) {
        if let Some(run) = self.cache.take_dirty() {
            let at = address(run.start);
            self.writes_until = self.disk.write(now, at, run.end - run.start);
        }
    }

    /// Brings in pages, none of which is in memory. Returns when the reader goes on and when the last page is there.
    fn bring_in(
        &mut self,
        pages: &[u64],
        pattern: ReadPattern,
        now: VirtualInstant,
    ) -> (VirtualInstant, VirtualInstant) {
        let mut now = now;
        let mut ready = now;
        let mut asked_at = now;
        let mut on_disk = pages.to_vec();
        if let Some(far) = &mut self.far {
            let fetched = far.fetch(pages, now, self.costs);
            (now, ready, asked_at) = (fetched.goes_on, fetched.ready, fetched.disk_is_asked);
            on_disk = fetched.missing;
            for page in fetched.arrived {
                now = self.make_room(now);
                self.cache.insert(page, pattern, ready);
            }
        }
        for run in on_disk.chunk_by(|page, next| page + 1 == *next) {
            let done = self.read_disk(asked_at, run[0]..run[0] + run.len() as u64);
            if let Some(far) = &mut self.far {
                far.asked.missed(done.since(asked_at));
            }
            ready = ready.max(done);
            for page in run {
                now = self.make_room(now);
                self.cache.insert(*page, pattern, done);
            }
        }
        (now, ready)
    }

    /// Reads neighbouring pages of the disk. A short gap behind the last read is read through, as a disk's head does.
    fn read_disk(&mut self, now: VirtualInstant, pages: Range<u64>) -> VirtualInstant {
        let gap = pages.start.checked_sub(self.disk_read_to);
        let first = match gap {
            Some(gap) if gap <= self.gap_max => self.disk_read_to,
            _ => pages.start,
        };
        self.disk_read_to = pages.end;
        self.disk.read(now, address(first), pages.end - first)
    }

    /// Evicts until one more page fits. Returns when the guest goes on.
    fn make_room(&mut self, now: VirtualInstant) -> VirtualInstant {
        let mut now = now;
        while let Some(leaving) = self.cache.pop_surplus() {
            let (page, pattern) = match leaving {
                LeavingPage::Clean(page, pattern) => (page, pattern),
                LeavingPage::Dirty(page) => {
                    now = self.disk.write(now, address(page), 1);
                    (page, ReadPattern::Random)
                }
            };
            if let Some(far) = &mut self.far {
                now += far.offer(page, pattern, now, self.costs);
            }
        }
        now
    }
}

/// What a fetch came to.
struct FetchedPages {
    arrived: Vec<u64>,
    missing: Vec<u64>,
    /// When the guest goes on.
    goes_on: VirtualInstant,
    /// When the pages that arrived can be read.
    ready: VirtualInstant,
    /// When the disk is asked for the others: at once, or when the lender was given up.
    disk_is_asked: VirtualInstant,
}

impl FarSide {
    /// Looks for pages in the store, and fetches those that the lender has, in one message.
    fn fetch(&mut self, pages: &[u64], now: VirtualInstant, costs: PageCosts) -> FetchedPages {
        let (mut arrived, mut missing, mut away) = (Vec::new(), Vec::new(), Vec::new());
        for page in pages {
            match self.store.find(*page, now) {
                PagePlace::Here => arrived.push(*page),
                PagePlace::Away(ticket) => away.push((*page, ticket)),
                PagePlace::Nowhere => missing.push(*page),
            }
        }
        let (mut ready, mut disk_is_asked) = (now, now);
        let asked = if away.is_empty() {
            None
        } else {
            self.asked.decide(now)
        };
        match asked {
            None => missing.extend(away.iter().map(|(page, _)| *page)),
            Some(asked) => {
                let done = self.link.fetch(now, away.len() as u64);
                let took = done.since(now).min(asked.time_limit);
                self.asked.ended(asked, took);
                ready = now + took;
                let is_late = done > ready;
                if is_late {
                    disk_is_asked = ready;
                }
                for (page, ticket) in away {
                    if is_late {
                        self.store.lose(page, &ticket, now);
                    }
                    match !is_late && self.store.arrive(page, &ticket, now) {
                        true => arrived.push(page),
                        false => missing.push(page),
                    }
                }
            }
        }
        missing.sort_unstable();
        let spent = costs.get.times(arrived.len() as u64);
        FetchedPages {
            arrived,
            missing,
            goes_on: now + spent,
            ready: ready + spent,
            disk_is_asked,
        }
    }

    /// Puts a page that leaves the guest, unless the lender has it already, or the filter keeps it back. Returns the
    /// guest's time for it.
    ///
    /// The filter keeps pages of long runs from the lender, as the store does with a page that is put as
    /// `AccessPattern::Sequential`.
    fn offer(
        &mut self,
        page: u64,
        pattern: ReadPattern,
        now: VirtualInstant,
        costs: PageCosts,
    ) -> VirtualDuration {
        let is_filtered = self.filter == SequentialFilter::On && pattern == ReadPattern::Sequential;
        if is_filtered {
            return VirtualDuration::default();
        }
        let stays = self.strategy == CachingStrategy::NonInclusive && self.store.has(page, now);
        if stays {
            return VirtualDuration::default();
        }
        self.store.put(page, now);
        costs.put
    }
}

/// How a page at this place of a run is read.
fn pattern_at(position: u64) -> ReadPattern {
    match position < SEQUENTIAL_FROM {
        true => ReadPattern::Random,
        false => ReadPattern::Sequential,
    }
}

fn address(page: u64) -> DiskAddress {
    DiskAddress {
        region: PAGES,
        page,
    }
}
