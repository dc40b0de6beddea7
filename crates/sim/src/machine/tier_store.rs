//! The tier as it really is: the store's own code, with a stamp for a page.
//!
//! A block keeps its 512 pages and takes 16 KiB of memory, the least that the store's index of items can live in. So a
//! thousand tenants fit into a small machine.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sublet_store::{
    CreatePoolError, EvictAheadScope, GetOutcome as StoreGet, MappedMemory, PageKey, PageSettings,
    Release, Spill, Store, StoreSettings, TenantError, TooManyWorkers, UnwrittenPage, Worker,
};
use sublet_types::{
    Bytes, GiveWayOrder, ObjectId, PageIndex, Pages, PoolFlags, PoolId, ReleaseMode, Second,
    ShrinkMode, Snapshot, TenantId, TenantSettings, WindowEviction,
};

use super::tier::{
    FarTierCounts, PageStamp, PoolKind, TenantCounts, Tier, TierCounts, TierGetOutcome, TierPage,
    TierPutOutcome,
};
use super::tier_map::IntervalCounter;
use crate::eviction::AnyEviction;
use crate::virtual_time::VirtualInstant;

/// Bytes of a page: a stamp, and as much again.
const PAGE: u64 = 2 * STAMP as u64;

const STAMP: usize = size_of::<PageStamp>();

/// Pages of a block, as on a real host.
const BLOCK_PAGES: u64 = sublet_types::BLOCK_BYTES / sublet_types::PAGE_BYTES;

/// Bytes of a block.
const BLOCK: u64 = BLOCK_PAGES * PAGE;

/// Blocks that belong to nobody: the index of items, and what the arena keeps back for eviction. That is one block in
/// an arena of less than 64 and two in others.
fn unowned_blocks(blocks: u64) -> u64 {
    match blocks + 2 < 64 {
        true => 2,
        false => 3,
    }
}

/// The most rounds of chores or of release per second.
const ROUNDS_MAX: u32 = 10_000;

/// The properties of a tier.
#[derive(Clone, Debug)]
pub(crate) struct StoreShape {
    /// What tenants may hold together at first.
    pub total: Pages,
    /// The most that they will ever hold.
    pub most: Pages,
    /// The order in which ephemeral pages leave.
    pub eviction: AnyEviction,
    /// Parts of a tenant, each with its own lock and order. One thread needs one.
    pub shards: usize,
    /// What happens to a tenant that holds more than its target.
    pub shrinking: ShrinkMode,
    /// What the pools of file pages promise.
    pub files: PoolFlags,
    /// What leaves with a file page that is evicted.
    pub windows: WindowEviction,
    /// The seed of its hashes.
    pub seed: u64,
}

/// A user of a tier.
#[derive(Clone, Debug)]
pub(crate) struct StoreTenant {
    /// What it is granted.
    pub settings: TenantSettings,
    /// Pages of its swap space. As many fit into its spill file.
    pub swap_pages: u32,
}

