//! The page store: transcendent memory's put, get and flush over frames of the arena's blocks.
//!
//! The hash of pool and object assigns a tenant's pages to shards, so that an object's pages share one lock. A shard
//! has a directory, an eviction for its ephemeral pages, and a list of free frames. A page is copied in or out once,
//! under its shard's lock and its worker's pin. So it is never torn, and a put that replaces cannot fail half-way
//! (R-P1, R-P3, R-G5).

mod arrivals;
mod blocks;
mod directory;
mod directory_slots;
mod evict;
mod evict_ahead;
mod far;
mod filled;
mod frame_source;
mod freed_ahead;
mod group;
mod leaf;
mod locked_shard;
mod page_access;
mod pending_removal;
mod pools;
mod removal;
mod rows;
mod save;
mod shard;
mod shard_debt;
mod shards_with_spare;
mod shared;
mod shared_pools;
mod shrink;
mod siblings;
mod sweep;
mod tally;
mod tenant_pages;
mod victim_prefetch;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sublet_types::{EvictionKind, Pages as PageCount, PoolFlags, PoolId, Second};

use crate::api::{CreatePoolError, PageFigures, PageOverhead, TENANTS_MAX};
use crate::arena::{Arena, BlockId, BlockOwner, LiveTotals, PageKind};
use crate::borrowing::Borrowing;
use crate::frames::{FrameId, FrameTable, HashSeed, STAMPS, StoredKey};
use crate::settings::{PageSettings, StoreSettings};
use crate::tenants::{Tenant, Tenants};
#[cfg(test)]
pub(crate) use evict::WINDOW_PAGES;
use far::FarMemory;
pub(crate) use frame_source::{Displacement, FrameSearch, PutAttempt, Shortage, SiblingSearch};
pub(crate) use group::{PageMask, PageVerb};
pub(crate) use page_access::{FoundPages, PageAccess};
pub use pending_removal::Removal;
pub(crate) use pools::{Pool, Pools, SpillSpace};
pub(crate) use save::{Loader, RestoredPoolIds, SaveHead, check as check_save};
use shard::Shard;
use shards_with_spare::SHARDS_MAX;
pub use shared::SHARERS_MAX;
use shared_pools::SharedPools;
use tenant_pages::FitTiming;
pub(crate) use tenant_pages::{ShownEviction, TenantPages};

/// Stamps wrap when the arena has been written this many times over.
const STAMPED_TURNOVERS: u64 = 8;

/// The engine: pools, frames, and the state of sweeping.
pub(crate) struct PageStore {
    pub(crate) arena: Arc<Arena>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) frames: FrameTable,
    pub(crate) pools: Pools,
    /// The pages of each tenant, by its number. Places without a tenant are small.
    by_tenant: Box<[OnceLock<Box<TenantPages>>]>,
    pub(crate) seed: HashSeed,
    shared: Mutex<SharedPools>,
    settings: PageSettings,
    /// The binary logarithm of the bytes between two stamps of frames.
    tick_bits: u32,
    /// Dropped blocks whose frame tables have to be swept.
    unswept: Mutex<Vec<BlockId>>,
    /// Blocks of lenders.
    far: FarMemory,
    /// Held while a block is swept.
    sweeping: Mutex<()>,
    /// Blocks that were emptied by moving pages, since the start.
    evacuated: AtomicU32,
}

impl PageStore {
    pub(crate) fn new(
        arena: Arc<Arena>,
        tenants: Arc<Tenants>,
        settings: &StoreSettings,
    ) -> std::io::Result<PageStore> {
        let seed = HashSeed(settings.seed ^ 0x5bd1_e995_7b93_a4c7);
        let settings = PageSettings {
            shards: settings.pages.shards.clamp(1, SHARDS_MAX),
            ..settings.pages
        };
        let capacity = arena.blocks().count() as u64 * arena.block_bytes() as u64;
        let frames = FrameTable::new(
            &arena,
            settings.page_bytes,
            settings.shards,
            settings.far_blocks,
            seed,
        )?;
        Ok(PageStore {
            far: FarMemory::new(&settings, frames.block_bits()),
            frames,
            pools: Pools::new(),
            by_tenant: (0..TENANTS_MAX).map(|_| OnceLock::new()).collect(),
            tick_bits: (capacity * STAMPED_TURNOVERS / u64::from(STAMPS))
                .max(1)
                .next_power_of_two()
                .ilog2(),
            arena,
            tenants,
            seed,
            shared: Mutex::default(),
            settings,
            unswept: Mutex::default(),
            sweeping: Mutex::default(),
            evacuated: AtomicU32::new(0),
        })
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.settings.page_bytes
    }

