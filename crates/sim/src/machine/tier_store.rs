//! The tier as it really is: the store's own code, with a stamp for a page.
//!
//! A block keeps its 512 pages and is 16 KiB of memory, the least that the store's index of items can live in:
//! so a thousand tenants fit into a small machine.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sublet_store::{
    Blank, Get as StoreGet, Mapped, PageKey, PageSettings, PoolError, Release, Spill, Store,
    StoreSettings, TenantError, TooManyWorkers, Whom, Worker,
};
use sublet_types::{
    Bytes, Giving, ObjectId, PageIndex, Pages, PoolFlags, PoolId, ReleaseMode, Second, Shrinking,
    Snapshot, TenantId, TenantSettings, Windows,
};

use super::tier::{Census, Get, Pool, Put, Stamp, TenantCount, Tier, TierPage};
use super::tier_map::Intervals;
use crate::eviction::AnyEviction;
use crate::virtual_time::Moment;

/// Bytes of a page: a stamp, and as much again.
const PAGE: u64 = 2 * STAMP as u64;

const STAMP: usize = size_of::<Stamp>();

/// Pages of a block, as on a real host.
const BLOCK_PAGES: u64 = sublet_types::BLOCK_BYTES / sublet_types::PAGE_BYTES;

/// Bytes of a block.
const BLOCK: u64 = BLOCK_PAGES * PAGE;

/// Blocks that are nobody's: the index of items, and what the arena keeps back for eviction, which is one block
/// in an arena of less than 64 and two in others.
fn nobodys(blocks: u64) -> u64 {
    match blocks + 2 < 64 {
        true => 2,
        false => 3,
    }
}

/// Rounds of chores or of release in a second at most.
const ROUNDS_MAX: u32 = 10_000;

/// How a tier is made.
#[derive(Clone, Debug)]
pub(crate) struct StoreShape {
    /// What tenants may hold together at first.
    pub total: Pages,
    /// The most that they will ever.
    pub most: Pages,
    /// The order in which ephemeral pages leave.
    pub eviction: AnyEviction,
    /// Parts of a tenant, each with a lock and an order of its own: one thread needs one.
    pub shards: usize,
    /// What becomes of who holds more than its target.
    pub shrinking: Shrinking,
    /// What the pools of file pages promise.
    pub files: PoolFlags,
    /// What leaves with a file page that is evicted.
    pub windows: Windows,
    /// Seed of its hashes.
    pub seed: u64,
}

/// Who uses a tier.
#[derive(Clone, Debug)]
pub(crate) struct StoreTenant {
    /// What it is granted.
    pub settings: TenantSettings,
    /// Pages of its swap space: as many fit into its spill file.
    pub swap_pages: u32,
}

