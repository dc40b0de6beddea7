//! One disk over one backing, as a frontend's disk is: it uses the daemon's store, streams and admission.

use std::ops::Range;

use serde::Serialize;
use sublet_store::disk_caching::{
    Admission, AdmissionSettings, GHOSTS_PER_PAGE, ReadCause, ReadStreams, Retention,
};
use sublet_types::{
    Bytes, GetMode, Pages, PoolFlags, ShrinkMode, TenantId, TenantName, TenantSettings, Weight,
};

use super::guest::GuestDiskEvent;
use super::setup::{CachingSetup, Visibility, WritePolicy};
use crate::machine::disk_model::{DiskAddress, DiskModel, DiskSpeed};
use crate::machine::tier::{PageStamp, PoolKind, Tier, TierGetOutcome, TierPage};
use crate::machine::tier_store::{StoreShape, StoreTenant, StoreTier, StoreTierError};
use crate::stable_hash::StableHashMap;
use crate::traces::EXTENT_PAGES;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// The time of an I/O if all is in memory: the guest's way down, ours, and the guest's work before the next.
const IO_TAKES: VirtualDuration = VirtualDuration::micros(20);

/// The backing: the disk of the slow-disk experiments, 4 ms and 100 MiB/s.
const BACKING: DiskSpeed = DiskSpeed {
    latency_us: 4_000,
    bandwidth: Bytes::mib(100),
    channels: 1,
    backlog: Bytes::mib(4),
};

const TENANT: TenantId = TenantId(0);

/// What a disk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CachedDiskCounts {
    /// Reads that the guest asked for, each for neighbouring pages.
    pub ios: u64,
    /// Those of the reads that wanted a page that was neither in memory nor on its way. They wait for the backing.
    pub stalled: u64,
    /// Those of the other reads that came before the page that was read ahead for them.
    pub late: u64,
    /// Those of the stalled reads that found a part in memory.
    pub halved: u64,
    /// Requested pages.
    pub gets: u64,
    /// Those of the pages that were neither in memory nor on their way.
    pub misses: u64,
    /// Pages read from the backing, for any reason.
    pub backing_pages: u64,
    /// Those of the pages that were read ahead.
    pub ahead_pages: u64,
    /// Those of the pages read ahead that were asked for while they were there.
    pub ahead_used: u64,
    /// Microseconds that the guest's reads waited in total.
    pub waited_us: u64,
    /// Pages that came back from memory with other content than they had. Always zero.
    pub pages_wrong: u64,
}

/// A disk that is cached.
pub(super) struct CachedDisk {
    setup: CachingSetup,
    tier: StoreTier,
    streams: ReadStreams,
    admission: Admission,
    backing: DiskModel,
    now: VirtualInstant,
    chores_at: VirtualInstant,
    /// Pages that were read ahead and not asked for yet, and when each arrives.
    ahead: StableHashMap<u64, VirtualInstant>,
    /// Pages that were written, and how often.
    versions: StableHashMap<u64, u32>,
    counts: CachedDiskCounts,
}

/// The sizes of a device and of its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskSizes {
    /// Pages of the device.
    pub(super) device: u64,
    /// Pages of memory.
    pub(super) tier: Pages,
}

impl CachedDisk {
    /// A disk that has nothing in memory.
    pub(super) fn of(
        setup: CachingSetup,
        sizes: DiskSizes,
        seed: u64,
    ) -> Result<CachedDisk, StoreTierError> {
        let admission = Admission::new(&AdmissionSettings {
            fill: setup.fill(),
            sequential_max: setup.sequential_max,
            ghosts: sizes.tier.0 as usize * GHOSTS_PER_PAGE,
            seed,
        });
        let keeps = setup.sees == Visibility::Requests && admission.keeps_what_is_read();
        let ahead = setup.read_ahead;
        Ok(CachedDisk {
            tier: tier(&setup, sizes.tier, GetMode::from(keeps), seed)?,
            streams: ReadStreams::new(sizes.device, ahead.streams, ahead.window),
            admission,
            setup,
            backing: DiskModel::of(BACKING),
            now: VirtualInstant::START,
            chores_at: VirtualInstant::START,
            ahead: StableHashMap::default(),
            versions: StableHashMap::default(),
            counts: CachedDiskCounts::default(),
        })
    }

    /// What it did so far.
    pub(super) fn counts(&self) -> CachedDiskCounts {
        self.counts
    }

    /// Does what the guest asks for.
    pub(super) fn handle(&mut self, event: GuestDiskEvent) {
        match event {
            GuestDiskEvent::Read { first, pages } => self.read(first, pages),
            GuestDiskEvent::Write { first, pages } => self.write(first, pages),
            GuestDiskEvent::Evict { page } if self.setup.sees == Visibility::Evictions => {
                self.put(page)
            }
            GuestDiskEvent::Evict { .. } => {}
        }
        if self.now >= self.chores_at {
            self.tier.chores(self.now);
            self.chores_at = self.now + VirtualDuration::secs(1);
        }
    }

