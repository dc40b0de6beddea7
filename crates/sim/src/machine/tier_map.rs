//! Two tiers of few lines: one that remembers in plain tables, one that has no memory at all.
//!
//! They are the oracle beside the store, and the baselines *no tmem* and *block LRU*.

use sublet_types::{Pages, Shrinking, Snapshot, TenantId, TenantSnapshot, Weight};

use super::recency::Recency;
use super::tier::{Census, Get, Pool, Put, Stamp, TenantCount, Tier, TierPage};
use crate::table::Table;
use crate::virtual_time::Moment;

/// A tier that has no memory: every put is refused (*no tmem*).
#[derive(Clone, Debug)]
pub(crate) struct NoTier {
    census: Census,
    intervals: Intervals,
}

impl NoTier {
    /// For this many tenants.
    pub(crate) fn of(tenants: usize) -> NoTier {
        NoTier {
            census: Census {
                tenants: vec![TenantCount::default(); tenants],
                ..Census::default()
            },
            intervals: Intervals::default(),
        }
    }
}

impl Tier for NoTier {
    fn put(&mut self, page: TierPage, _: Stamp, _: Moment) -> Put {
        let count = &mut self.census.tenants[usize::from(page.tenant.0)];
        count.puts += 1;
        count.refused += 1;
        count.failed += 1;
        Put::Refused
    }

    fn get(&mut self, page: TierPage, _: Moment) -> Get {
        self.census.tenants[usize::from(page.tenant.0)].gets += 1;
        Get::Miss
    }

    fn flush_page(&mut self, _: TierPage, _: Moment) {}

    fn flush_object(&mut self, _: TenantId, _: Pool, _: u64, _: Moment) {}

    fn set_target(&mut self, _: TenantId, _: Option<Pages>, _: Moment) {}

    fn resize(&mut self, _: Pages, _: Moment) {}

    fn chores(&mut self, _: Moment) {}

    fn snapshot(&mut self, now: Moment) -> Snapshot {
        self.intervals.snapshot(&self.census, now)
    }

    fn census(&self) -> Census {
        self.census.clone()
    }
}

/// Pages that a tenant over its target gives up in a second at most: 1 GiB.
pub(crate) const SHRINK_PAGES_A_SEC: u64 = 1 << 18;

/// A tier in plain tables, page by page: file pages leave least recent first, targets bind as SmarTmem's
/// Algorithm 1 says, and who is over its target is brought down once a second.
#[derive(Debug)]
pub(crate) struct MapTier {
    total: Pages,
    /// Pages in memory, of all tenants.
    in_use: u64,
    shrinking: Shrinking,
    tenants: Vec<Tenant>,
    intervals: Intervals,
}

#[derive(Debug, Default)]
struct Tenant {
    /// Persistent pages in memory, in the order of their puts.
    swap: Recency<(u64, u32), Stamp>,
    /// Persistent pages on the tier's disk.
    spilled: Table<(u64, u32), Stamp>,
    /// Ephemeral pages.
    file: Recency<(u64, u32), Stamp>,
    /// Pages of each object in each pool, by the highest index seen: where a flush of it looks.
    extents: Table<(Pool, u64), u32>,
    count: TenantCount,
}

impl Tenant {
    fn used(&self) -> u64 {
        (self.swap.len() + self.file.len()) as u64
    }

    fn is_at_target(&self) -> bool {
        self.count
            .target
            .is_some_and(|target| self.used() >= target.0)
    }

    /// Takes a page out of wherever it is.
    fn forget(&mut self, pool: Pool, key: (u64, u32)) -> Option<Stamp> {
        match pool {
            Pool::File => self.file.remove(&key),
            Pool::Swap => self.swap.remove(&key).or_else(|| self.spilled.remove(&key)),
        }
    }

    fn keep(&mut self, pool: Pool, key: (u64, u32), stamp: Stamp) {
        match pool {
            Pool::Swap => self.swap.insert(key, stamp),
            Pool::File => self.file.insert(key, stamp),
        };
        let extent = self.extents.entry((pool, key.0)).or_default();
        *extent = (*extent).max(key.1);
    }