/// Why a store could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StoreTierError {
    /// There is no memory.
    #[error("this machine has no memory for the simulated store: {0}")]
    Memory(#[from] io::Error),
    /// A tenant was refused.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// A pool was refused.
    #[error(transparent)]
    Pool(#[from] CreatePoolError),
    /// A handle was refused.
    #[error(transparent)]
    Worker(#[from] TooManyWorkers),
}

/// The store as a tier.
pub(crate) struct StoreTier {
    store: Arc<Store>,
    worker: Worker,
    total: Pages,
    tenants: Vec<TenantPools>,
    /// Pages that came from spill files since the start.
    reads: Arc<AtomicU64>,
    intervals: IntervalCounter,
}

/// A tenant's pools, by kind.
#[derive(Clone, Copy, Debug)]
struct TenantPools {
    swap: PoolId,
    file: PoolId,
    target: Option<Pages>,
}

impl StoreTier {
    /// An empty store for these tenants. The first one is number 0.
    ///
    /// # Errors
    ///
    /// There is no memory, or the store refuses a tenant.
    pub(crate) fn of(
        shape: &StoreShape,
        tenants: &[StoreTenant],
    ) -> Result<StoreTier, StoreTierError> {
        let most = shape.most.0.max(shape.total.0);
        let blocks = most.div_ceil(BLOCK_PAGES);
        let capacity = (blocks + unowned_blocks(blocks) + 1) * BLOCK;
        let memory = MappedMemory::reserve(capacity as usize, BLOCK as usize)?;
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
                ..PageSettings::default()
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
            intervals: IntervalCounter::default(),
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
        let spill = Arc::new(MemorySpillFile {
            slots: tenant.swap_pages,
            bytes: Mutex::default(),
            reads: Arc::clone(&self.reads),
        });
        let persistent = PoolFlags {
            persistent: true,
            ..PoolFlags::default()
        };
        let pools = TenantPools {
            swap: self.store.create_pool(id, persistent, Some(spill))?,
            file: self.store.create_pool(id, shape.files, None)?,
            target: None,
        };
        self.store.set_windows(pools.file, shape.windows);
        self.tenants.push(pools);
        Ok(())
    }

    /// Returns whether a get would find a page. This does not count as a use.
    pub(crate) fn has(&self, page: TierPage, now: VirtualInstant) -> bool {
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

    fn pool(&self, tenant: TenantId, pool: PoolKind) -> PoolId {
        let pools = self.tenants[usize::from(tenant.0)];
        match pool {
            PoolKind::Swap => pools.swap,
            PoolKind::File => pools.file,
        }
    }

    /// Gives back what the arena holds above its limit.
    fn fit(&self, now: VirtualInstant) {
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

    fn count(&self, id: TenantId, held: Bytes, target: Option<Pages>) -> TenantCounts {
        let figures = self.store.page_figures(id);
        let tally = figures.tally;
        TenantCounts {
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

/// The bytes that the stamps of this amount of whole pages take.
fn stamped(amount: Bytes) -> Bytes {
    Bytes(Pages::of(amount).0.saturating_mul(PAGE))
}

/// The arena's limit that lets tenants hold this much.
fn limit_of(total: Pages) -> Bytes {
    let blocks = total.0 / BLOCK_PAGES;
    Bytes((blocks + unowned_blocks(blocks)) * BLOCK)
}

impl Tier for StoreTier {
    fn put(&mut self, page: TierPage, stamp: PageStamp, now: VirtualInstant) -> TierPutOutcome {
        let fill = |bytes: &mut UnwrittenPage<'_>| {
            let (first, second) = bytes.split_at_mut(STAMP);
            first.copy_from_slice(&stamp.0);
            second.copy_from_slice(&stamp.0);
        };
        let put = self
            .worker
            .put_page(page.tenant, self.key(page), now.second(), fill);
        match put.is_stored() {
            true => TierPutOutcome::Stored,
            false => TierPutOutcome::Refused,
        }
    }

    fn get(&mut self, page: TierPage, now: VirtualInstant) -> TierGetOutcome {
        let before = self.reads.load(Ordering::Relaxed);
        let mut stamp = PageStamp([0; STAMP]);
        let visit = |bytes: &[u8]| stamp.0.copy_from_slice(&bytes[..STAMP]);
        match self
            .worker
            .get_page(page.tenant, self.key(page), now.second(), visit)
        {
            StoreGet::Hit if self.reads.load(Ordering::Relaxed) != before => {
                TierGetOutcome::OnDisk(stamp)
            }
            StoreGet::Hit => TierGetOutcome::Hit(stamp),
            StoreGet::Away(_) => unreachable!("a machine without lenders"),
            StoreGet::Miss | StoreGet::NoPool | StoreGet::Failed => TierGetOutcome::Miss,
        }
    }

    fn flush_page(&mut self, page: TierPage, now: VirtualInstant) {
        self.worker
            .flush_page(page.tenant, self.key(page), now.second());
    }

    fn flush_object(&mut self, tenant: TenantId, pool: PoolKind, object: u64, now: VirtualInstant) {
        let pool = self.pool(tenant, pool);
        self.worker
            .flush_object(tenant, pool, ObjectId(object), now.second());
    }

    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, _: VirtualInstant) {
        self.tenants[usize::from(tenant.0)].target = target;
        let bytes = target.map(|target| Bytes(target.0.saturating_mul(PAGE)));
        self.store.set_target(tenant, bytes);
    }

    fn set_guard(&mut self, tenant: TenantId, guard: Option<Pages>, giving: GiveWayOrder) {
        let bytes = guard.map(|guard| Bytes(guard.0.saturating_mul(PAGE)));
        self.store.set_guard(tenant, bytes, giving);
    }

    fn resize(&mut self, total: Pages, now: VirtualInstant) {
        self.total = total;
        self.store.set_limit(limit_of(total));
        self.fit(now);
    }

    fn chores(&mut self, now: VirtualInstant) {
        self.worker.evict_ahead(EvictAheadScope::All, now.second());
        let has_more = |_: &u32| self.worker.upkeep(now.second());
        (0..ROUNDS_MAX).take_while(has_more).for_each(drop);
        self.fit(now);
    }

    fn snapshot(&mut self, now: VirtualInstant) -> Snapshot {
        let counts = self.counts();
        self.intervals.snapshot(&counts, now)
    }

    fn counts(&self) -> TierCounts {
        let figures = self.store.tenants();
        let counts = figures.iter().zip(&self.tenants);
        let tenants: Vec<TenantCounts> = counts
            .map(|(figures, pools)| self.count(figures.id, figures.held, pools.target))
            .collect();
        // The arena's account counts here, not the tenants': judges compare the two.
        let arena = self.store.figures();
        let owned = arena.held - arena.free - arena.limbo - arena.index;
        TierCounts {
            total: self.total,
            free: Pages(self.total.0.saturating_sub(owned.0 / PAGE)),
            far: FarTierCounts::default(),
            tenants,
        }
    }
}

/// A spill file in memory. The guest's disk accounts for the time.
struct MemorySpillFile {
    slots: u32,
    bytes: Mutex<Vec<u8>>,
    reads: Arc<AtomicU64>,
}

impl Spill for MemorySpillFile {
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
    use crate::judges::{CensusInterval, JudgePanel, JudgedTier};
    use crate::rng::SimRng;
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
            shrinking: ShrinkMode::Active,
            files: PoolFlags::default(),
            windows: WindowEviction::default(),
            seed: 1,
        };
        StoreTier::of(&shape, &tenants).expect("memory for a test")
    }

    #[test]
    fn the_store_keeps_its_promises_under_the_judges_with_every_eviction() {
        let daemons = EvictionKind::ALL.map(|(kind, ..)| AnyEviction::from(kind));
        for eviction in daemons.into_iter().chain(AnyEviction::OWN) {
            let mut inner = tier(4096, 2, eviction);
            let mut tier = JudgedTier::of(
                &mut inner,
                JudgePanel::full(2, ShrinkMode::Active),
                CensusInterval::EACH,
            );
            let mut rng = SimRng::seeded(5);
            let mut now = VirtualInstant::START;
            for step in 0..30_000u32 {
                now.0 += 1_000_000;
                any(&mut tier, &mut rng, step, now);
            }
            assert_eq!(tier.panel.verdicts, [], "{eviction}");
        }
    }

    fn any(tier: &mut dyn Tier, rng: &mut SimRng, step: u32, now: VirtualInstant) {
        let pool = match rng.happens(0.3) {
            true => PoolKind::Swap,
            false => PoolKind::File,
        };
        let page = TierPage {
            tenant: TenantId(rng.below(2) as u16),
            pool,
            object: rng.below(8),
            index: rng.below(700) as u32,
        };
        match rng.below(100) {
            0 => tier.flush_object(page.tenant, pool, page.object, now),
            1..10 => tier.flush_page(page, now),
            10..60 => {
                tier.put(page, PageStamp::of(page, step), now);
            }
            _ => {
                tier.get(page, now);
            }
        }
        if step.is_multiple_of(1000) {
            let target = rng.happens(0.5).then(|| Pages(rng.below(4096)));
            tier.set_target(page.tenant, target, now);
            tier.chores(now);
        }
        if step % 10_000 == 9_999 {
            tier.resize(Pages(2048 + rng.below(2048)), now);
        }
    }
}
