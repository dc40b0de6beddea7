//! The store: one arena, the tenants that own its memory, and the engines that keep items and pages in it.
//!
//! Each thread works on the store through its own handle, a [`Worker`](crate::Worker).

mod figures;
mod leases;
mod pools;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sublet_types::{BLOCK_BYTES, Bytes, Second, ShrinkMode, TenantId, TenantName, TenantSettings};

use crate::api::*;
use crate::arena::{Arena, BlockOwner, MappedMemory, Memory};
use crate::engine::Engines;
use crate::floors::FloorFigures;
use crate::items::{BLOCKS_MAX, EvictionListener, Items};
use crate::lent::LentBlocks;
use crate::pages::PageStore;
use crate::reclaim::capacity;
use crate::settings::StoreSettings;
use crate::tenants::{Tenant, Tenants};

/// The index of each engine.
pub(crate) const PAGES: usize = 0;
pub(crate) const ITEMS: usize = 1;

/// The store, shared by all threads.
pub struct Store {
    pub(crate) arena: Arc<Arena>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) items: Items,
    pub(crate) pages: PageStore,
    pub(crate) lent: LentBlocks,
    /// Whether tenants over their targets are brought down to them.
    pub(crate) shrinks: AtomicBool,
    /// The last second whose chores were done.
    last_chores: AtomicU32,
}

impl Store {
    /// An empty store over memory of this process. It holds one block, for its index.
    ///
    /// # Errors
    ///
    /// The kernel refuses the address space (strict overcommit) or the first block.
    pub fn new(settings: StoreSettings) -> std::io::Result<Arc<Store>> {
        Store::in_blocks(Bytes(BLOCK_BYTES), settings)
    }

    /// An empty store in blocks of another size, a power of two from 64 KiB to 2 MiB. Small blocks suit a small store.
    ///
    /// # Errors
    ///
    /// Those of [`Store::new`].
    pub fn in_blocks(block: Bytes, settings: StoreSettings) -> std::io::Result<Arc<Store>> {
        let block_bytes = block.0 as usize;
        let least = ARENA_MIN.0 as usize / block_bytes;
        let blocks = (settings.capacity.0 as usize / block_bytes).clamp(least, BLOCKS_MAX);
        let memory = MappedMemory::reserve(blocks * block_bytes, BLOCK_BYTES as usize)?;
        Store::over(Box::new(memory), block_bytes, settings)
            .ok_or_else(|| std::io::ErrorKind::OutOfMemory.into())
    }

    /// A store over any memory, in blocks of a power of two from 64 KiB to 2 MiB. Returns `None` if the memory does not
    /// even give a block for the index.
    pub fn over(
        memory: Box<dyn Memory>,
        block_bytes: usize,
        settings: StoreSettings,
    ) -> Option<Arc<Store>> {
        let first = Bytes(block_bytes as u64).max(settings.limit);
        let arena = Arena::new(memory, block_bytes, first);
        arena.grow().ok()?;
        let index = arena.allocate(BlockOwner::None, 0, Second(0))?;
        arena.set_limit(settings.limit);
        let (arena, tenants) = (Arc::new(arena), Arc::new(Tenants::new(block_bytes)));
        let pages = PageStore::new(Arc::clone(&arena), Arc::clone(&tenants), &settings).ok()?;
        let items = Items::new(Arc::clone(&arena), Arc::clone(&tenants), index, &settings);
        let lent = LentBlocks::new(Arc::clone(&arena), settings.pages.page_bytes);
        Some(Arc::new(Store {
            lent,
            arena,
            tenants,
            items,
            pages,
            shrinks: AtomicBool::new(true),
            last_chores: AtomicU32::new(0),
        }))
    }

    /// Keeps the arena and the table of its frames off the host's swap. Memory that must be read from a disk first is
    /// worth nothing here, and the host gets it back instead.
    ///
    /// # Errors
    ///
    /// The process may not lock this much memory (`RLIMIT_MEMLOCK`, `CAP_IPC_LOCK`).
    pub fn lock_in_memory(&self) -> std::io::Result<()> {
        self.arena.lock()?;
        self.pages.frames.lock()
    }

    /// Adds a tenant.
    pub fn add_tenant(&self, settings: TenantSettings) -> Result<TenantId, TenantError> {
        let id = self.tenants.add(settings)?;
        // A tenant that gets a used number inherits nothing of the tenant that had it before.
        if let Some(tenant) = self.tenants.get(id) {
            self.pages.reset(tenant);
            self.items.reset(tenant);
        }
        Ok(id)
    }