/// Why a store could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StoreTierError {
    /// No memory.
    #[error("this machine has no memory for the simulated store: {0}")]
    Memory(#[from] io::Error),
    /// A tenant was refused.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// A pool was refused.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A handle was refused.
    #[error(transparent)]
    Worker(#[from] TooManyWorkers),
}

/// The store as a tier.
pub(crate) struct StoreTier {
    store: Arc<Store>,
    worker: Worker,
    total: Pages,
    tenants: Vec<Pools>,
    /// Pages that came from spill files since the start.
    reads: Arc<AtomicU64>,
    intervals: Intervals,
}

/// A tenant's pools, by kind.
#[derive(Clone, Copy, Debug)]
struct Pools {
    swap: PoolId,
    file: PoolId,
    target: Option<Pages>,
}

impl StoreTier {
    /// A store with nothing in it, for these tenants: the first is number 0.
    ///
    /// # Errors
    ///
    /// No memory; a tenant that the store refuses.
    pub(crate) fn of(
        shape: &StoreShape,
        tenants: &[StoreTenant],
    ) -> Result<StoreTier, StoreTierError> {
        let most = shape.most.0.max(shape.total.0);
        let blocks = most.div_ceil(BLOCK_PAGES);
        let capacity = (blocks + nobodys(blocks) + 1) * BLOCK;
        let memory = Mapped::reserve(capacity as usize, BLOCK as usize)?;
        let settings = StoreSettings {
            capacity: Bytes(capacity),
            limit: limit_of(shape.total),
            item_max: Bytes(BLOCK / 4),
            seed: shape.seed,
            evicts: true,
            pages: PageSettings {
                page_bytes: PAGE as usize,
                shards: shape.shards,
                eviction: shape.eviction.handed_in(),
            },
        };
        let store = Store::over(Box::new(memory), BLOCK as usize, settings)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        store.set_shrinking(shape.shrinking);
        let mut tier = StoreTier {
            worker: store.worker()?,
            store,
            total: shape.total,
            tenants: Vec::with_capacity(tenants.len()),
            reads: Arc::default(),
            intervals: Intervals::default(),
        };
        tenants
            .iter()
            .try_for_each(|tenant| tier.add(tenant, shape))?;
        Ok(tier)
    }

    fn add(&mut self, tenant: &StoreTenant, shape: &StoreShape) -> Result<(), StoreTierError> {
        let mut settings = tenant.settings.clone();
        settings.floor = settings.floor.map(stamped);
        settings.ceiling = settings.ceiling.map(stamped);
        let id = self.store.add_tenant(settings)?;
        self.store
            .set_eviction(id, shape.eviction.chosen(), Second(0));
        let spill = Arc::new(Pond {
            slots: tenant.swap_pages,
            bytes: Mutex::default(),
            reads: Arc::clone(&self.reads),
        });
        let persistent = PoolFlags {
            persistent: true,
            ..PoolFlags::default()
        };
        let pools = Pools {
            swap: self.store.create_pool(id, persistent, Some(spill))?,
            file: self.store.create_pool(id, shape.files, None)?,
            target: None,
        };
        self.store.set_windows(pools.file, shape.windows);
        self.tenants.push(pools);
        Ok(())
    }

    /// Whether a get would find a page; no use of it.
    pub(crate) fn has(&self, page: TierPage, now: Moment) -> bool {
        self.worker
            .has_page(page.tenant, self.key(page), now.second())
    }

    fn key(&self, page: TierPage) -> PageKey {
        PageKey {
            pool: self.pool(page.tenant, page.pool),
            object: ObjectId(page.object),
            index: PageIndex(page.index),
        }
    }

    fn pool(&self, tenant: TenantId, pool: Pool) -> PoolId {
        let pools = self.tenants[usize::from(tenant.0)];
        match pool {
            Pool::Swap => pools.swap,
            Pool::File => pools.file,
        }
    }

    /// Gives back what the arena holds above its limit.
    fn fit(&self, now: Moment) {
        for _ in 0..ROUNDS_MAX {
            let over = self.store.held() - self.store.limit();
            if over == Bytes::ZERO {
                return;
            }
            let release = Release {
                amount: over,
                mode: ReleaseMode::Ordered,
                tenant: None,
            };
            if self.worker.release(release, now.second()).bytes == Bytes::ZERO {
                return;
            }
        }
    }

    fn count(&self, id: TenantId, held: Bytes, target: Option<Pages>) -> TenantCount {
        let figures = self.store.page_figures(id);
        let tally = figures.tally;
        TenantCount {
            held: Pages(held.0 / PAGE),
            used: figures.used,
            target,
            puts: tally.puts,
            refused: tally.puts_refused,
            failed: tally.puts.saturating_sub(tally.puts_succeeded),
            gets: tally.gets,
            hits: tally.hits,
            flushes: tally.flushes,
            evictions: tally.evictions,
            spilled: tally.spilled,
        }
    }
}

/// The bytes that so many pages' stamps take, where an amount speaks of whole pages.
fn stamped(amount: Bytes) -> Bytes {
    Bytes(Pages::of(amount).0.saturating_mul(PAGE))
}

/// The arena's limit that lets tenants hold so much.
fn limit_of(total: Pages) -> Bytes {
    let blocks = total.0 / BLOCK_PAGES;
    Bytes((blocks + nobodys(blocks)) * BLOCK)
}

impl Tier for StoreTier {
    fn put(&mut self, page: TierPage, stamp: Stamp, now: Moment) -> Put {
        let fill = |bytes: &mut Blank<'_>| {
            let (first, second) = bytes.split_at_mut(STAMP);
            first.copy_from_slice(&stamp.0);
            second.copy_from_slice(&stamp.0);
        };
        let put = self
            .worker
            .put_page(page.tenant, self.key(page), now.second(), fill);
        match put.is_stored() {
            true => Put::Stored,
            false => Put::Refused,
        }
    }

    fn get(&mut self, page: TierPage, now: Moment) -> Get {
        let before = self.reads.load(Ordering::Relaxed);
        let mut stamp = Stamp([0; STAMP]);
        let visit = |bytes: &[u8]| stamp.0.copy_from_slice(&bytes[..STAMP]);
        match self
            .worker
            .get_page(page.tenant, self.key(page), now.second(), visit)
        {
            StoreGet::Hit if self.reads.load(Ordering::Relaxed) != before => Get::OnDisk(stamp),
            StoreGet::Hit => Get::Hit(stamp),
            StoreGet::Miss | StoreGet::NoPool | StoreGet::Failed => Get::Miss,
        }
    }

    fn flush_page(&mut self, page: TierPage, now: Moment) {
        self.worker
            .flush_page(page.tenant, self.key(page), now.second());
    }

    fn flush_object(&mut self, tenant: TenantId, pool: Pool, object: u64, now: Moment) {
        let pool = self.pool(tenant, pool);
        self.worker
            .flush_object(tenant, pool, ObjectId(object), now.second());
    }

    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, _: Moment) {
        self.tenants[usize::from(tenant.0)].target = target;
        let bytes = target.map(|target| Bytes(target.0.saturating_mul(PAGE)));
        self.store.set_target(tenant, bytes);
    }

    fn set_guard(&mut self, tenant: TenantId, guard: Option<Pages>, giving: Giving) {
        let bytes = guard.map(|guard| Bytes(guard.0.saturating_mul(PAGE)));
        self.store.set_guard(tenant, bytes, giving);
    }

    fn resize(&mut self, total: Pages, now: Moment) {
        self.total = total;
        self.store.set_limit(limit_of(total));
        self.fit(now);
    }

    fn chores(&mut self, now: Moment) {
        self.worker.evict_ahead(Whom::All, now.second());
        let has_more = |_: &u32| self.worker.upkeep(now.second());
        (0..ROUNDS_MAX).take_while(has_more).for_each(drop);
        self.fit(now);
    }

    fn snapshot(&mut self, now: Moment) -> Snapshot {
        let census = self.census();
        self.intervals.snapshot(&census, now)
    }

    fn census(&self) -> Census {
        let figures = self.store.tenants();
        let counts = figures.iter().zip(&self.tenants);
        let tenants: Vec<TenantCount> = counts
            .map(|(figures, pools)| self.count(figures.id, figures.held, pools.target))
            .collect();
        // By the arena's account, not the tenants': judges compare the two.
        let arena = self.store.figures();
        let owned = arena.held - arena.free - arena.limbo - arena.index;
        Census {
            total: self.total,
            free: Pages(self.total.0.saturating_sub(owned.0 / PAGE)),
            tenants,
        }
    }
}

