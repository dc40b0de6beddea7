//! One disk over one backing, as a frontend's: the store, streams and admission that the daemon uses.

use std::ops::Range;

use serde::Serialize;
use sublet_store::disk::{Admission, AdmissionSettings, Coming, GHOSTS_PER_PAGE, Stay, Streams};
use sublet_types::{
    Bytes, Pages, PoolFlags, Shrinking, TenantId, TenantName, TenantSettings, Weight,
};

use super::guest::Event;
use super::setup::{Sees, Setup, Writes};
use crate::machine::disk::{Disk, DiskPlace, DiskSpeed};
use crate::machine::tier::{Get, Pool, Stamp, Tier, TierPage};
use crate::machine::tier_store::{StoreShape, StoreTenant, StoreTier, StoreTierError};
use crate::table::Table;
use crate::traces::EXTENT_PAGES;
use crate::virtual_time::{Moment, Nanos};

/// What an I/O takes when all is in memory: the guest's way down, ours, and the guest's work before the next.
const IO_TAKES: Nanos = Nanos::micros(20);

/// The backing: the disk of the slow-disk experiments, 4 ms and 100 MiB/s.
const BACKING: DiskSpeed = DiskSpeed {
    latency_us: 4_000,
    bandwidth: Bytes::mib(100),
    channels: 1,
    backlog: Bytes::mib(4),
};

const TENANT: TenantId = TenantId(0);

/// What a disk came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskCounts {
    /// Reads that the guest asked for, each of neighbouring pages.
    pub ios: u64,
    /// Of these, those that wanted a page that was neither in memory nor on its way: they wait for the backing.
    pub stalled: u64,
    /// Of the others, those that came before the page that was read ahead for them.
    pub late: u64,
    /// Of the stalled, those that found a part in memory.
    pub halved: u64,
    /// Pages asked for.
    pub gets: u64,
    /// Of these, neither in memory nor on their way.
    pub misses: u64,
    /// Pages read from the backing, for whatever reason.
    pub backing_pages: u64,
    /// Of these, read ahead.
    pub ahead_pages: u64,
    /// Of these, asked for while they were there.
    pub ahead_used: u64,
    /// Microseconds that the guest's reads waited, together.
    pub waited_us: u64,
    /// Pages that came back from memory with another content than they had: always zero.
    pub pages_wrong: u64,
}

/// A disk that is cached.
pub(super) struct CachedDisk {
    setup: Setup,
    tier: StoreTier,
    streams: Streams,
    admission: Admission,
    backing: Disk,
    now: Moment,
    chores_at: Moment,
    /// Pages that were read ahead and not asked for yet, and when each is there.
    ahead: Table<u64, Moment>,
    /// Pages that were written, and how often.
    versions: Table<u64, u32>,
    counts: DiskCounts,
}

/// How large things are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Pages of the device.
    pub(super) device: u64,
    /// Pages of memory.
    pub(super) tier: Pages,
}

impl CachedDisk {
    /// A disk of which nothing is in memory.
    pub(super) fn of(setup: Setup, sizes: Sizes, seed: u64) -> Result<CachedDisk, StoreTierError> {
        let admission = Admission::new(&AdmissionSettings {
            fill: setup.fill(),
            sequential_max: setup.sequential_max,
            ghosts: sizes.tier.0 as usize * GHOSTS_PER_PAGE,
            seed,
        });
        let keeping = setup.sees == Sees::Requests && admission.keeps_what_is_read();
        let ahead = setup.read_ahead;
        Ok(CachedDisk {
            tier: tier(&setup, sizes.tier, keeping, seed)?,
            streams: Streams::new(sizes.device, ahead.streams, ahead.window),
            admission,
            setup,
            backing: Disk::of(BACKING),
            now: Moment::START,
            chores_at: Moment::START,
            ahead: Table::default(),
            versions: Table::default(),
            counts: DiskCounts::default(),
        })
    }

    /// What it did so far.
    pub(super) fn counts(&self) -> DiskCounts {
        self.counts
    }

    /// Does what the guest asks for.
    pub(super) fn hear(&mut self, event: Event) {
        match event {
            Event::Read { first, pages } => self.read(first, pages),
            Event::Write { first, pages } => self.write(first, pages),
            Event::Evict { page } if self.setup.sees == Sees::Evictions => self.put(page),
            Event::Evict { .. } => {}
        }
        if self.now >= self.chores_at {
            self.tier.chores(self.now);
            self.chores_at = self.now + Nanos::secs(1);
        }
    }