    /// Removes a tenant. Its name no longer finds it, and what it holds goes back. A tenant that is added later may get
    /// its number, whatever its name. End its pools first, and let nobody act for it any more.
    pub fn remove_tenant(&self, id: TenantId) {
        if let Some(tenant) = self.tenants.get(id) {
            tenant.retire();
        }
    }

    /// The tenant with that name.
    pub fn tenant(&self, name: &TenantName) -> Option<TenantId> {
        self.tenants.by_name(name).map(|tenant| tenant.id)
    }

    /// Returns whether [`set_tenant`](Store::set_tenant) would accept these settings now.
    pub fn check_tenant(&self, id: TenantId, settings: &TenantSettings) -> Result<(), TenantError> {
        let tenant = self.tenants.get(id).ok_or(TenantError::Unknown)?;
        tenant.check(settings)
    }

    /// Changes weight, floor and ceiling.
    pub fn set_tenant(&self, id: TenantId, settings: TenantSettings) -> Result<(), TenantError> {
        self.tenants
            .get(id)
            .ok_or(TenantError::Unknown)?
            .set(&settings)
    }

    /// The engines, each at its index.
    pub(crate) fn engines(&self) -> Engines<'_> {
        [&self.pages, &self.items]
    }

    /// Claims the chores of a second for the caller. Returns when the chores were done before, or `None` if another
    /// caller has claimed this second.
    pub(crate) fn begin_second(&self, now: Second) -> Option<Second> {
        let before = self.last_chores.fetch_max(now.0, Ordering::Relaxed);
        (before < now.0).then_some(Second(before))
    }

    pub(crate) fn bytes(&self, blocks: u32) -> Bytes {
        self.bytes_of(blocks.into())
    }

    fn bytes_of(&self, blocks: u64) -> Bytes {
        Bytes(blocks * self.arena.block_bytes() as u64)
    }

    pub(crate) fn blocks(&self, bytes: Bytes) -> u32 {
        bytes
            .0
            .div_ceil(self.arena.block_bytes() as u64)
            .min(u64::from(u32::MAX)) as u32
    }

    /// What the arena may hold now.
    pub fn limit(&self) -> Bytes {
        self.bytes(self.arena.limit())
    }

    /// What the arena holds now.
    pub fn held(&self) -> Bytes {
        self.bytes(self.arena.held())
    }

    /// What a tenant is granted now.
    pub fn tenant_settings(&self, id: TenantId) -> Option<TenantSettings> {
        self.tenants.get(id).map(Tenant::settings)
    }

    /// What each tenant is granted now.
    pub fn all_settings(&self) -> Vec<(TenantId, TenantSettings)> {
        let present = self.tenants.present();
        present
            .map(|tenant| (tenant.id, tenant.settings()))
            .collect()
    }

    /// What each tenant holds now.
    pub fn all_held(&self) -> Vec<(TenantId, Bytes)> {
        let present = self.tenants.present();
        present
            .map(|tenant| (tenant.id, self.bytes(tenant.held())))
            .collect()
    }

    /// The sum of all floors, and the room for them.
    pub fn floors(&self) -> FloorFigures {
        let room = capacity(&self.arena, &self.engines());
        FloorFigures {
            asked: Bytes(self.tenants.promised(room).requested() * room.block_bytes as u64),
            room: self.bytes(room.blocks),
        }
    }

    /// Notifies a listener of each item of a tenant that is evicted, for as long as the listener lives. Items of blocks
    /// that are released whole are not reported. Returns `None` if there is no such tenant.
    pub fn listen(&self, tenant: TenantId) -> Option<EvictionListener> {
        let tenant = self.tenants.get(tenant)?;
        Some(self.items.listen(tenant))
    }

    /// Sets what happens to tenants that hold more than their targets.
    pub fn set_shrinking(&self, shrinking: ShrinkMode) {
        let shrinks = shrinking == ShrinkMode::Active;
        self.shrinks.store(shrinks, Ordering::Relaxed);
    }

    /// Sets how much the arena may hold from now on. It gives nothing back; [`Worker::release`](crate::Worker::release)
    /// does that.
    pub fn set_limit(&self, limit: Bytes) {
        self.arena.set_limit(limit);
    }

    /// Asks the kernel for memory ahead of use: one block per call, at most 64 MiB ahead. Returns whether there is more
    /// to do. Call it from a thread of its own, so that no set waits for the kernel.
    pub fn populate(&self) -> bool {
        self.arena.populate_ahead()
    }
}
