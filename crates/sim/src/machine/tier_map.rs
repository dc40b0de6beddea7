//! Two simple tiers: one that remembers in plain tables, and one that has no memory at all.
//!
//! They are the oracle beside the store, and the baselines *no tmem* and *block LRU*.

use sublet_types::{Pages, ShrinkMode, Snapshot, TenantId, TenantSnapshot, Weight};

use super::lru_map::LruMap;
use super::tier::{
    FarTierCounts, PageStamp, PoolKind, TenantCounts, Tier, TierCounts, TierGetOutcome, TierPage,
    TierPutOutcome,
};
use crate::stable_hash::StableHashMap;
use crate::virtual_time::VirtualInstant;

/// A tier that has no memory: every put is refused (*no tmem*).
#[derive(Clone, Debug)]
pub(crate) struct NoTier {
    counts: TierCounts,
    intervals: IntervalCounter,
}

impl NoTier {
    /// A tier for this many tenants.
    pub(crate) fn of(tenants: usize) -> NoTier {
        NoTier {
            counts: TierCounts {
                tenants: vec![TenantCounts::default(); tenants],
                ..TierCounts::default()
            },
            intervals: IntervalCounter::default(),
        }
    }
}

impl Tier for NoTier {
    fn put(&mut self, page: TierPage, _: PageStamp, _: VirtualInstant) -> TierPutOutcome {
        let count = &mut self.counts.tenants[usize::from(page.tenant.0)];
        count.puts += 1;
        count.refused += 1;
        count.failed += 1;
        TierPutOutcome::Refused
    }

    fn get(&mut self, page: TierPage, _: VirtualInstant) -> TierGetOutcome {
        self.counts.tenants[usize::from(page.tenant.0)].gets += 1;
        TierGetOutcome::Miss
    }

    fn flush_page(&mut self, _: TierPage, _: VirtualInstant) {}

    fn flush_object(&mut self, _: TenantId, _: PoolKind, _: u64, _: VirtualInstant) {}

    fn set_target(&mut self, _: TenantId, _: Option<Pages>, _: VirtualInstant) {}

    fn resize(&mut self, _: Pages, _: VirtualInstant) {}

    fn chores(&mut self, _: VirtualInstant) {}

    fn snapshot(&mut self, now: VirtualInstant) -> Snapshot {
        self.intervals.snapshot(&self.counts, now)
    }

    fn counts(&self) -> TierCounts {
        self.counts.clone()
    }
}

/// The most pages that a tenant over its target gives up per second: 1 GiB.
pub(crate) const SHRINK_PAGES_A_SEC: u64 = 1 << 18;

/// A tier in plain tables, page by page. The least recent file pages leave first. Targets bind as SmarTmem's Algorithm
/// 1 says. A tenant over its target is brought down once per second.
#[derive(Debug)]
pub(crate) struct MapTier {
    total: Pages,
    /// Pages in memory, of all tenants.
    in_use: u64,
    shrinking: ShrinkMode,
    tenants: Vec<MapTenant>,
    intervals: IntervalCounter,
}

#[derive(Debug, Default)]
struct MapTenant {
    /// Persistent pages in memory, in the order of their puts.
    swap: LruMap<(u64, u32), PageStamp>,
    /// Persistent pages on the tier's disk.
    spilled: StableHashMap<(u64, u32), PageStamp>,
    /// Ephemeral pages.
    file: LruMap<(u64, u32), PageStamp>,
    /// Pages of each object in each pool, by the highest index seen. A flush looks at that many.
    extents: StableHashMap<(PoolKind, u64), u32>,
    count: TenantCounts,
}

impl MapTenant {
    fn used(&self) -> u64 {
        (self.swap.len() + self.file.len()) as u64
    }

    fn is_at_target(&self) -> bool {
        self.count
            .target
            .is_some_and(|target| self.used() >= target.0)
    }

    /// Removes a page from wherever it is.
    fn forget(&mut self, pool: PoolKind, key: (u64, u32)) -> Option<PageStamp> {
        match pool {
            PoolKind::File => self.file.remove(&key),
            PoolKind::Swap => self.swap.remove(&key).or_else(|| self.spilled.remove(&key)),
        }
    }