    fn read(&mut self, first: u64, pages: u32) {
        self.now += IO_TAKES;
        let advice = self.streams.note(first, pages);
        let position = advice.run.saturating_sub(u64::from(pages));
        let mut ready = self.now;
        let mut missed = Vec::new();
        for page in first..first + u64::from(pages) {
            match self.find(page, position + (page - first)) {
                Some(at) => ready = ready.max(at),
                None => missed.push(page),
            }
        }
        self.count_io(pages, missed.len() as u32, ready);
        for run in runs(&missed) {
            let position = position + (run.start - first);
            ready = ready.max(self.fetch(run, position, Coming::Asked));
        }
        if let Some(ahead) = advice.ahead {
            self.read_ahead(ahead, advice.run);
        }
        self.counts.waited_us += ready.since(self.now).0 / 1_000;
        self.now = ready;
    }

    fn count_io(&mut self, pages: u32, missed: u32, ready: Moment) {
        let counts = &mut self.counts;
        counts.ios += 1;
        counts.gets += u64::from(pages);
        counts.misses += u64::from(missed);
        counts.stalled += u64::from(missed > 0);
        counts.halved += u64::from(missed > 0 && missed < pages);
        counts.late += u64::from(missed == 0 && ready > self.now);
    }

    /// Looks for a page in memory: when it is there.
    fn find(&mut self, page: u64, position: u64) -> Option<Moment> {
        let at = place(page);
        let came = self.ahead.remove(&page);
        let Get::Hit(stamp) = self.tier.get(at, self.now) else {
            return None;
        };
        self.counts.pages_wrong += u64::from(stamp != Stamp::of(at, self.version(page)));
        self.counts.ahead_used += u64::from(came.is_some());
        let leaves = self.setup.sees == Sees::Requests
            && self.admission.was_read(page, position) == Stay::Not
            && self.admission.keeps_what_is_read();
        if leaves {
            self.tier.flush_page(at, self.now);
        }
        Some(came.unwrap_or(self.now))
    }

    /// Reads neighbours from the backing; returns when they are there.
    fn fetch(&mut self, pages: Range<u64>, position: u64, coming: Coming) -> Moment {
        let count = pages.end - pages.start;
        let from = DiskPlace {
            region: 0,
            page: pages.start,
        };
        let done = self.backing.read(self.now, from, count);
        self.counts.backing_pages += count;
        let stay = match self.setup.sees {
            Sees::Requests => self.admission.came(pages.clone(), position, coming),
            Sees::Evictions => Stay::Not,
        };
        for page in pages {
            if stay != Stay::Not {
                self.put(page);
            }
            if coming == Coming::Ahead {
                self.counts.ahead_pages += 1;
                self.ahead.insert(page, done);
            }
        }
        done
    }

    fn read_ahead(&mut self, pages: Range<u64>, run: u64) {
        let start = pages.start;
        let missing: Vec<u64> = pages
            .filter(|page| !self.tier.has(place(*page), self.now))
            .collect();
        for pages in runs(&missing) {
            let position = run + (pages.start - start);
            self.fetch(pages, position, Coming::Ahead);
        }
    }

    fn write(&mut self, first: u64, pages: u32) {
        let from = DiskPlace {
            region: 0,
            page: first,
        };
        self.now = self.backing.write(self.now, from, u64::from(pages));
        for page in first..first + u64::from(pages) {
            *self.versions.entry(page).or_default() += 1;
            self.ahead.remove(&page);
            match (self.setup.sees, self.setup.writes) {
                (Sees::Requests, Writes::Put) => self.put(page),
                _ => self.tier.flush_page(place(page), self.now),
            }
        }
    }

    fn put(&mut self, page: u64) {
        let at = place(page);
        self.tier
            .put(at, Stamp::of(at, self.version(page)), self.now);
    }

    fn version(&self, page: u64) -> u32 {
        self.versions.get(&page).copied().unwrap_or(0)
    }
}

fn tier(
    setup: &Setup,
    pages: Pages,
    keeping: bool,
    seed: u64,
) -> Result<StoreTier, StoreTierError> {
    let shape = StoreShape {
        total: pages,
        most: pages,
        eviction: setup.eviction.into(),
        shards: 1,
        shrinking: Shrinking::Active,
        files: PoolFlags {
            keeping,
            ..PoolFlags::default()
        },
        windows: setup.windows,
        seed,
    };
    let tenant = StoreTenant {
        settings: TenantSettings {
            name: name(),
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        },
        swap_pages: 1,
    };
    StoreTier::of(&shape, &[tenant])
}

fn name() -> TenantName {
    "disk".parse().expect("it is a name")
}

fn place(page: u64) -> TierPage {
    TierPage {
        tenant: TENANT,
        pool: Pool::File,
        object: page / EXTENT_PAGES,
        index: (page % EXTENT_PAGES) as u32,
    }
}

/// Neighbours together.
fn runs(pages: &[u64]) -> Vec<Range<u64>> {
    let runs = pages.chunk_by(|page, next| page + 1 == *next);
    runs.map(|run| run[0]..run[0] + run.len() as u64).collect()
}