    /// A tenant's part of the page store. It is made when it is first needed.
    pub(crate) fn tenant_pages(&self, tenant: &Tenant) -> &TenantPages {
        self.by_tenant[usize::from(tenant.id.0)].get_or_init(|| {
            let PageSettings {
                shards, eviction, ..
            } = self.settings;
            let far = self.far.of_tenant();
            Box::new(TenantPages::new(shards, self.seed, eviction, far))
        })
    }

    /// A tenant's part of the page store, if it ever had pages or pools.
    pub(crate) fn existing_tenant_pages(&self, tenant: &Tenant) -> Option<&TenantPages> {
        let place = &self.by_tenant[usize::from(tenant.id.0)];
        place.get().map(Box::as_ref)
    }

    /// All tenants' parts of the page store.
    fn all_tenant_pages(&self) -> impl Iterator<Item = &TenantPages> {
        let made = self.by_tenant.iter().filter_map(OnceLock::get);
        made.map(Box::as_ref)
    }

    /// The bytes of a frame. The caller holds its shard's lock and is pinned.
    pub(crate) fn bytes(&self, frame: FrameId) -> &[u8] {
        let len = self.settings.page_bytes;
        let at = self.frames.place(frame) as usize * len;
        self.arena.page(self.frames.block(frame), at, len)
    }

    /// Writes a frame, under the conditions of [`bytes`](PageStore::bytes).
    pub(crate) fn write(&self, frame: FrameId, write: impl FnOnce(&mut [u8])) {
        let len = self.settings.page_bytes;
        let at = self.frames.place(frame) as usize * len;
        self.arena
            .write_page(self.frames.block(frame), at, len, write);
    }

    /// Records that a frame's page is put or used now.
    fn stamp(&self, frame: FrameId) {
        let tick = self.arena.clock() >> self.tick_bits;
        self.frames.get(frame).set_stamp(tick as u32 % STAMPS);
    }

    /// When a frame's page was last put or used, by the arena's clock. A page whose stamp has wrapped seems young. That
    /// takes a round of the stamps: eight times as many writes as the arena ever holds bytes, or more.
    fn written_at(&self, frame: FrameId) -> u64 {
        let now = self.arena.clock() >> self.tick_bits;
        let age = (now as u32).wrapping_sub(self.frames.get(frame).stamp()) % STAMPS;
        now.saturating_sub(age.into()) << self.tick_bits
    }

    /// Advances the arena's clock by pages that arrived.
    fn advance_clock(&self, pages: u32) {
        self.arena
            .advance(u64::from(pages) * self.settings.page_bytes as u64);
    }

    /// Counts pages that came into a frame's block, including this frame's.
    fn gain(&self, frame: FrameId, pages: u32) {
        let spread = self.frames.get(frame).shard().into();
        self.arena
            .gain_pages(self.frames.block(frame), pages, spread);
    }

    /// Counts one page less in a frame's block.
    fn lose(&self, frame: FrameId) {
        let spread = self.frames.get(frame).shard().into();
        self.arena.lose_page(self.frames.block(frame), spread);
    }

    /// The page in a frame, if there is one, with its object's hash.
    fn page_in(&self, frame: FrameId) -> Option<(u64, StoredKey)> {
        let facts = self.frames.get(frame);
        let key = facts.is_live().then(|| facts.key())?;
        Some((self.seed.object(key.pool, key.object), key))
    }

    /// Returns whether a frame's block is being emptied, so that no new page may come into it.
    fn is_leaving(&self, frame: FrameId) -> bool {
        let block = self.arena.block(self.frames.block(frame));
        block.is_leaving()
    }

    /// Returns whether a page of the tenant may come into a frame. Its block must still be of such pages and stay so.
    fn takes_pages(&self, frame: FrameId, tenant: &Tenant, kind: PageKind) -> bool {
        let block = self.arena.block(self.frames.block(frame));
        block.is_of_pages(tenant.id, kind) && !block.is_leaving()
    }

    /// Takes back a frame whose page has left.
    fn free(&self, shard: &mut Shard, frame: FrameId, kind: PageKind) {
        if !self.is_leaving(frame) {
            shard.push_free(&self.frames, frame, kind);
        }
    }

    /// Opens a block from the free list for a tenant's pages. Returns whether there was one. The caller holds no
    /// shard's lock.
    pub(crate) fn open_block(&self, tenant: &Tenant, kind: PageKind, now: Second) -> bool {
        let tenant_pages = self.tenant_pages(tenant);
        let Some(_opening) = tenant_pages.begin_opening(kind) else {
            return true; // another thread just opened one
        };
        if tenant.is_at_limit(1) {
            return false;
        }
        let owner = BlockOwner::Pages(tenant.id, kind);
        let Some(block) = self.arena.allocate(owner, self.arena.reserve(), now) else {
            return false;
        };
        tenant.gained_block();
        if kind == PageKind::Persistent {
            tenant.pinned_block();
        }
        self.sweep(block);
        self.frames.mark_touched(block);
        tenant_pages.open_block(kind, &self.arena, block);
        tenant_pages.fit(self.frames.per_block(), FitTiming::Grown);
        true
    }