    fn keep(&mut self, pool: PoolKind, key: (u64, u32), stamp: PageStamp) {
        match pool {
            PoolKind::Swap => self.swap.insert(key, stamp),
            PoolKind::File => self.file.insert(key, stamp),
        };
        let extent = self.extents.entry((pool, key.0)).or_default();
        *extent = (*extent).max(key.1);
    }

    fn find(&mut self, pool: PoolKind, key: (u64, u32)) -> Option<TierGetOutcome> {
        match pool {
            PoolKind::File => self.file.remove(&key).map(TierGetOutcome::Hit),
            PoolKind::Swap => {
                let here = self
                    .swap
                    .touch(&key)
                    .map(|stamp| TierGetOutcome::Hit(*stamp));
                here.or_else(|| {
                    self.spilled
                        .get(&key)
                        .map(|stamp| TierGetOutcome::OnDisk(*stamp))
                })
            }
        }
    }

    fn evict(&mut self) -> bool {
        let evicted = self.file.pop_coldest().is_some();
        self.count.evictions += u64::from(evicted);
        evicted
    }

    fn spill(&mut self) -> bool {
        let Some((key, stamp)) = self.swap.pop_coldest() else {
            return false;
        };
        self.spilled.insert(key, stamp);
        self.count.spilled += 1;
        true
    }

    fn give_up(&mut self, pages: u64) {
        for _ in 0..pages {
            if !self.evict() && !self.spill() {
                return;
            }
        }
    }
}

/// Whether there is room for a page, and whether that cost no page of its own tenant.
#[derive(Clone, Copy, Debug)]
struct RoomFound {
    found: bool,
    undisturbed: bool,
}

impl MapTier {
    /// An empty tier of `total` pages for this many tenants.
    pub(crate) fn of(total: Pages, tenants: usize, shrinking: ShrinkMode) -> MapTier {
        MapTier {
            total,
            in_use: 0,
            shrinking,
            tenants: (0..tenants).map(|_| MapTenant::default()).collect(),
            intervals: IntervalCounter::default(),
        }
    }

    /// Changes a tenant. Every change of what is used goes through here.
    fn change<R>(&mut self, number: usize, change: impl FnOnce(&mut MapTenant) -> R) -> R {
        let tenant = &mut self.tenants[number];
        let before = tenant.used();
        let made = change(tenant);
        let after = tenant.used();
        tenant.count.used = Pages(after);
        tenant.count.held = tenant.count.used;
        self.in_use = self.in_use + after - before;
        made
    }

    fn room_for(&mut self, number: usize, pool: PoolKind) -> RoomFound {
        let of_its_own = |found| RoomFound {
            found,
            undisturbed: false,
        };
        if self.tenants[number].is_at_target() {
            return of_its_own(pool == PoolKind::File && self.change(number, MapTenant::evict));
        }
        if self.in_use < self.total.0 {
            return RoomFound {
                found: true,
                undisturbed: true,
            };
        }
        if self.change(number, MapTenant::evict) {
            return of_its_own(true);
        }
        let richest = self.largest_by(|tenant| tenant.file.len() as u64);
        let found = self.change(richest, MapTenant::evict) && self.in_use < self.total.0;
        RoomFound {
            found,
            undisturbed: found,
        }
    }

    fn largest_by(&self, measure: impl Fn(&MapTenant) -> u64) -> usize {
        let numbers = 0..self.tenants.len();
        numbers
            .max_by_key(|n| measure(&self.tenants[*n]))
            .unwrap_or(0)
    }

    /// Takes pages from the largest tenants until the total fits again.
    fn fit(&mut self) {
        let mut over = self
            .in_use
            .saturating_sub(self.total.0)
            .min(SHRINK_PAGES_A_SEC);
        while over > 0 {
            let piece = over.min(512);
            let largest = self.largest_by(MapTenant::used);
            self.change(largest, |tenant| tenant.give_up(piece));
            over -= piece;
        }
    }
}