/// A spill file in memory: the guest's disk keeps the time.
struct Pond {
    slots: u32,
    bytes: Mutex<Vec<u8>>,
    reads: Arc<AtomicU64>,
}

impl Spill for Pond {
    fn slots(&self) -> u32 {
        self.slots
    }

    fn write(&self, slot: u32, page: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = slot as usize * page.len();
        if bytes.len() < at + page.len() {
            bytes.resize(at + page.len(), 0);
        }
        bytes[at..at + page.len()].copy_from_slice(page);
        Ok(())
    }

    fn read(&self, slot: u32, page: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = slot as usize * page.len();
        let stored = bytes
            .get(at..at + page.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        page.copy_from_slice(stored);
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::judges::{CountedAfter, Court, Judged};
    use sublet_types::{EvictionKind, Weight};

    fn tier(pages: u64, tenants: u16, eviction: AnyEviction) -> StoreTier {
        let tenant = |number: u16| StoreTenant {
            settings: TenantSettings {
                name: format!("t{number}").parse().expect("a name"),
                weight: Weight::default(),
                floor: None,
                ceiling: None,
            },
            swap_pages: 1 << 16,
        };
        let tenants: Vec<StoreTenant> = (0..tenants).map(tenant).collect();
        let shape = StoreShape {
            total: Pages(pages),
            most: Pages(pages),
            eviction,
            shards: 1,
            shrinking: Shrinking::Active,
            files: PoolFlags::default(),
            windows: Windows::default(),
            seed: 1,
        };
        StoreTier::of(&shape, &tenants).expect("memory for a test")
    }

    #[test]
    fn the_store_keeps_its_promises_under_the_judges_with_every_eviction() {
        let daemons = EvictionKind::ALL.map(|(kind, ..)| AnyEviction::from(kind));
        for eviction in daemons.into_iter().chain(AnyEviction::OWN) {
            let mut inner = tier(4096, 2, eviction);
            let mut tier = Judged::of(
                &mut inner,
                Court::full(2, Shrinking::Active),
                CountedAfter::EACH,
            );
            let mut chance = Chance::seeded(5);
            let mut now = Moment::START;
            for step in 0..30_000u32 {
                now.0 += 1_000_000;
                any(&mut tier, &mut chance, step, now);
            }
            assert_eq!(tier.court.verdicts, [], "{eviction}");
        }
    }

    fn any(tier: &mut dyn Tier, chance: &mut Chance, step: u32, now: Moment) {
        let pool = match chance.happens(0.3) {
            true => Pool::Swap,
            false => Pool::File,
        };
        let page = TierPage {
            tenant: TenantId(chance.below(2) as u16),
            pool,
            object: chance.below(8),
            index: chance.below(700) as u32,
        };
        match chance.below(100) {
            0 => tier.flush_object(page.tenant, pool, page.object, now),
            1..10 => tier.flush_page(page, now),
            10..60 => {
                tier.put(page, Stamp::of(page, step), now);
            }
            _ => {
                tier.get(page, now);
            }
        }
        if step.is_multiple_of(1000) {
            let target = chance.happens(0.5).then(|| Pages(chance.below(4096)));
            tier.set_target(page.tenant, target, now);
            tier.chores(now);
        }
        if step % 10_000 == 9_999 {
            tier.resize(Pages(2048 + chance.below(2048)), now);
        }
    }
}