    /// Gives a tenant's ephemeral pages another eviction.
    pub(crate) fn set_eviction(&self, tenant: &Tenant, kind: EvictionKind, now: Second) {
        self.tenant_pages(tenant)
            .set_eviction(kind, &self.frames, now);
    }

    /// Makes a pool for a tenant.
    ///
    /// # Errors
    ///
    /// There are too many pools.
    pub(crate) fn add_pool(
        &self,
        tenant: &Tenant,
        flags: PoolFlags,
        space: Option<Arc<SpillSpace>>,
    ) -> Result<PoolId, CreatePoolError> {
        let id = self.pools.add(tenant.id, flags, None, space)?;
        self.frames.of_pools().begin(id.slot);
        if flags.keeping && !flags.persistent {
            self.set_keeping(tenant);
        }
        Ok(id)
    }

    /// Records that a tenant has, or will have, a pool that keeps pages that are read.
    pub(crate) fn set_keeping(&self, tenant: &Tenant) {
        self.tenant_pages(tenant).set_keeping(&self.frames);
    }

    /// Resets the settings of a removed tenant.
    pub(crate) fn reset(&self, tenant: &Tenant) {
        if let Some(tenant_pages) = self.existing_tenant_pages(tenant) {
            tenant_pages.reset(&self.frames);
            self.drop_far_blocks_of(tenant);
            tenant_pages.far.set_borrowing(Borrowing::Allowed);
        }
    }

    /// A tenant's blocks of a kind, in the order of their numbers.
    fn all_blocks_of_kind(&self, tenant: &Tenant, kind: PageKind) -> Vec<BlockId> {
        let tenant_pages = self.existing_tenant_pages(tenant);
        tenant_pages.map_or_else(Vec::new, |tenant_pages| {
            tenant_pages.list(kind).all_blocks(&self.arena)
        })
    }

    /// Fits what is remembered of tenants' departed pages to the memory that they have. After a tenant shrinks, the
    /// surplus stays for some ten minutes, because pages that were flushed may come back.
    pub(crate) fn fit_all(&self, now: Second) {
        let fitting = match now.0.is_multiple_of(FORGETS_EVERY_SECS) {
            true => FitTiming::Later,
            false => FitTiming::Exact,
        };
        let tenant_pages = self.all_tenant_pages();
        tenant_pages.for_each(|tenant_pages| tenant_pages.fit(self.frames.per_block(), fitting));
    }

    /// The figures of a tenant's pages now, given what lives in its blocks.
    pub(crate) fn figures(&self, tenant: &Tenant, living: LiveTotals) -> PageFigures {
        let Some(tenant_pages) = self.existing_tenant_pages(tenant) else {
            return PageFigures::default();
        };
        let counts = tenant_pages.counts();
        let mut figures = PageFigures {
            tally: counts.sum(),
            on_disk: counts.on_disk(),
            same_filled: counts.same_filled(),
            at_lenders: counts.at_lenders(),
            ..PageFigures::default()
        };
        let per_block = u64::from(self.frames.per_block());
        let held = |kind| PageCount(u64::from(tenant_pages.blocks(kind)) * per_block);
        figures.used = PageCount(living.pages);
        figures.held_ephemeral = held(PageKind::Ephemeral);
        figures.held_persistent = held(PageKind::Persistent);
        figures.held_at_lenders = PageCount(u64::from(tenant.far_held()) * per_block);
        let frames = figures.held_ephemeral.0 + figures.held_persistent.0;
        figures.free = PageCount(frames.saturating_sub(figures.used.0));
        figures
    }

    /// Bytes of directories, frame table and ghosts. It locks each shard in turn, so it is for benches.
    pub(crate) fn overhead(&self) -> PageOverhead {
        let mut overhead = PageOverhead {
            frames: self.frames.bytes(),
            evacuated: self.evacuated.load(Ordering::Relaxed),
            ..PageOverhead::default()
        };
        for tenant_pages in self.all_tenant_pages() {
            overhead.ghosts += tenant_pages.order_bytes();
            for shard in tenant_pages.shards() {
                let shard = shard.lock();
                overhead.directory += shard.directory.bytes() + shard.rows.bytes();
                overhead.ghosts += shard.eviction.ghost_bytes();
            }
        }
        overhead
    }
}

/// The interval in seconds after which a sixteenth of what is remembered for lost frames is forgotten: half of it in 12
/// minutes.
const FORGETS_EVERY_SECS: u32 = 64;