impl Tier for MapTier {
    fn put(&mut self, page: TierPage, stamp: PageStamp, _: VirtualInstant) -> TierPutOutcome {
        let (number, key) = (usize::from(page.tenant.0), (page.object, page.index));
        self.change(number, |tenant| tenant.forget(page.pool, key));
        let room = self.room_for(number, page.pool);
        self.change(number, |tenant| {
            tenant.count.puts += 1;
            tenant.count.failed += u64::from(!room.undisturbed);
            if !room.found {
                tenant.count.refused += 1;
                return TierPutOutcome::Refused;
            }
            tenant.keep(page.pool, key, stamp);
            TierPutOutcome::Stored
        })
    }

    fn get(&mut self, page: TierPage, _: VirtualInstant) -> TierGetOutcome {
        self.change(usize::from(page.tenant.0), |tenant| {
            let outcome = tenant.find(page.pool, (page.object, page.index));
            tenant.count.gets += 1;
            tenant.count.hits += u64::from(outcome.is_some());
            outcome.unwrap_or(TierGetOutcome::Miss)
        })
    }

    fn flush_page(&mut self, page: TierPage, _: VirtualInstant) {
        self.change(usize::from(page.tenant.0), |tenant| {
            let flushed = tenant.forget(page.pool, (page.object, page.index));
            tenant.count.flushes += u64::from(flushed.is_some());
        });
    }

    fn flush_object(&mut self, id: TenantId, pool: PoolKind, object: u64, _: VirtualInstant) {
        self.change(usize::from(id.0), |tenant| {
            let Some(last) = tenant.extents.remove(&(pool, object)) else {
                return;
            };
            for index in 0..=last {
                let flushed = tenant.forget(pool, (object, index));
                tenant.count.flushes += u64::from(flushed.is_some());
            }
        });
    }

    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, _: VirtualInstant) {
        self.tenants[usize::from(tenant.0)].count.target = target;
    }

    fn resize(&mut self, total: Pages, _: VirtualInstant) {
        self.total = total;
        self.fit();
    }

    fn chores(&mut self, _: VirtualInstant) {
        self.fit();
        if self.shrinking == ShrinkMode::Never {
            return;
        }
        for number in 0..self.tenants.len() {
            let tenant = &self.tenants[number];
            let target = tenant.count.target.map_or(u64::MAX, |target| target.0);
            let over = tenant.used().saturating_sub(target).min(SHRINK_PAGES_A_SEC);
            self.change(number, |tenant| tenant.give_up(over));
        }
    }

    fn snapshot(&mut self, now: VirtualInstant) -> Snapshot {
        let counts = self.counts();
        self.intervals.snapshot(&counts, now)
    }

    fn counts(&self) -> TierCounts {
        TierCounts {
            total: self.total,
            free: Pages(self.total.0.saturating_sub(self.in_use)),
            far: FarTierCounts::default(),
            tenants: self.tenants.iter().map(|tenant| tenant.count).collect(),
        }
    }
}

/// Turns counts since the beginning into those of an interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntervalCounter {
    before: Vec<TenantCounts>,
}

impl IntervalCounter {
    /// What a policy sees of `counts`. Counts are since the last call. The owner's grants are not known here, so
    /// weights are the usual ones.
    pub(crate) fn snapshot(&mut self, counts: &TierCounts, now: VirtualInstant) -> Snapshot {
        let before = std::mem::replace(&mut self.before, counts.tenants.clone());
        let tenant = |(number, count): (usize, &TenantCounts)| {
            let before = before.get(number).copied().unwrap_or_default();
            let puts = count.puts - before.puts;
            TenantSnapshot {
                id: TenantId(number as u16),
                weight: Weight::default(),
                floor: None,
                ceiling: None,
                held: count.held,
                used: count.used,
                target: count.target,
                puts,
                puts_succeeded: puts.saturating_sub(count.failed - before.failed),
                puts_ever: count.puts,
                puts_failed_ever: count.failed,
                gets: count.gets - before.gets,
                hits: count.hits - before.hits,
                flushes: count.flushes - before.flushes,
                shared: Pages(0),
                curve: None,
            }
        };
        Snapshot {
            at: now.second(),
            total: counts.total,
            free: counts.free,
            tenants: counts.tenants.iter().enumerate().map(tenant).collect(),
        }
    }
}