    fn read(&mut self, first: u64, pages: u32) {
        self.now += IO_TAKES;
        let advice = self.streams.record_read(first, pages);
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
            ready = ready.max(self.fetch(run, position, ReadCause::Demand));
        }
        if let Some(ahead) = advice.ahead {
            self.read_ahead(ahead, advice.run);
        }
        self.counts.waited_us += ready.since(self.now).0 / 1_000;
        self.now = ready;
    }

    fn count_io(&mut self, pages: u32, missed: u32, ready: VirtualInstant) {
        let counts = &mut self.counts;
        counts.ios += 1;
        counts.gets += u64::from(pages);
        counts.misses += u64::from(missed);
        counts.stalled += u64::from(missed > 0);
        counts.halved += u64::from(missed > 0 && missed < pages);
        counts.late += u64::from(missed == 0 && ready > self.now);
    }

    /// Looks for a page in memory. Returns when it is there.
    fn find(&mut self, page: u64, position: u64) -> Option<VirtualInstant> {
        let at = tier_page(page);
        let came = self.ahead.remove(&page);
        let TierGetOutcome::Hit(stamp) = self.tier.get(at, self.now) else {
            return None;
        };
        self.counts.pages_wrong += u64::from(stamp != PageStamp::of(at, self.version(page)));
        self.counts.ahead_used += u64::from(came.is_some());
        let leaves = self.setup.sees == Visibility::Requests
            && self.admission.record_hit(page, position) == Retention::Dropped
            && self.admission.keeps_what_is_read();
        if leaves {
            self.tier.flush_page(at, self.now);
        }
        Some(came.unwrap_or(self.now))
    }

    /// Reads neighbouring pages from the backing. Returns when they are there.
    fn fetch(&mut self, pages: Range<u64>, position: u64, coming: ReadCause) -> VirtualInstant {
        let count = pages.end - pages.start;
        let from = DiskAddress {
            region: 0,
            page: pages.start,
        };
        let done = self.backing.read(self.now, from, count);
        self.counts.backing_pages += count;
        let stay = match self.setup.sees {
            Visibility::Requests => self.admission.admit(pages.clone(), position, coming),
            Visibility::Evictions => Retention::Dropped,
        };
        for page in pages {
            if stay != Retention::Dropped {
                self.put(page);
            }
            if coming == ReadCause::ReadAhead {
                self.counts.ahead_pages += 1;
                self.ahead.insert(page, done);
            }
        }
        done
    }

    fn read_ahead(&mut self, pages: Range<u64>, run: u64) {
        let start = pages.start;
        let missing: Vec<u64> = pages
            .filter(|page| !self.tier.has(tier_page(*page), self.now))
            .collect();
        for pages in runs(&missing) {
            let position = run + (pages.start - start);
            self.fetch(pages, position, ReadCause::ReadAhead);
        }
    }

    fn write(&mut self, first: u64, pages: u32) {
        let from = DiskAddress {
            region: 0,
            page: first,
        };
        self.now = self.backing.write(self.now, from, u64::from(pages));
        for page in first..first + u64::from(pages) {
            *self.versions.entry(page).or_default() += 1;
            self.ahead.remove(&page);
            match (self.setup.sees, self.setup.writes) {
                (Visibility::Requests, WritePolicy::Put) => self.put(page),
                _ => self.tier.flush_page(tier_page(page), self.now),
            }
        }
    }

    fn put(&mut self, page: u64) {
        let at = tier_page(page);
        self.tier
            .put(at, PageStamp::of(at, self.version(page)), self.now);
    }

    fn version(&self, page: u64) -> u32 {
        self.versions.get(&page).copied().unwrap_or(0)
    }
}

fn tier(
    setup: &CachingSetup,
    pages: Pages,
    mode: GetMode,
    seed: u64,
) -> Result<StoreTier, StoreTierError> {
    let shape = StoreShape {
        total: pages,
        most: pages,
        eviction: setup.eviction.into(),
        shards: 1,
        shrinking: ShrinkMode::Active,
        files: PoolFlags {
            keeping: mode == GetMode::Keeping,
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

fn tier_page(page: u64) -> TierPage {
    TierPage {
        tenant: TENANT,
        pool: PoolKind::File,
        object: page / EXTENT_PAGES,
        index: (page % EXTENT_PAGES) as u32,
    }
}

/// Groups neighbouring pages.
fn runs(pages: &[u64]) -> Vec<Range<u64>> {
    let runs = pages.chunk_by(|page, next| page + 1 == *next);
    runs.map(|run| run[0]..run[0] + run.len() as u64).collect()
}