    fn find(&mut self, pool: Pool, key: (u64, u32)) -> Option<Get> {
        match pool {
            Pool::File => self.file.remove(&key).map(Get::Hit),
            Pool::Swap => {
                let here = self.swap.touch(&key).map(|stamp| Get::Hit(*stamp));
                here.or_else(|| self.spilled.get(&key).map(|stamp| Get::OnDisk(*stamp)))
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

/// Whether there is room for a page, and whether nothing of its own tenant left for it.
#[derive(Clone, Copy, Debug)]
struct Room {
    found: bool,
    undisturbed: bool,
}

impl MapTier {
    /// An empty tier of `total` pages for so many tenants.
    pub(crate) fn of(total: Pages, tenants: usize, shrinking: Shrinking) -> MapTier {
        MapTier {
            total,
            in_use: 0,
            shrinking,
            tenants: (0..tenants).map(|_| Tenant::default()).collect(),
            intervals: Intervals::default(),
        }
    }

    /// Changes a tenant; every change of what is used goes through here.
    fn change<R>(&mut self, number: usize, change: impl FnOnce(&mut Tenant) -> R) -> R {
        let tenant = &mut self.tenants[number];
        let before = tenant.used();
        let made = change(tenant);
        let after = tenant.used();
        tenant.count.used = Pages(after);
        tenant.count.held = tenant.count.used;
        self.in_use = self.in_use + after - before;
        made
    }

    fn room_for(&mut self, number: usize, pool: Pool) -> Room {
        let of_its_own = |found| Room {
            found,
            undisturbed: false,
        };
        if self.tenants[number].is_at_target() {
            return of_its_own(pool == Pool::File && self.change(number, Tenant::evict));
        }
        if self.in_use < self.total.0 {
            return Room {
                found: true,
                undisturbed: true,
            };
        }
        if self.change(number, Tenant::evict) {
            return of_its_own(true);
        }
        let richest = self.largest_by(|tenant| tenant.file.len() as u64);
        let found = self.change(richest, Tenant::evict) && self.in_use < self.total.0;
        Room {
            found,
            undisturbed: found,
        }
    }

    fn largest_by(&self, measure: impl Fn(&Tenant) -> u64) -> usize {
        let numbers = 0..self.tenants.len();
        numbers
            .max_by_key(|n| measure(&self.tenants[*n]))
            .unwrap_or(0)
    }

    /// Takes pages from the largest tenants until the whole fits again.
    fn fit(&mut self) {
        let mut over = self
            .in_use
            .saturating_sub(self.total.0)
            .min(SHRINK_PAGES_A_SEC);
        while over > 0 {
            let piece = over.min(512);
            let largest = self.largest_by(Tenant::used);
            self.change(largest, |tenant| tenant.give_up(piece));
            over -= piece;
        }
    }
}

impl Tier for MapTier {
    fn put(&mut self, page: TierPage, stamp: Stamp, _: Moment) -> Put {
        let (number, key) = (usize::from(page.tenant.0), (page.object, page.index));
        self.change(number, |tenant| tenant.forget(page.pool, key));
        let room = self.room_for(number, page.pool);
        self.change(number, |tenant| {
            tenant.count.puts += 1;
            tenant.count.failed += u64::from(!room.undisturbed);
            if !room.found {
                tenant.count.refused += 1;
                return Put::Refused;
            }
            tenant.keep(page.pool, key, stamp);
            Put::Stored
        })
    }

    fn get(&mut self, page: TierPage, _: Moment) -> Get {
        self.change(usize::from(page.tenant.0), |tenant| {
            let got = tenant.find(page.pool, (page.object, page.index));
            tenant.count.gets += 1;
            tenant.count.hits += u64::from(got.is_some());
            got.unwrap_or(Get::Miss)
        })
    }

    fn flush_page(&mut self, page: TierPage, _: Moment) {
        self.change(usize::from(page.tenant.0), |tenant| {
            let flushed = tenant.forget(page.pool, (page.object, page.index));
            tenant.count.flushes += u64::from(flushed.is_some());
        });
    }

    fn flush_object(&mut self, id: TenantId, pool: Pool, object: u64, _: Moment) {
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

    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, _: Moment) {
        self.tenants[usize::from(tenant.0)].count.target = target;
    }

    fn resize(&mut self, total: Pages, _: Moment) {
        self.total = total;
        self.fit();
    }

    fn chores(&mut self, _: Moment) {
        self.fit();
        if self.shrinking == Shrinking::Never {
            return;
        }
        for number in 0..self.tenants.len() {
            let tenant = &self.tenants[number];
            let target = tenant.count.target.map_or(u64::MAX, |target| target.0);
            let over = tenant.used().saturating_sub(target).min(SHRINK_PAGES_A_SEC);
            self.change(number, |tenant| tenant.give_up(over));
        }
    }

    fn snapshot(&mut self, now: Moment) -> Snapshot {
        let census = self.census();
        self.intervals.snapshot(&census, now)
    }

    fn census(&self) -> Census {
        Census {
            total: self.total,
            free: Pages(self.total.0.saturating_sub(self.in_use)),
            tenants: self.tenants.iter().map(|tenant| tenant.count).collect(),
        }
    }
}

/// Turns counts since the beginning into those of an interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    before: Vec<TenantCount>,
}

impl Intervals {
    /// What a policy sees of `census`; counts are since the last call. What the owner grants is not known
    /// here: weights are the usual ones.
    pub(crate) fn snapshot(&mut self, census: &Census, now: Moment) -> Snapshot {
        let before = std::mem::replace(&mut self.before, census.tenants.clone());
        let tenant = |(number, count): (usize, &TenantCount)| {
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
            total: census.total,
            free: census.free,
            tenants: census.tenants.iter().enumerate().map(tenant).collect(),
        }
    }
}
